// SPDX-License-Identifier: BSD-3-Clause
//! GEOSEARCH and GEOSEARCHSTORE.

use braid_base::number;
use braid_containers::geohash::{Position, Search, Shape};
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::View;
use smallvec::SmallVec;

use super::found::{SearchOptions, answer};
use super::{position, radius_and_unit, unit};
use crate::decimal::journal_in_decimal;
use crate::sorted_set;

pub fn geosearch(call: &mut Call) -> CommandResult {
    let args = call.args;
    search(call, args[1], &args[2..], None)
}

pub fn geosearchstore(call: &mut Call) -> CommandResult {
    let args = call.args;
    search(call, args[2], &args[3..], Some(args[1]))?;
    let is_member = |index: usize| call.arg_is(index - 1, "FROMMEMBER");
    let numbers: SmallVec<[usize; 16]> = (3..args.len()).filter(|index| !is_member(*index)).collect();
    journal_in_decimal(call, numbers);
    Ok(())
}

/// The parsed options of a search.
#[derive(Default)]
struct Request<'a> {
    options: SearchOptions<'a>,
    from_member: bool,
    from_position: bool,
    /// `None` if the member's key is missing.
    centre: Option<Position>,
    /// A circle or rectangle, and the metres per unit of its lengths.
    shape: Option<(Shape, f64)>,
    polygon: Option<Vec<Position>>,
}

impl<'a> Request<'a> {
    fn parse(
        options: &[&'a [u8]],
        view: Option<&View<'_>>,
        stores: bool,
    ) -> Result<Request<'a>, CommandError> {
        let mut request = Request::default();
        let mut rest = options;
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let has_polygon = request.polygon.is_some();
            let has_circle = matches!(request.shape, Some((Shape::Circle { .. }, _)));
            let has_rectangle = matches!(request.shape, Some((Shape::Rectangle { .. }, _)));
            let has_centre = request.from_member || request.from_position;
            rest = match after {
                _ if request.options.read_word(option) => after,
                _ if stores && is("STOREDIST") => {
                    request.options.store_distance = true;
                    after
                }
                [count, after @ ..] if is("COUNT") => {
                    request.options.read_count(count)?;
                    after
                }
                [member, after @ ..] if is("FROMMEMBER") && !request.from_position && !has_polygon => {
                    request.from_member = true;
                    if let Some(view) = view {
                        let score = view
                            .score(member)
                            .ok_or(CommandError::text("ERR could not decode requested zset member"))?;
                        request.centre = Some(Position::from_score(score));
                    }
                    after
                }
                [longitude, latitude, after @ ..]
                    if is("FROMLONLAT") && !request.from_member && !has_polygon =>
                {
                    request.from_position = true;
                    request.centre = Some(position(longitude, latitude)?);
                    after
                }
                [radius, unit, after @ ..] if is("BYRADIUS") && !has_rectangle && !has_polygon => {
                    let (radius, metres) = radius_and_unit(radius, unit)?;
                    request.shape = Some((Shape::Circle { radius }, metres));
                    after
                }
                [width, height, unit, after @ ..] if is("BYBOX") && !has_circle && !has_polygon => {
                    request.shape = Some(rectangle(width, height, unit)?);
                    after
                }
                [count, after @ ..]
                    if is("BYPOLYGON") && !after.is_empty() && !has_centre && request.shape.is_none() =>
                {
                    let (vertices, after) = polygon(count, after)?;
                    request.polygon = Some(vertices);
                    after
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(request)
    }
}

fn rectangle(width: &[u8], height: &[u8], unit_name: &[u8]) -> Result<(Shape, f64), CommandError> {
    let width = number::parse_f64(width).ok_or(CommandError::text("ERR need numeric width"))?;
    let height = number::parse_f64(height).ok_or(CommandError::text("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::text("ERR height or width cannot be negative"));
    }
    Ok((Shape::Rectangle { width, height }, unit(unit_name)?))
}

/// Parses a polygon's vertices; also returns the options after them.
fn polygon<'s, 'a>(
    count: &[u8],
    rest: &'s [&'a [u8]],
) -> Result<(Vec<Position>, &'s [&'a [u8]]), CommandError> {
    let count = number::parse_i64(count)
        .and_then(|count| i32::try_from(count).ok())
        .ok_or(CommandError::text("ERR invalid number of vertices"))?;
    // Missing coordinates get the same text as too few vertices.
    let count = usize::try_from(count)
        .ok()
        .filter(|count| (3..=rest.len() / 2).contains(count))
        .ok_or(CommandError::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"))?;
    let (vertices, rest) = rest.split_at(count * 2);
    let vertices: Result<Vec<Position>, _> =
        vertices.chunks_exact(2).map(|pair| vertex(pair[0], pair[1])).collect();
    Ok((vertices?, rest))
}

/// Parses a vertex: a position, but as in Valkey not in hexadecimal digits.
fn vertex(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let is_hexadecimal = |text: &[u8]| text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    if is_hexadecimal(longitude) || is_hexadecimal(latitude) {
        return Err(CommandError::NotAFloat);
    }
    position(longitude, latitude)
}

fn search<'a>(
    call: &mut Call<'a, '_>,
    key: &[u8],
    options: &[&'a [u8]],
    target: Option<&'a [u8]>,
) -> CommandResult {
    let request = {
        let view = sorted_set::find(call.keyspace, key)?;
        let mut request = Request::parse(options, view.as_ref(), target.is_some())?;
        request.options.store = target;
        request
    };
    request.options.check_store("GEOSEARCHSTORE")?;
    let name = || String::from_utf8_lossy(call.args[0]);
    if request.polygon.is_none() && !request.from_member && !request.from_position {
        return Err(CommandError::text(format!(
            "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}",
            name()
        )));
    }
    if request.polygon.is_none() && request.shape.is_none() {
        return Err(CommandError::text(format!(
            "ERR exactly one of BYRADIUS and BYBOX can be specified for {}",
            name()
        )));
    }
    request.options.check_any()?;
    let search = match (request.polygon, request.centre, request.shape) {
        (Some(vertices), ..) => Search::polygon(vertices, 1.0),
        (None, Some(centre), Some((shape, metres))) => Some(Search::new(centre, shape, metres)),
        _ => None,
    };
    answer(call, key, search.as_ref(), &request.options)
}
