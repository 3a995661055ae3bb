// SPDX-License-Identifier: BSD-3-Clause
//! Crash report in the log, after a fatal signal or a panic, which ends in one.
//!
//! `signals.rs` writes the part that is possible while everything may be broken. The rest needs
//! memory, files and the server's statistics, and is written by a separate thread: function
//! names, the other threads and their stacks, INFO. If that thread blocks on a resource of the
//! crashed thread, the report ends without its part.
//!
//! Keys, values and clients must never appear in the report.

mod signals;

use std::ffi::c_void;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use braid_config::Config;
use braid_executor::Engine;
use rustix::event::{EventfdFlags, eventfd};
use signals::{CRASHED, RawLog, SAMPLED, Trace};

/// The INFO sections of the report. Other sections access shards, which may be locked.
const SECTIONS: [&[u8]; 7] = [b"server", b"clients", b"memory", b"persistence", b"stats", b"cpu", b"threads"];
/// Maximum number of calls shown for other threads.
const CALLS_OF_OTHERS: usize = 12;

/// Enables crash reports to this log descriptor, if `crash-log-enabled` is set.
pub fn install(engine: &Arc<Engine>, log: RawFd) -> Result<(), String> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC)
        .map_err(|error| format!("cannot create the event of the crash handler: {error}"))?;
    let mut bell = File::from(bell);
    signals::prepare(log, bell.as_raw_fd(), program());
    let weak = Arc::downgrade(engine);
    let work = move || {
        let mut count = [0; 8];
        if bell.read_exact(&mut count).is_ok() {
            names();
            threads();
            if let Some(engine) = weak.upgrade() {
                info(&engine);
            }
            signals::complete();
        }
        // The descriptor must never be reused for anything else.
        std::mem::forget(bell);
    };
    std::thread::Builder::new().name("crash-report".into()).spawn(work).map_err(|error| error.to_string())?;
    let apply = |config: &Config| {
        signals::report_crashes(config.crash_log_enabled());
        Ok(())
    };
    apply(&engine.config)?;
    engine.config.on_change(&["crash-log-enabled"], apply);
    tell_of_panics();
    Ok(())
}

/// Makes panics appear in the log. In release builds a signal follows, and with it the report.
fn tell_of_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        log::error!("=== PANIC in thread {} === {panic}", thread.name().unwrap_or("?"));
        before(panic);
    }));
}

/// The program's address range in memory, as far as the system reports it.
fn program() -> Range<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = std::env::current_exe().unwrap_or_default();
    let (mut first, mut last) = (usize::MAX, 0);
    for line in maps.lines().filter(|line| line.ends_with(&*path.to_string_lossy())) {
        let ends = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let ends =
            ends.map(|(start, end)| (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)));
        if let Some((Ok(start), Ok(end))) = ends {
            (first, last) = (first.min(start), last.max(end));
        }
    }
    first..last
}

/// Writes the functions, files and lines of a trace.
fn describe(trace: &Trace, most: usize, log: &mut RawLog) {
    for address in trace.addresses().take(most) {
        // An address is a return address: the call is just before it.
        let mut known = false;
        backtrace::resolve((address - usize::from(address > 0)) as *mut c_void, |symbol| {
            known = true;
            let _ = match symbol.name() {
                Some(name) => write!(log, "  {name:#}"),
                None => write!(log, "  ?"),
            };
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(log, " ({}:{line})", file.display());
            }
            let _ = writeln!(log);
        });
        if !known {
            let _ = writeln!(log, "  [{address:#x}]");
        }
    }
}

fn names() {
    let mut log = RawLog::new();
    let _ = writeln!(log, "\nBacktrace:");
    describe(&CRASHED, usize::MAX, &mut log);
}

fn threads() {
    let mut log = RawLog::new();
    let _ = writeln!(log, "\n------ THREADS ------");
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for task in tasks {
        let Some(id) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if id == own || id == signals::crashed_thread() {
            continue;
        }
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let _ = writeln!(log, "{id} ({})", name.trim_end());
        if signals::sample(id) {
            describe(&SAMPLED, CALLS_OF_OTHERS, &mut log);
        }
    }
}

/// Appends a line to the log's descriptor.
pub fn log_line(text: std::fmt::Arguments<'_>) {
    let mut log = RawLog::new();
    log.line();
    let _ = writeln!(log, "{text}");
}

/// Logs the call stack of another thread. False if the thread does not answer, or if the server
/// is crashing, which logs all stacks anyway.
pub fn log_calls(task: i32) -> bool {
    let answers = signals::crashed_thread() == 0 && signals::sample(task);
    if answers {
        describe(&SAMPLED, usize::MAX, &mut RawLog::new());
    }
    answers
}

fn info(engine: &Engine) {
    let _ = RawLog::new().write_str("\n------ INFO OUTPUT ------\n");
    for section in SECTIONS {
        let text = braid_commands::server::info::render(engine, &[section]);
        let _ = writeln!(RawLog::new(), "{text}");
    }
}
