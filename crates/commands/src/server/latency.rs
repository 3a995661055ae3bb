// SPDX-License-Identifier: BSD-3-Clause
//! LATENCY: spikes from the latency monitor, and histograms for every command.

use std::collections::VecDeque;
use std::fmt::Write;

use braid_executor::{Call, Engine, Row};
use braid_spec::{Command, CommandError, CommandResult, Group};
use braid_telemetry::latency::Series;
use braid_telemetry::stats;

use super::{ADMIN, BY_SUBCOMMAND, HELP, HELP_SUMMARY};

pub const LATENCY: Row = Row::container("latency", Group::Server, SUBCOMMANDS).docs(
    "2.8.13",
    "Groups the commands of the latency monitor.",
    BY_SUBCOMMAND,
);

const REPORT: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

const SUBCOMMANDS: &[Row] = &[
    Row::new("doctor", Group::Server, doctor)
        .exactly(2)
        .flags(ADMIN)
        .docs("2.8.13", "Returns a report on latency spikes, with advice.", "O(1)")
        .tips(REPORT),
    Row::new("graph", Group::Server, graph)
        .exactly(3)
        .flags(ADMIN)
        .docs("2.8.13", "Draws the spikes of one event.", "O(1)")
        .tips(REPORT)
        .syntax("event:string"),
    Row::new("help", Group::Server, help).exactly(2).flags(HELP).docs("2.8.13", HELP_SUMMARY, "O(1)"),
    Row::new("histogram", Group::Server, histogram)
        .at_least(2)
        .flags(ADMIN)
        .docs(
            "7.0.0",
            "Returns how long commands took, as cumulative distributions.",
            "O(N) where N is the number of commands with latency information being retrieved.",
        )
        .tips(REPORT)
        .syntax("[COMMAND:string...]"),
    Row::new("history", Group::Server, history)
        .exactly(3)
        .flags(ADMIN)
        .docs("2.8.13", "Returns the spikes of one event.", "O(1)")
        .tips(REPORT)
        .syntax("event:string"),
    Row::new("latest", Group::Server, latest)
        .exactly(2)
        .flags(ADMIN)
        .docs("2.8.13", "Returns the latest spike of every event.", "O(1)")
        .tips(REPORT),
    Row::new("reset", Group::Server, reset)
        .at_least(2)
        .flags(ADMIN)
        .docs("2.8.13", "Clears the spikes of some or all events.", "O(1)")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum"])
        .syntax("[event:string...]"),
];

fn named(call: &Call) -> Option<Series> {
    call.engine.telemetry.latency.get(std::str::from_utf8(call.args[2]).ok()?)
}

fn history(call: &mut Call) -> CommandResult {
    let samples = named(call).unwrap_or_default().samples;
    call.reply.array(samples.len());
    for (time, millis) in samples {
        call.reply.array(2);
        call.reply.integer(time);
        call.reply.integer(i64::from(millis));
    }
    Ok(())
}

fn latest(call: &mut Call) -> CommandResult {
    let all = call.engine.telemetry.latency.all();
    call.reply.array(all.len());
    for (name, series) in all {
        let (time, millis) = series.samples.back().copied().unwrap_or_default();
        call.reply.array(4);
        call.reply.bulk(name.as_bytes());
        call.reply.integer(time);
        call.reply.integer(i64::from(millis));
        call.reply.integer(i64::from(series.max_ms));
    }
    Ok(())
}

fn reset(call: &mut Call) -> CommandResult {
    let wanted = &call.args[2..];
    let count = if wanted.is_empty() {
        call.engine.telemetry.latency.reset(&[])
    } else {
        let known: Vec<String> =
            call.engine.telemetry.latency.all().into_iter().map(|(name, _)| name).collect();
        let is_wanted =
            |name: &&String| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
        let names: Vec<&str> = known.iter().filter(is_wanted).map(String::as_str).collect();
        // Without names, everything is reset.
        if names.is_empty() { 0 } else { call.engine.telemetry.latency.reset(&names) }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Replies with a command's latency distribution if the command has been executed.
fn reply_distribution(call: &mut Call, command: &Command) -> bool {
    let sum = stats::command_latency(&call.engine.telemetry.threads, command.id);
    let total = sum.count();
    if total == 0 {
        return false;
    }
    let mut buckets = Vec::new();
    let (mut limit_nanos, mut seen) = (1024u64, 0);
    while seen < total && limit_nanos < 1 << 45 {
        // A value equal to the limit belongs to the next cell, so count below the limit.
        let at_most = sum.count_at_most(limit_nanos - 1);
        if at_most > seen {
            // Named like the bucket in a histogram with two significant digits.
            buckets.push(((limit_nanos + limit_nanos / 128 - 1) / 1000, at_most));
            seen = at_most;
        }
        limit_nanos *= 2;
    }
    call.reply.bulk(command.full_name.as_bytes());
    call.reply.map(2);
    call.reply.bulk(b"calls");
    call.reply.integer(total as i64);
    call.reply.bulk(b"histogram_usec");
    call.reply.map(buckets.len());
    for (micros, count) in buckets {
        call.reply.integer(micros as i64);
        call.reply.integer(count as i64);
    }
    true
}

fn histogram(call: &mut Call) -> CommandResult {
    let engine = call.engine;
    let table = &engine.commands;
    let header = call.reply.begin_map();
    let mut count = 0;
    if call.args.len() == 2 {
        for command in table.all() {
            count += usize::from(reply_distribution(call, command));
        }
    }
    for name in &call.args[2..] {
        let Some(command) = table.find_full(name) else { continue };
        count += usize::from(reply_distribution(call, command));
        for &sub in &command.subcommands {
            count += usize::from(reply_distribution(call, table.get(sub)));
        }
    }
    call.reply.end_map(header, count);
    Ok(())
}

fn graph(call: &mut Call) -> CommandResult {
    let name = String::from_utf8_lossy(call.args[2]).into_owned();
    let Some(series) = named(call) else {
        return Err(CommandError::text(format!("ERR No samples available for event '{name}'")));
    };
    let now = braid_base::clock::unix_ms() / 1000;
    call.reply.verbatim("txt", draw(&name, &series, now).as_bytes());
    Ok(())
}

/// Number of columns in a graph; older spikes are left out.
const COLUMNS: usize = 80;
/// Number of rows in a graph.
const ROWS: u32 = 4;

/// Draws a column for each spike, filled from below, with its age written downwards underneath.
fn draw(name: &str, series: &Series, now: i64) -> String {
    let samples: VecDeque<(i64, u32)> =
        series.samples.iter().copied().skip(series.samples.len().saturating_sub(COLUMNS)).collect();
    let high = samples.iter().map(|(_, millis)| *millis).max().unwrap_or(0);
    let low = samples.iter().map(|(_, millis)| *millis).min().unwrap_or(0);
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", series.max_ms);
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    // Twice as many levels as rows: a column ends in a full or half cell. The lowest spike is
    // visible, too.
    let levels = |millis: u32| {
        let above = u64::from(millis - low) * u64::from(ROWS * 2 - 1);
        1 + (above / u64::from((high - low).max(1))) as u32
    };
    for row in (0..ROWS).rev() {
        let line: String = samples
            .iter()
            .map(|&(_, millis)| match levels(millis).saturating_sub(row * 2) {
                0 => ' ',
                1 => '_',
                _ => '#',
            })
            .collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    let ages: Vec<String> = samples.iter().map(|&(time, _)| age(now - time)).collect();
    for position in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        let line: String = ages
            .iter()
            .map(|age| age.as_bytes().get(position).map_or(' ', |&byte| char::from(byte)))
            .collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn doctor(call: &mut Call) -> CommandResult {
    let now = braid_base::clock::unix_ms() / 1000;
    let report = diagnose(call.engine, now);
    call.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

/// The cause of an event, and advice.
fn advice(event: &str) -> &'static str {
    match event {
        "command" => {
            "Check the slow log for slow commands. Commands over many elements or keys hold the locks of \
             all their keys while they run: split them, or use the SCAN family."
        }
        "fast-command" => {
            "Even trivial commands were slow: the threads did not get enough processor time. Compare \
             io-threads with the number of free cores, and check for other busy processes on the machine."
        }
        "expire-cycle" => "Many keys expired at once. Spread their expiries over time.",
        "eviction-cycle" | "eviction-del" => {
            "Memory was above maxmemory, and clients waited while keys were evicted. Raise maxmemory, or \
             avoid very large values."
        }
        _ => "There is no specific advice for this event.",
    }
}

fn diagnose(engine: &Engine, now: i64) -> String {
    let threshold = engine.config.latency_monitor_threshold_milliseconds();
    let events = engine.telemetry.latency.all();
    if events.is_empty() && threshold == 0 {
        return "The latency monitor is off. Enable it with CONFIG SET latency-monitor-threshold \
                <milliseconds>.\n"
            .to_owned();
    }
    if events.is_empty() {
        return format!(
            "No event has taken {threshold} milliseconds or longer since the monitor was reset.\n"
        );
    }
    let mut text = format!("Spikes of {} kinds were recorded.\n\n", events.len());
    for (number, (name, series)) in (1..).zip(&events) {
        let count = series.samples.len().max(1) as u64;
        let average = series.samples.iter().map(|(_, millis)| u64::from(*millis)).sum::<u64>() / count;
        let deviation =
            series.samples.iter().map(|(_, millis)| u64::from(*millis).abs_diff(average)).sum::<u64>()
                / count;
        let period =
            (now - series.samples.front().map_or(now, |(time, _)| *time)).max(1) as f64 / count as f64;
        let _ = writeln!(
            text,
            "{number}. {name}: {count} latency spikes (average {average}ms, mean deviation {deviation}ms, period {period:.2} sec). \
             Worst all time event {}ms.",
            series.max_ms
        );
        let _ = writeln!(text, "   {}", advice(name));
    }
    let slower_than = engine.config.slowlog_log_slower_than_microseconds();
    if slower_than < 0 {
        let _ = writeln!(text, "\nThe slow log is off; enable it with slowlog-log-slower-than.");
    } else if slower_than as u64 / 1000 > threshold {
        let _ = writeln!(
            text,
            "\nThe slow log only shows commands above {slower_than} microseconds, more than the threshold of the monitor."
        );
    }
    text
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "DOCTOR",
        "    A report on latency spikes, with advice.",
        "GRAPH <event>",
        "    A drawing of the spikes of <event>.",
        "HISTORY <event>",
        "    Time and duration of the spikes of <event>.",
        "LATEST",
        "    The latest spike of every event.",
        "RESET [<event> ...]",
        "    Clear the spikes of each <event>, or of all.",
        "HISTOGRAM [COMMAND ...]",
        "    Execution times of each COMMAND, or of all, as cumulative distributions.",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_shows_the_latest_spikes_and_their_age() {
        let samples = [(1_000, 10), (1_940, 80), (1_990, 10)].into_iter().collect();
        let text = draw("command", &Series { max_ms: 99, samples }, 2_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 80 ms, low 10 ms (all time high 99 ms)");
        assert_eq!(lines[1].len(), COLUMNS);
        assert_eq!(lines[2..6], [" #", " #", " #", "_#_"]);
        assert_eq!(lines[7..], ["111", "6m0", "m s"]);
    }

    #[test]
    fn long_series_and_equal_values_are_drawn_too() {
        let samples: VecDeque<_> = (0..200).map(|second| (second, 5)).collect();
        let text = draw("x", &Series { max_ms: 5, samples }, 200);
        assert!(text.lines().all(|line| line.len() <= COLUMNS));
        assert_eq!(
            draw("x", &Series::default(), 0).lines().next(),
            Some("x - high 0 ms, low 0 ms (all time high 0 ms)")
        );
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!(
            [0, 59, 60, 3_599, 3_600, 86_399, 86_400].map(age),
            ["0s", "59s", "1m", "59m", "1h", "23h", "1d"]
        );
    }
}
