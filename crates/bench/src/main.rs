// SPDX-License-Identifier: BSD-3-Clause
//! The braid-bench program: parses the command line, runs the cases, prints the results.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_bench::options::{self, Form, Options, Request};
use braid_bench::plan::{Outcome, Runner};
use braid_bench::progress::ProgressLine;
use braid_bench::session::Session;
use braid_bench::{active, compare, floor, output, report, vectors};
use braid_client::Arguments;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const ERROR_REPLIES: u8 = 3;
/// Servers differ, or acknowledged data is missing.
const DIFFERENT: u8 = 4;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == "active") {
        return run_active(&words[1..]);
    }
    if words.first().is_some_and(|word| word == "vectors") {
        return run_vectors(&words[1..]);
    }
    if words.first().is_some_and(|word| word == "floor") {
        return run_floor(&words[1..]);
    }
    let is_compare = words.first().is_some_and(|word| word == "compare");
    let words = if is_compare { &words[1..] } else { &words[..] };
    // Without an argument, `-h` cannot be the host option.
    if words.iter().eq(["-h"]) {
        return print(&options::help());
    }
    let options = match options::parse(&mut Arguments::from_words(words), is_compare) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => return print(&options::help()),
        Ok(Request::Version) => return print(concat!("braid-bench ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(message) => {
            eprintln!("braid-bench: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let stop = watch_signals();
    // Before any measurement.
    braid_base::clock::calibrate();
    raise_file_limit();
    let result = match &options.comparison {
        Some(comparison) => compare::run(&options, comparison, &stop),
        None if options.idle => idle(&options, &stop),
        None => run(&options, &stop),
    };
    match result {
        Err(message) => {
            eprintln!("braid-bench: {message}");
            ExitCode::from(FAILED)
        }
        Ok(_) if stop.load(Relaxed) => ExitCode::from(INTERRUPTED),
        Ok(errors) if errors > 0 => ExitCode::from(ERROR_REPLIES),
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// True once a signal has arrived. The first signal ends the run with the results so far, the
/// second terminates the program immediately.
fn watch_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered =
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), stop.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        if let Err(error) = registered {
            eprintln!("braid-bench: cannot watch signals: {error}");
        }
    }
    stop
}

/// `braid-bench active`.
fn run_active(words: &[std::ffi::OsString]) -> ExitCode {
    let options = match active::options::parse(&mut Arguments::from_words(words)) {
        Ok(active::options::Request::Run(options)) => *options,
        Ok(active::options::Request::Help) => return print(&options::help()),
        Err(message) => {
            eprintln!("braid-bench: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let stop = watch_signals();
    match active::run(&options, &stop) {
        Err(message) => {
            eprintln!("braid-bench: {message}");
            ExitCode::from(FAILED)
        }
        Ok(_) if stop.load(Relaxed) => ExitCode::from(INTERRUPTED),
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
    }
}

/// `braid-bench vectors`.
fn run_vectors(words: &[std::ffi::OsString]) -> ExitCode {
    let options = match vectors::options::parse(&mut Arguments::from_words(words)) {
        Ok(vectors::options::Request::Run(options)) => *options,
        Ok(vectors::options::Request::Help) => return print(&options::help()),
        Err(message) => {
            eprintln!("braid-bench: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let stop = watch_signals();
    match vectors::run(&options, &stop) {
        _ if stop.load(Relaxed) => ExitCode::from(INTERRUPTED),
        Err(message) => {
            eprintln!("braid-bench: {message}");
            ExitCode::from(FAILED)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn run_floor(words: &[std::ffi::OsString]) -> ExitCode {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let parsed = match words[..] {
        [port] => port.parse().ok().zip(Some(32)),
        [port, bytes] => port.parse().ok().zip(bytes.parse().ok()),
        _ => None,
    };
    let Some((port, bytes)) = parsed else {
        eprintln!("braid-bench: usage: braid-bench floor PORT [BYTES]");
        return ExitCode::from(USAGE);
    };
    match floor::run(port, bytes, &watch_signals()) {
        Err(error) => {
            eprintln!("braid-bench: {error}");
            ExitCode::from(FAILED)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Prints to standard output; ignores a closed pipe.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Many connections need many descriptors.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it cannot be raised, connecting reports it.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Runs all cases; returns the number of error replies.
fn run(options: &Options, stop: &Arc<AtomicBool>) -> Result<u64, String> {
    let target = options.target.target()?;
    let mut runner = Runner::open(&target, &options.method, stop)?;
    let mut errors = 0;
    let mut outcomes: Vec<Outcome> = Vec::new();
    if options.output.form == Form::Csv {
        print(output::CSV_HEADER);
    }
    let mut failure = None;
    'rounds: loop {
        for case in &options.cases {
            let mut line = ProgressLine::new(&options.output);
            let iterations = options.method.iterations;
            let result = runner.outcome(case, |iteration, phase, now| {
                let turn =
                    if iterations > 1 { format!(" {}/{iterations}", iteration + 1) } else { String::new() };
                line.show(&format!("{}: {phase}{turn}", case.title), now);
            });
            line.clear();
            let outcome = match result {
                Ok(outcome) => outcome,
                Err(reason) => {
                    failure = Some(format!("{}: {reason}", case.title));
                    break 'rounds;
                }
            };
            if !outcome.runs.is_empty() {
                errors += outcome.total().errors();
                print(&match options.output.form {
                    Form::Text | Form::Markdown => {
                        output::text(&outcome, &options.method, &options.output) + "\n"
                    }
                    Form::Quiet => output::quiet(&outcome, &options.output),
                    Form::Csv => output::csv(&outcome, &options.output),
                    Form::Json => String::new(),
                });
                outcomes.push(outcome);
            }
            if stop.load(Relaxed) {
                break 'rounds;
            }
        }
        if !options.repeat {
            break;
        }
        outcomes.clear();
    }
    let json = json!({
        "program": concat!("braid-bench ", env!("CARGO_PKG_VERSION")),
        "server": runner.server(),
        "address": target.address.to_string(),
        "results": outcomes.iter().map(|outcome| output::json(outcome, &options.method)).collect::<Vec<_>>(),
    });
    if options.output.form == Form::Json {
        print(&format!("{json:#}\n"));
    }
    if let Some(path) = &options.output.json_file {
        write(path, &format!("{json:#}\n"))?;
    }
    if let Some(path) = &options.output.report {
        let name = runner.server().to_owned();
        let about = target.address.to_string();
        let subject = report::Subject { name, about, threads: None, outcomes };
        write(path, &report::page(&[subject], None, &options.method))?;
    }
    failure.map_or(Ok(errors), Err)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Opens the connections and waits for a signal.
fn idle(options: &Options, stop: &Arc<AtomicBool>) -> Result<u64, String> {
    let method = &options.method;
    let target = options.target.target()?;
    let _session =
        Session::open(&target, None, method.threads, method.connections, &method.processors, stop)?;
    print(&format!("{} connections are open and idle; press Ctrl-C to end\n", method.connections));
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(0)
}
