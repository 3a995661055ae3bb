// SPDX-License-Identifier: BSD-3-Clause
//! Search results: collecting, sorting, replying, storing.

use braid_containers::geohash::{Position, Search};
use braid_containers::listpack::Element;
use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::{AddRule, ScoreBound, ScoreRange, SortedSet, View};

use super::{reply_distance, reply_position};
use crate::sorted_set::{self, reply_member};

/// The options shared by all searches.
#[derive(Default)]
pub struct SearchOptions<'a> {
    pub with_distance: bool,
    pub with_hash: bool,
    pub with_position: bool,
    /// Stop once enough members are found, whichever they are (ANY).
    pub any: bool,
    /// Order by ascending or descending distance.
    pub order: Option<Order>,
    /// Maximum number of members; 0: no limit.
    pub count: usize,
    pub store: Option<&'a [u8]>,
    /// Store distances instead of positions.
    pub store_distance: bool,
}

/// The order of the results, by distance from the centre.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    Ascending,
    Descending,
}

impl SearchOptions<'_> {
    /// Parses an option without an argument; false if it is none of these.
    pub fn read_word(&mut self, option: &[u8]) -> bool {
        match option.to_ascii_uppercase().as_slice() {
            b"WITHDIST" => self.with_distance = true,
            b"WITHHASH" => self.with_hash = true,
            b"WITHCOORD" => self.with_position = true,
            b"ANY" => self.any = true,
            b"ASC" => self.order = Some(Order::Ascending),
            b"DESC" => self.order = Some(Order::Descending),
            _ => return false,
        }
        true
    }

    /// Parses COUNT's number.
    pub fn read_count(&mut self, text: &[u8]) -> CommandResult {
        let count = braid_base::number::parse_i64(text).ok_or(CommandError::NotAnInteger)?;
        self.count = usize::try_from(count)
            .ok()
            .filter(|&count| count > 0)
            .ok_or(CommandError::text("ERR COUNT must be > 0"))?;
        Ok(())
    }

    /// Refuses storing combined with a detailed reply. `who` names the storing option or command.
    pub fn check_store(&self, who: &str) -> CommandResult {
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            return Err(CommandError::text(format!(
                "ERR {who} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        Ok(())
    }

    /// Refuses ANY without COUNT.
    pub fn check_any(&self) -> CommandResult {
        if self.any && self.count == 0 {
            return Err(CommandError::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }
}

struct FoundMember<'v> {
    member: Element<'v>,
    position: Position,
    /// In the command's unit; 0 if not requested.
    distance: f64,
    score: f64,
}

/// The members inside the shape in the order of the ranges, at most `most` unless it is 0; with
/// their distances if `wanted`.
fn gather<'v>(view: &'v View<'_>, search: &Search, most: usize, wanted: bool) -> Vec<FoundMember<'v>> {
    let mut places = Vec::new();
    for range in search.ranges() {
        let scores =
            ScoreRange { min: ScoreBound::Inclusive(range.start), max: ScoreBound::Exclusive(range.end) };
        for (member, score) in view.iter(view.ranks_by_score(&scores)) {
            let position = Position::from_score(score);
            let found = if wanted {
                search.distance_if_inside(position)
            } else {
                search.contains(position).then_some(0.0)
            };
            if let Some(distance) = found {
                places.push(FoundMember { member, position, distance, score });
                if places.len() == most {
                    return places;
                }
            }
        }
    }
    places
}

/// Searches the members of a key, which the command has looked up to check it, and replies with
/// the results or stores them. Without a search (the key or the centre member is missing) there
/// are no results.
pub fn answer(
    call: &mut Call,
    key: &[u8],
    search: Option<&Search>,
    options: &SearchOptions<'_>,
) -> CommandResult {
    let view = sorted_set::find_again(call.keyspace, key)?;
    let order = match options.order {
        None if options.count > 0 && !options.any => Some(Order::Ascending),
        order => order,
    };
    let distances = options.with_distance || options.store_distance || order.is_some();
    let mut places = match (&view, search) {
        (Some(view), Some(search)) => {
            gather(view, search, if options.any { options.count } else { 0 }, distances)
        }
        _ => Vec::new(),
    };
    if let Some(order) = order {
        places.sort_by(|one, other| {
            let ascending = one.distance.total_cmp(&other.distance);
            if order == Order::Ascending { ascending } else { ascending.reverse() }
        });
    }
    if options.count > 0 {
        places.truncate(options.count);
    }
    let Some(target) = options.store else {
        reply(call.reply, &places, options);
        return Ok(());
    };
    let limits = limits::sorted_set_limits(call.engine);
    let longest = places.iter().map(|place| place.member.text_len()).max().unwrap_or(0);
    let mut set = SortedSet::with_hints(places.len(), longest, &limits);
    let mut buffer = itoa::Buffer::new();
    for place in &places {
        let score = if options.store_distance { place.distance } else { place.score };
        set.add(place.member.text(&mut buffer), score, AddRule::default(), &limits);
    }
    let by_search = call.command.spec.name == "geosearchstore";
    let event = if by_search { "geosearchstore" } else { "georadiusstore" };
    let len = sorted_set::store(call.keyspace, Event::zset(event), target, set);
    call.reply.integer(len as i64);
    Ok(())
}

fn reply(reply: &mut ReplyBuffer, places: &[FoundMember<'_>], options: &SearchOptions<'_>) {
    let details = [options.with_distance, options.with_hash, options.with_position];
    let details = details.into_iter().filter(|wanted| *wanted).count();
    reply.array(places.len());
    for place in places {
        if details > 0 {
            reply.array(details + 1);
        }
        reply_member(reply, place.member);
        if options.with_distance {
            reply_distance(reply, place.distance);
        }
        if options.with_hash {
            reply.integer(place.score as i64);
        }
        if options.with_position {
            reply_position(reply, place.position);
        }
    }
}
