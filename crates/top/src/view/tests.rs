// SPDX-License-Identifier: BSD-3-Clause
//! Views of recorded servers.

use super::*;
use crate::recorded;
use crate::sample::Process;
use braid_client::Info;
use std::time::Duration;

fn view(name: &str) -> View {
    let (before, after) = recorded::pair(name);
    View::between(&before, &after)
}

#[test]
fn rates_match_the_recorded_load() {
    for name in ["braid", "redis-7.0", "redis-8.0", "valkey-9.1"] {
        let view = view(name);
        assert!((1.9..2.5).contains(&view.seconds), "{name}: {}", view.seconds);
        // 20,000 of SET and GET, 300 of HSET.
        assert!(
            (19_000.0..21_500.0).contains(&view.totals.commands_rate),
            "{name}: {}",
            view.totals.commands_rate
        );
        let rate =
            |command: &str| view.commands.iter().find(|row| row.name == command).map_or(0.0, |row| row.rate);
        assert!((3_500.0..4_500.0).contains(&rate("set")), "{name}: {}", rate("set"));
        assert!((15_000.0..17_000.0).contains(&rate("get")), "{name}: {}", rate("get"));
        assert!((250.0..350.0).contains(&rate("hset")), "{name}: {}", rate("hset"));
        assert_eq!(view.commands[0].name, "get", "{name}: the most frequent stands first");
        assert!(
            view.commands[0].percentiles.iter().any(|(name, value)| name == "p99" && *value > 0.0),
            "{name}"
        );
        assert!(view.totals.hit_ratio().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)), "{name}");
        assert!(view.totals.user + view.totals.system > 0.0, "{name}");
        assert!(view.memory.used > 100_000.0 && view.memory.resident > 0.0, "{name}");
        assert_eq!(view.databases[0].name, "db0", "{name}");
        assert!(view.seconds > 0.0 && view.uptime_seconds > 0.0, "{name}");
    }
}

#[test]
fn view_shows_the_threads_each_server_reports() {
    let names = |view: &View| view.threads.iter().map(|row| row.name.clone()).collect::<Vec<_>>();

    let braid = view("braid");
    assert_eq!((braid.server.as_str(), braid.model.as_deref()), ("braid 0.1.0", Some("parallel")));
    assert_eq!(names(&braid), ["io 0", "io 1"]);
    let commands: f64 = braid.threads.iter().filter_map(|row| row.commands_rate).sum();
    assert!((commands / braid.totals.commands_rate - 1.0).abs() < 0.01, "{commands}");
    for row in &braid.threads {
        let (useful, processor) = (row.useful.unwrap(), row.processor().unwrap());
        assert!(
            useful > 0.0 && useful <= 1.0 && processor > 0.0 && row.user.is_some() && row.system.is_some()
        );
        assert!(row.lock_waits_rate.is_some() && row.input_rate.unwrap() > 0.0);
    }

    let redis = view("redis-8.0");
    assert_eq!((redis.server.as_str(), &redis.model), ("redis 8.0.6", &None));
    assert_eq!(names(&redis), ["main", "io 1"]);
    assert_eq!(redis.threads[1].clients, Some(17.0));
    assert!(redis.threads[1].reads_rate.unwrap() > 1000.0 && redis.threads[1].commands_rate.is_none());
    assert!(redis.threads[0].processor().unwrap() > 0.0);

    let valkey = view("valkey-9.1");
    assert!(valkey.server.starts_with("valkey 9.1"));
    assert_eq!(names(&valkey), ["main", "io 1"]);
    assert!(valkey.threads[0].useful.unwrap() > 0.0);
    assert_eq!(valkey.threads[1].useful, Some(0.0));

    let old = view("redis-7.0");
    assert_eq!(names(&old), ["main"]);
    assert!(old.threads[0].processor().unwrap() > 0.0);
}

#[test]
fn one_look_gives_rates_since_the_start() {
    let (_, sample) = recorded::pair("braid");
    let view = View::between(&sample, &sample);
    let processed = sample.info.number("total_commands_processed").unwrap();
    let uptime = sample.info.number("uptime_in_seconds").unwrap();
    assert!((view.totals.commands_rate - processed / uptime).abs() < 1e-6);
    assert!(view.commands.iter().any(|row| row.name == "set" && row.rate > 0.0));
    assert!(view.threads[0].commands_rate.unwrap() > 0.0);
}

#[test]
fn counters_that_were_reset_count_from_zero() {
    let (mut before, after) = recorded::pair("braid");
    before.info = Info::parse("total_commands_processed:99999999\ncmdstat_get:calls=99999999,usec=5\n");
    let view = View::between(&before, &after);
    let processed = after.info.number("total_commands_processed").unwrap();
    assert!((view.totals.commands_rate - processed / view.seconds).abs() < 1e-6);
    assert!(view.commands.iter().all(|row| row.rate >= 0.0 && row.share >= 0.0));
}

#[test]
fn threads_of_this_machine_have_the_systems_times() {
    let (mut before, mut after) = recorded::pair("valkey-9.1");
    let task = |id, name: &str, millis| Task { id, name: name.into(), time: Duration::from_millis(millis) };
    let process = |main, io, other| Process {
        id: 10,
        tasks: vec![
            task(10, "valkey-server", main),
            task(11, "io_thd_1", io),
            task(12, "bio_aof", other),
            task(13, "idle", 0),
        ],
    };
    before.process = Some(process(0, 100, 50));
    after.process = Some(process(0, 1100, 250));
    let view = View::between(&before, &after);
    let names: Vec<&str> = view.threads.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["main", "io 1", "bio_aof"]);
    assert!((view.threads[1].user.unwrap() - 1.0 / view.seconds).abs() < 1e-9);
    assert_eq!(view.threads[2].number, None);
    // The main thread's own values, which distinguish user and system time, take precedence.
    assert!(view.threads[0].system.is_some());
}

#[test]
fn indexes_in_the_making_are_shown() {
    let third = |text: &str| {
        let sample = Sample { at: 1.0, info: Info::parse(text), ..Sample::default() };
        let view = View::between(&sample, &Sample { at: 2.0, ..sample.clone() });
        crate::screen::summary(&view, "-")[2].clone()
    };
    let building = third("search_number_of_indexes_indexing:2\r\nsearch_percent_indexed:43\r\n");
    assert!(building.ends_with("  indexes building 2 (43 %)"), "{building}");
    let idle = third("search_number_of_indexes_indexing:0\r\nsearch_percent_indexed:100\r\n");
    assert!(!idle.contains("indexes"), "{idle}");
}

#[test]
fn server_with_minimal_info_is_shown() {
    let sample = Sample { at: 1.0, info: Info::parse("redis_version:1.0\r\n"), ..Sample::default() };
    let view = View::between(&sample, &Sample { at: 2.0, ..sample.clone() });
    assert_eq!(view.server, "redis 1.0");
    assert_eq!(view.threads.len(), 1);
    assert!(
        view.commands.is_empty() && view.totals.hit_ratio().is_none() && view.memory.fragmentation.is_none()
    );
}
