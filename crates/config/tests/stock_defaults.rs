// SPDX-License-Identifier: BSD-3-Clause
//! Every directive of a stock server exists here, with the same default text.

use braid_config::{Config, find_directive};

/// Braid uses all processors and returns memory by default; all other defaults are those of stock
/// servers.
const DIFFERENT: [&str; 2] = ["activedefrag", "io-threads"];

#[test]
fn names_and_defaults_match_stock_servers() {
    let config = Config::new();
    let listed = config.get(&["*"]);
    let mut hidden = false;
    let mut compared = 0;
    for line in include_str!("stock_defaults.txt").lines() {
        if line.starts_with('#') {
            hidden = line == "# hidden";
            continue;
        }
        let (name, default) = line.split_once('\t').expect("name and default");
        let answer = config.get(&[name]);
        assert_eq!(answer.len(), 1, "{name} is missing");
        assert_eq!(answer[0].0, name);
        if !DIFFERENT.contains(&name) {
            assert_eq!(answer[0].1, default, "default of {name}");
        }
        assert_eq!(listed.iter().any(|(listed, _)| listed == name), !hidden, "listing of {name}");
        compared += 1;
    }
    assert!(compared > 195, "{compared}");
}

/// Redis 8.2.3's other defaults.
const DIFFERENT_FROM_8: [&str; 5] = [
    "activedefrag",
    "hide-user-data-from-log",
    "io-threads",
    "loading-process-events-interval-bytes",
    "repl-rdb-channel",
];
/// A file cannot say that it is unset.
const UNSET: [&str; 2] = ["replicaof", "slaveof"];
/// Hidden in Redis 8.2.3, listed by Valkey and Braid.
const LISTED: [&str; 1] = ["prefetch-batch-max-size"];

/// A configuration file of Redis 8.2.3 with every directive in it starts Braid, and CONFIG GET
/// lists the same names.
#[test]
fn every_directive_of_redis_8_2_is_known() {
    let config = Config::new();
    let listed = config.get(&["*"]);
    let (mut hidden, mut compared, mut different) = (false, 0, Vec::new());
    for line in include_str!("redis_8_2_defaults.txt").lines() {
        if line.starts_with('#') {
            hidden = line == "# hidden";
            continue;
        }
        let (name, default) = line.split_once('\t').expect("name and default");
        let quoted =
            if matches!(name, "save" | "bind" | "client-output-buffer-limit" | "oom-score-adj-values") {
                default.to_owned()
            } else {
                format!("\"{default}\"")
            };
        if !UNSET.contains(&name) {
            let read = Config::new().load_text(&format!("{name} {quoted}"));
            assert!(read.is_ok(), "{name} {quoted}: {:?}", read.err());
        }
        let answer = config.get(&[name]);
        assert_eq!(answer.len(), 1, "{name} is missing");
        if answer[0].1 != default {
            different.push(name);
        }
        if !LISTED.contains(&name) {
            assert_eq!(listed.iter().any(|(listed, _)| listed == name), !hidden, "listing of {name}");
        }
        compared += 1;
    }
    assert_eq!(different, DIFFERENT_FROM_8);
    assert!(compared > 210, "{compared}");
}

/// As in Redis 8 and Valkey, which list both spellings; a tool that writes back what it does not
/// know as immutable is not refused.
#[test]
fn patterns_list_both_spellings_of_processor_lists() {
    let config = Config::new();
    let names: Vec<String> = config.get(&["*cpulist"]).into_iter().map(|(name, _)| name).collect();
    for name in ["aof-rewrite", "bgsave", "bio", "server"].map(|work| format!("{work}-cpulist")) {
        assert!(names.contains(&name) && names.contains(&name.replace('-', "_")), "{name}: {names:?}");
        assert!(config.set(&[(name.as_str(), "")]).is_ok(), "{name}");
        assert!(config.set(&[(name.as_str(), "1")]).is_err(), "{name}");
        assert!(config.set(&[(name.replace('-', "_").as_str(), "")]).is_err(), "{name}");
    }
    assert_eq!(names.len(), 8);
}

/// Tools write back all values that CONFIG GET shows, except those that they know to be fixed.
#[test]
fn directives_that_redis_lacks_may_be_given_their_own_values() {
    let known = |name: &str| {
        let has_name = |line: &str| line.split_once('\t').is_some_and(|(known, _)| known == name);
        name == "dir" || include_str!("stock_defaults.txt").lines().any(has_name)
    };
    let config = Config::new();
    let own = config.get(&["*"]).into_iter().filter(|(name, _)| !known(name));
    for (name, value) in own {
        let set = config.set(&[(name.as_str(), value.as_str())]);
        assert!(set.is_ok(), "{name}: {:?}", set.err());
    }
}

#[test]
fn own_defaults() {
    let config = Config::new();
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(256);
    assert_eq!(config.io_threads(), processors);
    assert_eq!(config.get_one("server-threads"), Some(processors.to_string()));
    assert_eq!(config.shards(), 1024);
    assert_eq!(config.get_one("threading-model").as_deref(), Some("parallel"));
    assert!(config.script_undeclared_keys());
    assert_eq!(config.get_one("dir"), std::env::current_dir().unwrap().to_str().map(str::to_owned));
    for name in ["shards", "threading-model", "io-threads", "server-thread-affinity", "server-cpulist"] {
        assert!(find_directive(name).is_some(), "{name}");
    }
}
