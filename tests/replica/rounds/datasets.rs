// SPDX-License-Identifier: BSD-3-Clause
//! Equality of two servers' datasets, as far as replication guarantees it.

use braid_tests::RawClient;
use braid_tests::wait::{PATIENCE, wait_for_within};

use super::commands::Commands;
use crate::{dataset_of, panic_with_difference};

/// Waits until both have the same dataset, created by these commands.
#[track_caller]
pub fn assert_same(primary: &mut RawClient, replica: &mut RawClient, commands: &Commands) {
    let told = if commands.has_stock() { without_unshared } else { |content| content };
    let dataset = |client: &mut RawClient| dataset_of(client, commands.has_times_of_fields(), told);
    if !wait_for_within(PATIENCE, || dataset(primary) == dataset(replica)) {
        panic_with_difference(&dataset(primary), &dataset(replica));
    }
}

/// Removes the state that stock primaries do not replicate: consumers without entries, the number
/// and times of redeliveries, and a group's count of entries read.
fn without_unshared(content: Vec<String>) -> Vec<String> {
    const IDLE: [&str; 3] = ["\"pel-count\"", "(integer) 0", "\"pending\""];
    // Times in milliseconds since the Unix epoch, such as delivery times.
    let is_time = |line: &str| {
        let number = line.strip_prefix("(integer) ").and_then(|number| number.parse::<i64>().ok());
        number.is_some_and(|number| number > 1_000_000_000_000)
    };
    let mut told = Vec::new();
    let mut rest = &content[..];
    let groups = content.iter().position(|line| line == "\"groups\"").unwrap_or(content.len());
    while let Some(line) = rest.first() {
        let at = content.len() - rest.len();
        let is_idle = line == "\"name\"" && rest.get(2..5).is_some_and(|next| next == IDLE);
        rest = match &line[..] {
            _ if at < groups => {
                told.push(line.clone());
                &rest[1..]
            }
            "\"entries-read\"" => &rest[2..],
            _ if is_idle => &rest[5..],
            // Together with the delivery count.
            line if is_time(line) => rest.get(2..).unwrap_or_default(),
            _ => {
                told.push(line.clone());
                &rest[1..]
            }
        };
    }
    told
}

#[test]
fn stream_fields_not_shared_by_stock_servers_are_omitted() {
    let content = |text: &str| text.split(' ').map(|word| word.replace('_', " ")).collect::<Vec<_>>();
    let seen = "stream [] \"entries-read\" 7 \"groups\" \"name\" \"g\" \"entries-read\" 1 \"pending\" \"1-1\" \"a\" \
                (integer)_1795437240777 (integer)_2 \"consumers\" \"name\" \"a\" \"pel-count\" (integer)_1 \"pending\" \
                \"name\" \"b\" \"pel-count\" (integer)_0 \"pending\"";
    let left = "stream [] \"entries-read\" 7 \"groups\" \"name\" \"g\" \"pending\" \"1-1\" \"a\" \"consumers\" \
                \"name\" \"a\" \"pel-count\" (integer)_1 \"pending\"";
    assert_eq!(without_unshared(content(seen)), content(left));
}
