// SPDX-License-Identifier: BSD-3-Clause
//! The presets for `-t`: the same commands and keys as redis-benchmark's tests, so that results
//! compare.

use crate::distributions::Pattern;
use crate::request::{Keys, RequestKind, Template};

/// A named test.
pub struct Preset {
    /// The name for `-t`.
    pub name: &'static str,
    /// The name in results.
    pub title: &'static str,
    command: &'static str,
}

const fn named(name: &'static str, title: &'static str, command: &'static str) -> Preset {
    Preset { name, title, command }
}

/// All tests, in the order in which they run: those that fill a key come before those that read it.
pub const ALL: &[Preset] = &[
    named("ping_inline", "PING_INLINE", ""),
    named("ping_mbulk", "PING_MBULK", "PING"),
    named("set", "SET", "SET key:__rand_int__ __data__"),
    named("get", "GET", "GET key:__rand_int__"),
    named("incr", "INCR", "INCR counter:__rand_int__"),
    named("lpush", "LPUSH", "LPUSH mylist __data__"),
    named("rpush", "RPUSH", "RPUSH mylist __data__"),
    named("lpop", "LPOP", "LPOP mylist"),
    named("rpop", "RPOP", "RPOP mylist"),
    named("sadd", "SADD", "SADD myset element:__rand_int__"),
    named("hset", "HSET", "HSET myhash element:__rand_int__ __data__"),
    named("spop", "SPOP", "SPOP myset"),
    named("zadd", "ZADD", "ZADD myzset __score__ element:__rand_int__"),
    named("zpopmin", "ZPOPMIN", "ZPOPMIN myzset"),
    named("lrange", "LPUSH (needed to benchmark LRANGE)", "LPUSH mylist __data__"),
    named("lrange_100", "LRANGE_100 (first 100 elements)", "LRANGE mylist 0 99"),
    named("lrange_300", "LRANGE_300 (first 300 elements)", "LRANGE mylist 0 299"),
    named("lrange_500", "LRANGE_500 (first 500 elements)", "LRANGE mylist 0 499"),
    named("lrange_600", "LRANGE_600 (first 600 elements)", "LRANGE mylist 0 599"),
    named("mset", "MSET (10 keys)", "MSET"),
    named("mget", "MGET (10 keys)", "MGET"),
    named("xadd", "XADD", "XADD mystream * myfield __data__"),
];

/// Tests that run only if selected by name.
const ON_REQUEST: [&str; 1] = ["mget"];
/// Number of keys in one MSET or MGET.
const MANY: usize = 10;

/// The tests selected by a list of names; without a list, all default tests. `ping` selects both
/// PING tests; `lrange` and each `lrange_N` include the test that fills their list.
///
/// # Errors
/// If a name is unknown. The text is for the user.
pub fn select(list: Option<&str>) -> Result<Vec<&'static Preset>, String> {
    let Some(list) = list else {
        return Ok(ALL.iter().filter(|test| !ON_REQUEST.contains(&test.name)).collect());
    };
    let wanted: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
    let stands_for = |wanted: &str, test: &Preset| {
        test.name == wanted
            || (wanted == "ping" && test.name.starts_with("ping_"))
            || (wanted == "lrange" && test.name.starts_with("lrange"))
            || (wanted.starts_with("lrange_") && test.name == "lrange")
    };
    for name in &wanted {
        if !ALL.iter().any(|test| stands_for(name, test)) {
            let known: Vec<&str> = ALL.iter().map(|test| test.name).collect();
            return Err(format!("unknown test '{name}': use {}", known.join(", ")));
        }
    }
    Ok(ALL.iter().filter(|test| wanted.iter().any(|wanted| stands_for(wanted, test))).collect())
}

impl Preset {
    /// The requests.
    pub fn kind(&self, keys: &Keys, pattern: Pattern) -> RequestKind {
        let key = "key:__rand_int__";
        let score = if keys.count.is_some() { "__rand_int__" } else { "0" };
        let words: Vec<&str> = match self.name {
            "mset" => std::iter::once("MSET").chain([key, "__data__"].repeat(MANY)).collect(),
            "mget" => std::iter::once("MGET").chain([key].repeat(MANY)).collect(),
            _ => self.command.split(' ').map(|word| if word == "__score__" { score } else { word }).collect(),
        };
        let template = match self.name {
            "ping_inline" => Template::raw("PING\r\n"),
            _ => Template::new(&words, keys),
        };
        RequestKind { name: self.title.to_owned(), template, weight: 1, pattern }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: Option<&str>) -> Vec<&'static str> {
        select(list).unwrap().iter().map(|test| test.name).collect()
    }

    #[test]
    fn lists_select_tests_in_their_order() {
        assert_eq!(names(Some("get,SET")), ["set", "get"]);
        assert_eq!(names(Some("ping")), ["ping_inline", "ping_mbulk"]);
        assert_eq!(names(Some("lrange_300")), ["lrange", "lrange_300"]);
        assert_eq!(names(None).len(), ALL.len() - ON_REQUEST.len());
        assert!(select(Some("get,nothing")).is_err_and(|error| error.contains("'nothing'")));
    }
}
