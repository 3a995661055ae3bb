// SPDX-License-Identifier: BSD-3-Clause
//! The log: lines in Redis's format, written to the log file or standard output.
//!
//! `pid:role time level message`. The levels are debug (`trace!`), verbose (`debug!`), notice
//! (`info!`) and warning (`warn!` and `error!`).

use std::fmt::{self, Display};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use braid_base::date::Date;
use braid_base::system_text::reason;
use braid_config::{Config, LogLevel};
use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

struct Sink {
    config: Arc<Config>,
    /// None means standard output.
    file: Option<Mutex<std::fs::File>>,
}

/// Installs the logger as configured. Returns the descriptor of the log, which stays open. Fails
/// if the log file cannot be opened or a logger is already installed.
pub fn install(config: &Arc<Config>) -> Result<RawFd, String> {
    let path = config.logfile();
    let file =
        if path.is_empty() {
            None
        } else {
            // The process may not be in its configured folder yet.
            let path = config.dir().join(&*path);
            let open = std::fs::OpenOptions::new().create(true).append(true).open(&path);
            Some(Mutex::new(open.map_err(|error| {
                format!("Can't open the log file '{}': {}", path.display(), reason(&error))
            })?))
        };
    let descriptor = match &file {
        Some(file) => file.lock().as_raw_fd(),
        None => std::io::stdout().as_raw_fd(),
    };
    log::set_boxed_logger(Box::new(Sink { config: Arc::clone(config), file }))
        .map_err(|error| error.to_string())?;
    log::set_max_level(LevelFilter::Trace);
    Ok(descriptor)
}

/// Whether standard output and standard error are the same terminal, pipe or file: then a line
/// written to both would appear twice.
pub fn is_stdout_same_as_stderr() -> bool {
    let of = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    match (rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())) {
        (Ok(output), Ok(errors)) => of(output) == of(errors),
        _ => false,
    }
}

fn mark(level: Level) -> char {
    match level {
        Level::Error | Level::Warn => '#',
        Level::Info => '*',
        Level::Debug => '-',
        Level::Trace => '.',
    }
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let least = match self.config.loglevel() {
            LogLevel::Debug => Level::Trace,
            LogLevel::Verbose => Level::Debug,
            LogLevel::Notice => Level::Info,
            LogLevel::Warning => Level::Warn,
            LogLevel::Nothing => return false,
        };
        metadata.level() <= least
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let time = local_time();
        let role = if self.config.replicaof().is_some() { 'S' } else { 'M' };
        let line =
            format!("{}:{role} {time} {} {}\n", std::process::id(), mark(record.level()), record.args());
        // A log that cannot be written has nowhere to report that.
        let _ = match &self.file {
            Some(file) => file.lock().write_all(line.as_bytes()),
            None => std::io::stdout().lock().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

/// `21 Nov 2026 05:44:12.123`, in UTC. Neither reading nor formatting the time allocates.
pub fn local_time() -> impl Display {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    fmt::from_fn(move |out| {
        let Date { year, month, day, hour, minute, second } = Date::from_unix(since.as_secs() as i64);
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (month, ms) = (MONTHS[usize::from(month) - 1], since.subsec_millis());
        write!(out, "{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
    })
}
