//! GEOSEARCH and GEOSEARCHSTORE.

use braid_base::number;
use braid_containers::geohash::{Position, Search, Shape};
use braid_containers::sorted_set::View;
use braid_engine::{Call, CommandError, CommandResult};

use super::found::{Wishes, answer};
use super::{position, radius_and_unit, unit};
use crate::sorted_set;

/// Where a search starts from.
enum Centre {
    At(Position),
    /// At a member of a key that is not there.
    Nowhere,
}

pub fn geosearch(call: &mut Call) -> CommandResult {
    let args = call.args;
    search(call, args[1], &args[2..], None)
}

pub fn geosearchstore(call: &mut Call) -> CommandResult {
    let args = call.args;
    search(call, args[2], &args[3..], Some(args[1]))
}

/// What the options of a search say.
#[derive(Default)]
struct Request<'a> {
    wishes: Wishes<'a>,
    centre: Option<Centre>,
    /// A circle or rectangle, and metres per unit of its measures.
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
            rest = match after {
                _ if request.wishes.read_word(option) => after,
                _ if stores && is("STOREDIST") => {
                    request.wishes.store_distance = true;
                    after
                }
                [count, after @ ..] if is("COUNT") => {
                    request.wishes.read_count(count)?;
                    after
                }
                [member, after @ ..]
                    if is("FROMMEMBER") && !has_polygon && !request.is_from_coordinates(options, rest) =>
                {
                    request.centre = Some(member_centre(view, member)?);
                    after
                }
                [longitude, latitude, after @ ..]
                    if is("FROMLONLAT") && !has_polygon && !request.is_from_member(options, rest) =>
                {
                    request.centre = Some(Centre::At(position(longitude, latitude)?));
                    after
                }
                [radius, unit, after @ ..]
                    if is("BYRADIUS")
                        && !has_polygon
                        && !matches!(request.shape, Some((Shape::Rectangle { .. }, _))) =>
                {
                    let (radius, metres) = radius_and_unit(radius, unit)?;
                    request.shape = Some((Shape::Circle { radius }, metres));
                    after
                }
                [width, height, unit, after @ ..]
                    if is("BYBOX")
                        && !has_polygon
                        && !matches!(request.shape, Some((Shape::Circle { .. }, _))) =>
                {
                    request.shape = Some(rectangle(width, height, unit)?);
                    after
                }
                [count, after @ ..]
                    if is("BYPOLYGON") && request.centre.is_none() && request.shape.is_none() =>
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
