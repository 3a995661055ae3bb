// SPDX-License-Identifier: BSD-3-Clause
//! GEORADIUS, GEORADIUSBYMEMBER and their read-only forms.

use braid_containers::geohash::{Position, Search, Shape};
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult, KeyFlags};

use super::found::{SearchOptions, answer};
use super::{position, radius_and_unit};
use crate::decimal::journal_in_decimal;
use crate::sorted_set;

/// The key positions: the source, and the key after the last STORE or STOREDIST.
pub fn keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    let mut found = vec![(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
    let mut target = None;
    let mut at = 5;
    while at + 1 < args.len() {
        if matches!(args[at].to_ascii_uppercase().as_slice(), b"STORE" | b"STOREDIST") {
            target = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    found.extend(target.map(|index| (index, KeyFlags::OW.and(KeyFlags::UPDATE))));
    Some(found)
}

pub fn georadius(call: &mut Call) -> CommandResult {
    around_position(call, true)?;
    journal_in_decimal(call, [2, 3, 4]);
    Ok(())
}

pub fn georadius_ro(call: &mut Call) -> CommandResult {
    around_position(call, false)
}

pub fn georadiusbymember(call: &mut Call) -> CommandResult {
    around_member(call, true)?;
    journal_in_decimal(call, [3]);
    Ok(())
}

pub fn georadiusbymember_ro(call: &mut Call) -> CommandResult {
    around_member(call, false)
}

fn around_position(call: &mut Call, may_store: bool) -> CommandResult {
    let args = call.args;
    sorted_set::find(call.keyspace, args[1])?;
    let centre = position(args[2], args[3])?;
    let (radius, metres) = radius_and_unit(args[4], args[5])?;
    let options = parse_options(&args[6..], may_store)?;
    let search = Search::new(centre, Shape::Circle { radius }, metres);
    answer(call, args[1], Some(&search), &options)
}

fn around_member(call: &mut Call, may_store: bool) -> CommandResult {
    let args = call.args;
    // If the key is missing, not even radius and unit are checked.
    let search = match sorted_set::find(call.keyspace, args[1])? {
        None => None,
        Some(view) => {
            let score = view
                .score(args[2])
                .ok_or(CommandError::text("ERR could not decode requested zset member"))?;
            let (radius, metres) = radius_and_unit(args[3], args[4])?;
            Some(Search::new(Position::from_score(score), Shape::Circle { radius }, metres))
        }
    };
    let options = parse_options(&args[5..], may_store)?;
    answer(call, args[1], search.as_ref(), &options)
}

fn parse_options<'a>(args: &[&'a [u8]], may_store: bool) -> Result<SearchOptions<'a>, CommandError> {
    let mut options = SearchOptions::default();
    let mut rest = args;
    while let [option, after @ ..] = rest {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        rest = match after {
            _ if options.read_word(option) => after,
            [count, after @ ..] if is("COUNT") => {
                options.read_count(count)?;
                after
            }
            [key, after @ ..] if may_store && (is("STORE") || is("STOREDIST")) => {
                options.store = Some(key);
                options.store_distance = is("STOREDIST");
                after
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    options.check_store("STORE option in GEORADIUS")?;
    options.check_any()?;
    Ok(options)
}
