// SPDX-License-Identifier: BSD-3-Clause
//! HOTKEYS: the keys with the most processor time and traffic, found by sampling commands.
//!
//! Names, arguments and fields are those documented for Redis 8.6.

use braid_executor::{Call, Engine, Row};
use braid_spec::{CommandError, CommandResult, Flags, Group};
use braid_telemetry::hot_keys::{Options, Report, Totals};
use braid_telemetry::stats::Threads;

use super::system::{Whose, cpu_time};
use super::{BY_SUBCOMMAND, HELP, HELP_SUMMARY};

pub const HOTKEYS: Row = Row::container("hotkeys", Group::Server, SUBCOMMANDS).docs(
    "8.6.0",
    "Groups the commands that find the hottest keys.",
    BY_SUBCOMMAND,
);

const FLAGS: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
const TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];

const SUBCOMMANDS: &[Row] = &[
    Row::new("get", Group::Server, get)
        .exactly(2)
        .flags(FLAGS)
        .docs("8.6.0", "Returns the hottest keys and server-wide figures.", "O(K) where K is the number of hotkeys returned.")
        .tips(TIPS),
    Row::new("help", Group::Server, help).exactly(2).flags(HELP).docs("8.6.0", HELP_SUMMARY, "O(1)"),
    Row::new("reset", Group::Server, reset)
        .exactly(2)
        .flags(FLAGS)
        .docs("8.6.0", "Discards the results.", "O(1)"),
    Row::new("start", Group::Server, start)
        .at_least(2)
        .flags(FLAGS)
        .docs("8.6.0", "Starts tracking hot keys.", "O(1)")
        .syntax(
            "METRICS metrics:{count:integer [CPU] [NET]} [COUNT k:integer] [DURATION seconds:integer] [SAMPLE ratio:integer] \
             [SLOTS slots:{count:integer slot:integer...}]",
        ),
    Row::new("stop", Group::Server, stop)
        .exactly(2)
        .flags(FLAGS)
        .docs("8.6.0", "Stops tracking and keeps the results.", "O(1)"),
];

/// Number of keys in the report: by default, and at most.
const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: i64 = 1000;

fn totals(threads: &Threads) -> Totals {
    let time = cpu_time(Whose::Process);
    Totals::of(threads, (time.user, time.system))
}

/// The current report.
pub fn report(engine: &Engine) -> Option<Report> {
    engine.telemetry.hot_keys.report(&engine.telemetry.threads)
}

fn start(call: &mut Call) -> CommandResult {
    let options = parse(call)?;
    if !call.engine.telemetry.hot_keys.start(&call.engine.telemetry.threads, options, totals) {
        return Err(CommandError::text(
            "ERR hotkeys tracking is already in progress: stop it with HOTKEYS STOP",
        ));
    }
    call.reply.ok();
    Ok(())
}

fn parse(call: &Call) -> Result<Options, CommandError> {
    let mut options = Options { cpu: false, net: false, count: COUNT_DEFAULT, sample: 1, duration_ms: None };
    let args = call.args;
    let number = |at: usize, name: &str, most: i64| {
        let error = || CommandError::text(format!("ERR {name} must be a number from 1 to {most}"));
        let value = args.get(at).and_then(|text| braid_base::number::parse_i64(text)).ok_or_else(error)?;
        if (1..=most).contains(&value) { Ok(value) } else { Err(error()) }
    };
    let mut at = 2;
    let mut metrics = 0;
    while at < args.len() {
        let option = args[at].to_ascii_uppercase();
        match &*option {
            b"METRICS" if metrics == 0 => {
                metrics = number(at + 1, "METRICS count", 2)?;
                at += 2;
                for _ in 0..metrics {
                    let metric = args.get(at).map(|metric| metric.to_ascii_uppercase());
                    let known = match metric.as_deref() {
                        Some(b"CPU") => &mut options.cpu,
                        Some(b"NET") => &mut options.net,
                        _ => {
                            return Err(CommandError::text(
                                "ERR METRICS must be followed by its count of CPU and NET",
                            ));
                        }
                    };
                    if std::mem::replace(known, true) {
                        return Err(CommandError::text("ERR a metric is given twice"));
                    }
                    at += 1;
                }
                continue;
            }
            b"COUNT" => options.count = number(at + 1, "COUNT", COUNT_MAX)? as usize,
            b"SAMPLE" => options.sample = number(at + 1, "SAMPLE", 1_000_000)? as u32,
            b"DURATION" => options.duration_ms = Some(number(at + 1, "DURATION", 1_000_000_000)? * 1000),
            b"SLOTS" => {
                return Err(CommandError::text(match call.engine.config.cluster_enabled() {
                    true => "ERR SLOTS is not supported: all slots are tracked",
                    false => "ERR SLOTS parameter cannot be used in non-cluster mode",
                }));
            }
            _ => return Err(CommandError::Syntax),
        }
        at += 2;
    }
    if metrics == 0 {
        return Err(CommandError::text("ERR METRICS is required, with a count and CPU, NET or both"));
    }
    Ok(options)
}

fn stop(call: &mut Call) -> CommandResult {
    match call.engine.telemetry.hot_keys.stop(&call.engine.telemetry.threads) {
        true => call.reply.ok(),
        // Client libraries expect no error.
        false => call.reply.null(),
    }
    Ok(())
}

fn reset(call: &mut Call) -> CommandResult {
    if !call.engine.telemetry.hot_keys.reset() {
        return Err(CommandError::text("ERR hotkeys tracking is in progress: stop it with HOTKEYS STOP"));
    }
    call.reply.ok();
    Ok(())
}

fn get(call: &mut Call) -> CommandResult {
    let Some(report) = report(call.engine) else {
        call.reply.null();
        return Ok(());
    };
    let Report { options, totals, .. } = &report;
    let reply = &mut *call.reply;
    // Client libraries expect a list, as of several nodes' results.
    reply.array(1);
    let fields = reply.begin_map();
    let mut count = 0;
    let mut field = |reply: &mut braid_resp::reply::ReplyBuffer, name: &str, value: u128| {
        reply.bulk(name.as_bytes());
        reply.integer(i64::try_from(value).unwrap_or(i64::MAX));
        count += 1;
    };
    field(reply, "tracking-active", u128::from(report.is_active));
    field(reply, "sample-ratio", u128::from(options.sample));
    reply.bulk(b"selected-slots");
    reply.array(0);
    field(reply, "all-commands-all-slots-us", u128::from(totals.command_nanos / 1000));
    field(reply, "net-bytes-all-commands-all-slots", u128::from(totals.net_bytes));
    field(reply, "collection-start-time-unix-ms", report.began_ms as u128);
    field(reply, "collection-duration-ms", report.duration_ms as u128);
    if options.cpu {
        field(reply, "total-cpu-time-user-ms", totals.user.as_millis());
        field(reply, "total-cpu-time-sys-ms", totals.system.as_millis());
    }
    if options.net {
        field(reply, "total-net-bytes", u128::from(totals.net_bytes));
    }
    let mut count = count + 1;
    let lists = [
        ("by-cpu-time-us", options.cpu, &report.by_cpu, 1000),
        ("by-net-bytes", options.net, &report.by_net, 1),
    ];
    for (name, _, keys, unit) in lists.into_iter().filter(|list| list.1) {
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, weight) in keys {
            reply.bulk(key);
            reply.integer(i64::try_from(weight / unit).unwrap_or(i64::MAX));
        }
        count += 1;
    }
    reply.end_map(fields, count);
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "GET",
        "    Return the hottest keys and figures of the whole server for the same time.",
        "RESET",
        "    Discard the results.",
        "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
        "    Find the keys that cost the most processor time (CPU) and traffic (NET), sampling",
        "    one command in <ratio>. Ends after <seconds>, or with STOP.",
        "STOP",
        "    Stop tracking, and keep the results.",
    ])
}

#[cfg(test)]
mod tests {
    use braid_resp::reply::Protocol;

    use crate::testing::{Tester, check};

    #[test]
    fn words() {
        check(&[
            ("HOTKEYS GET", "$-1\r\n"),
            ("HOTKEYS STOP", "$-1\r\n"),
            ("HOTKEYS RESET", "+OK\r\n"),
            ("HOTKEYS START", "-ERR METRICS is required, with a count and CPU, NET or both\r\n"),
            ("HOTKEYS START METRICS 3 CPU NET CPU", "-ERR METRICS count must be a number from 1 to 2\r\n"),
            ("HOTKEYS START METRICS 2 CPU", "-ERR METRICS must be followed by its count of CPU and NET\r\n"),
            ("HOTKEYS START METRICS 2 CPU CPU", "-ERR a metric is given twice\r\n"),
            ("HOTKEYS START METRICS 1 CPU NET", "-ERR syntax error\r\n"),
            ("HOTKEYS START METRICS 1 CPU COUNT 0", "-ERR COUNT must be a number from 1 to 1000\r\n"),
            ("HOTKEYS START METRICS 1 CPU SAMPLE", "-ERR SAMPLE must be a number from 1 to 1000000\r\n"),
            (
                "HOTKEYS START METRICS 1 CPU SLOTS 1 3",
                "-ERR SLOTS parameter cannot be used in non-cluster mode\r\n",
            ),
            ("HOTKEYS start metrics 2 net cpu count 3 sample 10 duration 100", "+OK\r\n"),
            (
                "HOTKEYS START METRICS 1 CPU",
                "-ERR hotkeys tracking is already in progress: stop it with HOTKEYS STOP\r\n",
            ),
            ("HOTKEYS RESET", "-ERR hotkeys tracking is in progress: stop it with HOTKEYS STOP\r\n"),
            ("HOTKEYS STOP", "+OK\r\n"),
            ("HOTKEYS RESET", "+OK\r\n"),
            ("HOTKEYS GET", "$-1\r\n"),
        ]);
    }

    /// A metric's list in a HOTKEYS GET reply: keys with numbers.
    fn list(reply: &str, name: &str) -> Vec<(String, u64)> {
        let mut parts = reply.split("\r\n").skip_while(|part| *part != name).skip(1);
        let count: usize = parts
            .next()
            .and_then(|part| part.strip_prefix('*'))
            .map_or(0, |part| part.parse().expect("a count"));
        let pair = |parts: &mut dyn Iterator<Item = &str>| {
            let key = parts.nth(1).expect("a key").to_owned();
            (key, parts.next().expect("a number")[1..].parse().expect("a number"))
        };
        (0..count / 2).map(|_| pair(&mut parts)).collect()
    }

    #[test]
    fn hottest_keys_rank_first_for_every_kind_of_access() {
        let mut tester = Tester::new();
        for number in 0..2000 {
            tester.run(&format!("SET cold:{number} v"));
        }
        tester.run("HOTKEYS START METRICS 2 CPU NET COUNT 16");
        for number in 0..2000 {
            tester.run(&format!("GET cold:{number}"));
            tester.run("GET hot");
            tester.run("MGET warm a:0 a:1 a:2");
            if number % 2 == 0 {
                tester.run(&format!("SET big {}", "x".repeat(5000)));
                tester.run("MULTI");
                tester.run("INCR queued");
                tester.run("EXEC");
                tester.run("EVAL \"return redis.call('INCR', KEYS[1])\" 1 scripted");
            }
        }
        tester.run("HOTKEYS STOP");
        tester.run("GET hot");
        let reply = tester.run("HOTKEYS GET");
        assert!(reply.starts_with("*1\r\n*24\r\n$15\r\ntracking-active\r\n:0\r\n$12\r\nsample-ratio\r\n:1\r\n$14\r\nselected-slots\r\n*0\r\n"), "{reply}");
        let (by_cpu, by_net) = (list(&reply, "by-cpu-time-us"), list(&reply, "by-net-bytes"));
        assert_eq!((by_cpu.len(), by_net.len()), (16, 16), "{reply}");
        assert_eq!(by_net[0].0, "big");
        assert!((5_000_000..5_200_000).contains(&by_net[0].1), "{by_net:?}");
        let heavy = ["hot", "warm", "a:0", "a:1", "a:2", "big", "queued", "scripted"];
        // Keys in between may come from commands whose thread had to wait for a processor.
        let is_listed = |name: &&str| by_cpu.iter().any(|(key, _)| key == name);
        assert!(heavy.iter().all(is_listed), "{by_cpu:?}");
        assert!(by_cpu.is_sorted_by_key(|(_, nanos)| std::cmp::Reverse(*nanos)), "{by_cpu:?}");
        // A map where the protocol has maps.
        tester.speak(0, Protocol::Resp3);
        assert!(tester.run("HOTKEYS GET").starts_with("*1\r\n%12\r\n"));
    }

    #[test]
    fn samples_are_extrapolated_to_unsampled_commands() {
        let mut tester = Tester::new();
        tester.run("SET k v");
        tester.run("HOTKEYS START METRICS 1 NET SAMPLE 20");
        for _ in 0..20_000 {
            tester.run("GET k");
        }
        let reply = tester.run("HOTKEYS GET");
        let told = list(&reply, "by-net-bytes");
        // GET k is 20 bytes and its reply 7.
        let truth = 20_000.0 * 27.0;
        assert_eq!(told.len(), 1, "{reply}");
        assert!((told[0].1 as f64 / truth - 1.0).abs() < 0.15, "{told:?} of {truth}");
        assert!(!reply.contains("cpu"), "{reply}");
    }
}
