// SPDX-License-Identifier: BSD-3-Clause
//! Compares several servers, or several settings of one. They are measured in turn, round after
//! round, so that drift in the machine's speed affects all alike and ratios are of runs of the same
//! round.
//!
//! Only one server runs at a time, restarted for each round, so it has memory, caches and
//! processors to itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_client::figures::grouped;
use serde_json::{Value as Json, json};

use crate::options::{Comparison, Contender, Form, Options};
use crate::output;
use crate::plan::{Measurement, Method, Outcome, Runner};
use crate::progress::ProgressLine;
use crate::report::{self, Subject};
use crate::server::Server;
use crate::server_cluster;
use crate::statistics::{Estimate, estimate_ratio};
use crate::table::Table;

/// The results of one contender.
struct Side {
    contender: Contender,
    /// The server's name and version as it reports them.
    server: String,
    outcomes: Vec<Outcome>,
}

impl Contender {
    /// Its name in tables.
    pub fn label(&self) -> String {
        match self.threads {
            None => self.name.clone(),
            Some(threads) => format!("{}, {}", self.name, output::plural(threads, "thread")),
        }
    }
}

/// Runs the comparison and prints it; returns the number of error replies.
///
/// # Errors
/// If a server cannot be started or reached, a run fails, or the result cannot be written. The
/// results before the failure have been printed.
pub fn run(options: &Options, comparison: &Comparison, stop: &Arc<AtomicBool>) -> Result<u64, String> {
    let new_side = |contender: &Contender| Side {
        contender: contender.clone(),
        server: String::new(),
        outcomes: options
            .cases
            .iter()
            .map(|case| Outcome { case: case.clone(), runs: Vec::new(), interrupted: false })
            .collect(),
    };
    let mut sides: Vec<Side> = comparison.contenders.iter().map(new_side).collect();
    let mut line = ProgressLine::new(&options.output);
    let mut failure = None;
    'rounds: for round in 0..comparison.rounds {
        for turn in 0..sides.len() {
            // Each round starts with a different contender, so that no contender always follows the
            // same one.
            let place = (turn + round) % sides.len();
            let prefix =
                format!("round {}/{}, {}", round + 1, comparison.rounds, sides[place].contender.label());
            if let Err(reason) =
                measure(&mut sides[place], round, options, comparison, stop, &mut line, &prefix)
            {
                failure = Some(format!("{}: {reason}", sides[place].contender.label()));
                break 'rounds;
            }
            if stop.load(Relaxed) {
                break 'rounds;
            }
        }
    }
    line.clear();
    sides.iter_mut().flat_map(|side| &mut side.outcomes).for_each(|outcome| {
        outcome.interrupted = stop.load(Relaxed);
    });
    // An empty table would hide the reason for the failure.
    let has_results = sides.iter().flat_map(|side| &side.outcomes).any(|outcome| !outcome.runs.is_empty());
    if has_results || failure.is_none() {
        publish(&sides, options, comparison)?;
    }
    let errors = sides.iter().flat_map(|side| &side.outcomes).map(|outcome| outcome.total().errors()).sum();
    failure.map_or(Ok(errors), Err)
}

/// One server's turn: start, all cases, stop.
fn measure(
    side: &mut Side,
    round: usize,
    options: &Options,
    comparison: &Comparison,
    stop: &Arc<AtomicBool>,
    line: &mut ProgressLine,
    prefix: &str,
) -> Result<(), String> {
    line.say(&format!("{prefix}: starting"));
    let command = &side.contender.command;
    let servers = if let Some(count) = side.contender.processes {
        server_cluster::start(command, count, &options.target.target()?, &comparison.processors)?
    } else if command.contains("://") && !command.contains(' ') {
        let mut target = options.target.clone();
        target.take_uri(command).ok_or_else(|| format!("'{command}' is not an address"))?;
        vec![Server::running(target.target()?)]
    } else {
        vec![Server::start(command, &options.target.target()?, &comparison.processors)?]
    };
    let is_cluster = options.method.cluster || side.contender.processes.is_some();
    let method = Method { cluster: is_cluster, ..options.method.clone() };
    let mut runner = Runner::open(&servers[0].target, &method, stop)?;
    side.server = runner.server().to_owned();
    for outcome in &mut side.outcomes {
        for iteration in 0..options.method.iterations {
            let number = (round * options.method.iterations + iteration) as u64;
            let place = format!("{prefix}: {}", outcome.case.label());
            let run = runner.iteration(&outcome.case, number, |phase, now| {
                line.show(&format!("{place}, {phase}"), now);
            })?;
            outcome.runs.extend(run);
            if stop.load(Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn publish(sides: &[Side], options: &Options, comparison: &Comparison) -> Result<(), String> {
    let table = table(sides);
    let json = json(sides, comparison, &options.method);
    let text = match options.output.form {
        Form::Json => format!("{json:#}\n"),
        Form::Csv => csv(sides, options),
        Form::Markdown => table.markdown() + "\n" + &remarks(sides, comparison, options),
        Form::Text | Form::Quiet => table.text() + "\n" + &remarks(sides, comparison, options),
    };
    print!("{text}");
    let write = |path: &std::path::Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &options.output.json_file {
        write(path, format!("{json:#}\n"))?;
    }
    if let Some(path) = &options.output.report {
        let subjects: Vec<Subject> = sides
            .iter()
            .map(|side| Subject {
                name: side.contender.name.clone(),
                about: format!("{}: {}", side.server, side.contender.command),
                threads: side.contender.threads,
                outcomes: side.outcomes.iter().filter(|outcome| !outcome.runs.is_empty()).cloned().collect(),
            })
            .collect();
        write(path, report::page(&subjects, Some(&table), &options.method))?;
    }
    Ok(())
}

/// The ratio of paired values from the same rounds.
fn ratio(outcome: &Outcome, base: &Outcome, value: impl Fn(&Measurement) -> Option<f64>) -> Estimate {
    let pairs: Vec<(f64, f64)> =
        outcome.runs.iter().zip(&base.runs).filter_map(|(run, base)| value(run).zip(value(base))).collect();
    estimate_ratio(&pairs)
}

fn throughput_ratio(outcome: &Outcome, base: &Outcome) -> Estimate {
    ratio(outcome, base, |run| Some(run.tally.throughput()))
}

fn processor_ratio(outcome: &Outcome, base: &Outcome) -> Estimate {
    ratio(outcome, base, Measurement::server_micros)
}

/// A table with the servers of each case in adjacent rows.
fn table(sides: &[Side]) -> Table {
    let header = [
        "load",
        "server",
        "requests/s",
        "95 %",
        "ratio",
        "95 %",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "us/request",
        "ratio",
        "memory MB",
    ];
    let mut rows = Vec::new();
    let number = |value: f64, decimals: usize| {
        if value.is_finite() { format!("{value:.decimals$}") } else { "-".to_owned() }
    };
    let range = |estimate: Estimate, form: &dyn Fn(f64) -> String| match estimate.interval {
        Some((low, high)) if low.is_finite() && high.is_finite() => {
            format!("{} .. {}", form(low), form(high))
        }
        _ => "-".to_owned(),
    };
    for (place, first) in sides[0].outcomes.iter().enumerate() {
        for side in sides {
            let outcome = &side.outcomes[place];
            if outcome.runs.is_empty() {
                continue;
            }
            let throughput = outcome.throughput();
            let against = throughput_ratio(outcome, first);
            let is_base = std::ptr::eq(outcome, first);
            rows.push(vec![
                outcome.case.label(),
                side.contender.label(),
                grouped(throughput.mean),
                range(throughput, &grouped),
                number(against.mean, 2),
                if is_base { "-".into() } else { range(against, &|bound| format!("{bound:.2}")) },
                number(outcome.latency_ms(0.5).mean, 3),
                number(outcome.latency_ms(0.99).mean, 3),
                number(outcome.latency_ms(0.999).mean, 3),
                number(outcome.estimate(Measurement::server_micros).mean, 3),
                number(processor_ratio(outcome, first).mean, 2),
                number(outcome.estimate(Measurement::memory_mb).mean, 0),
            ]);
        }
    }
    Table { left: 2, header: header.map(str::to_owned).into(), rows }
}

/// The notes below the table.
fn remarks(sides: &[Side], comparison: &Comparison, options: &Options) -> String {
    let method = &options.method;
    let length = match (method.requests, method.duration) {
        (Some(requests), _) => format!("{} requests", grouped(requests as f64)),
        (None, duration) => format!("{} s", duration.unwrap_or_default().as_secs_f64()),
    };
    let mut out = format!(
        "{} of {length}, {} on {}. Ratios are relative to {}, for runs of the same round.\n",
        output::plural(comparison.rounds * method.iterations, "round"),
        output::plural(method.connections, "connection"),
        output::plural(method.threads, "thread"),
        sides[0].contender.label(),
    );
    for side in sides {
        let cluster = side.contender.processes.map_or(String::new(), |count| {
            format!(", a cluster of {count} process{}", if count == 1 { "" } else { "es" })
        });
        let (label, command) = (side.contender.label(), &side.contender.command);
        out += &format!("{label} ({}{cluster}): {command}\n", side.server);
    }
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for side in sides {
        for outcome in side.outcomes.iter().filter(|outcome| !outcome.runs.is_empty()) {
            for warning in output::warnings(outcome, method, &outcome.total()) {
                let place = format!("{}, {}", side.contender.label(), outcome.case.label());
                lines.entry(warning).or_default().push(place);
            }
        }
    }
    for (warning, places) in lines {
        out += &format!("{warning}\n            in {}\n", places.join("; "));
    }
    out
}

fn csv(sides: &[Side], options: &Options) -> String {
    let mut out = format!("\"server\",\"ratio\",\"ratio_low\",\"ratio_high\",{}", output::CSV_HEADER);
    for (place, first) in sides[0].outcomes.iter().enumerate() {
        for side in sides {
            let outcome = &side.outcomes[place];
            if outcome.runs.is_empty() {
                continue;
            }
            let against = throughput_ratio(outcome, first);
            let (low, high) = against.interval.unwrap_or((against.mean, against.mean));
            out += &format!(
                "\"{}\",\"{:.4}\",\"{low:.4}\",\"{high:.4}\",{}",
                side.contender.label().replace('"', "\"\""),
                against.mean,
                output::csv(outcome, &options.output)
            );
        }
    }
    out
}

fn json(sides: &[Side], comparison: &Comparison, method: &Method) -> Json {
    let side = |side: &Side| {
        let measured =
            side.outcomes.iter().zip(&sides[0].outcomes).filter(|(outcome, _)| !outcome.runs.is_empty());
        let results = measured.map(|(outcome, first)| {
            let mut result = output::json(outcome, method);
            result["throughput_ratio"] = json!(output::estimate(throughput_ratio(outcome, first)));
            result["processor_ratio"] = json!(output::estimate(processor_ratio(outcome, first)));
            result
        });
        json!({
            "name": side.contender.name.as_str(),
            "command": side.contender.command.as_str(),
            "server": side.server.as_str(),
            "threads": side.contender.threads,
            "processes": side.contender.processes,
            "results": results.collect::<Vec<_>>(),
        })
    };
    json!({
        "program": concat!("braid-bench ", env!("CARGO_PKG_VERSION")),
        "rounds": comparison.rounds,
        "baseline": sides[0].contender.label(),
        "servers": sides.iter().map(side).collect::<Vec<_>>(),
    })
}
