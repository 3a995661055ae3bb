// SPDX-License-Identifier: BSD-3-Clause
//! The log: lines ([`crate::log_line`]), written to the log file or standard output, and to the
//! system's log ([`crate::syslog`]) as well if configured.

use std::cell::Cell;
use std::fmt::{self, Display};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use braid_base::system_text::reason;
use braid_config::{Config, LogLevel, LogTimestampFormat};
use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

use crate::log_line::{self, Line};
use crate::syslog::Syslog;

/// Maximum capacity of a thread's buffer between two lines.
const BUFFER_BYTES_MAX: usize = 4096;

thread_local! {
    /// Holds one line at a time, so that lines need no allocation.
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

struct Sink {
    config: Arc<Config>,
    /// None means standard output.
    file: Option<Mutex<std::fs::File>>,
    syslog: Option<Syslog>,
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
    let syslog = Syslog::new(config);
    log::set_boxed_logger(Box::new(Sink { config: Arc::clone(config), file, syslog }))
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

impl Sink {
    fn write(&self, level: Level, message: fmt::Arguments<'_>) {
        // A message that logs while it is formatted gets another buffer, as does a thread that is
        // ending.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        buffer.clear();
        let line = Line {
            process: std::process::id(),
            is_replica: self.config.replicaof().is_some(),
            time: log_line::now(),
            level,
            message,
        };
        line.append_to(&mut buffer, self.config.log_format(), self.config.log_timestamp_format());
        // A log that cannot be written has nowhere to report that.
        let _ = match &self.file {
            Some(file) => file.lock().write_all(buffer.as_bytes()),
            None => std::io::stdout().lock().write_all(buffer.as_bytes()),
        };
        if let Some(syslog) = &self.syslog
            && let Some(error) = syslog.send(level, message, &mut buffer)
        {
            let (path, reason) = (syslog.path().display(), reason(&error));
            self.write(Level::Warn, format_args!("Can't log to syslog at {path}: {reason}"));
        }
        if buffer.capacity() <= BUFFER_BYTES_MAX {
            let _ = BUFFER.try_with(|kept| kept.set(buffer));
        }
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
        if self.enabled(record.metadata()) {
            self.write(record.level(), *record.args());
        }
    }

    fn flush(&self) {}
}

/// The time as in a line of the default format. Neither reading nor formatting it allocates.
pub fn local_time() -> impl Display {
    log_line::formatted(log_line::now(), LogTimestampFormat::Legacy)
}
