// SPDX-License-Identifier: BSD-3-Clause
//! The system's log: one datagram for each line, in the form of RFC 3164.
//!
//! Invariant: nothing here waits. A line that the system's log does not take at once is lost and
//! counted; the next datagram tells how many are missing.
//!
//! The datagrams have no time, for the header's form is in local time without a zone, which the
//! standard library does not know. The system's log then uses its own clock, as RFC 3164 says in
//! section 4.3.2.

use std::fmt::{self, Write};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use braid_config::{Config, SyslogFacility};
use log::Level;
use parking_lot::Mutex;

/// Where the system's log listens, unless [`SOCKET_VARIABLE`] says otherwise.
const SOCKET: &str = "/dev/log";
const SOCKET_VARIABLE: &str = "BRAID_SYSLOG";
/// Maximum length of a datagram; common programs cut longer ones.
const DATAGRAM_BYTES_MAX: usize = 8 * 1024;
/// Time between two attempts to reach a system's log that is not there.
const RETRY: Duration = Duration::from_secs(1);

/// A sender of lines.
pub struct Syslog {
    path: PathBuf,
    facility: SyslogFacility,
    /// `name[process]: `, which starts each line.
    tag: String,
    link: Mutex<Link>,
}

#[derive(Default)]
struct Link {
    socket: Option<UnixDatagram>,
    retry_at: Option<Instant>,
    /// Lines since the last one that arrived.
    lost: u64,
    is_error_reported: bool,
}

impl Syslog {
    /// As configured; None without `syslog-enabled`.
    pub fn new(config: &Config) -> Option<Syslog> {
        if !config.syslog_enabled() {
            return None;
        }
        let path = std::env::var_os(SOCKET_VARIABLE).map_or_else(|| SOCKET.into(), PathBuf::from);
        Some(Syslog::at(path, config.syslog_facility(), &config.syslog_ident(), std::process::id()))
    }

    fn at(path: PathBuf, facility: SyslogFacility, name: &str, process: u32) -> Syslog {
        Syslog { path, facility, tag: format!("{name}[{process}]: "), link: Mutex::default() }
    }

    /// The socket of the system's log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a line, using the buffer. Returns the first error, and none after it.
    pub fn send(&self, level: Level, message: fmt::Arguments<'_>, buffer: &mut String) -> Option<Error> {
        // Before the lock: a message that panics while it is formatted leads to another line.
        self.datagram(level, message, buffer);
        let mut link = self.link.lock();
        let result = match link.lost {
            0 => Ok(()),
            lost => self.confess(lost, &mut link),
        };
        let error = result.and_then(|()| link.deliver(&self.path, buffer.as_bytes())).err()?;
        link.lost += 1;
        (!std::mem::replace(&mut link.is_error_reported, true)).then_some(error)
    }

    fn confess(&self, lost: u64, link: &mut Link) -> Result<()> {
        let mut text = String::new();
        let message = format_args!("{lost} lines before this one are missing: syslog did not take them");
        self.datagram(Level::Warn, message, &mut text);
        link.deliver(&self.path, text.as_bytes())?;
        link.lost = 0;
        Ok(())
    }

    fn datagram(&self, level: Level, message: fmt::Arguments<'_>, buffer: &mut String) {
        buffer.clear();
        let priority = code(self.facility) * 8 + severity(level);
        // Writing to a String succeeds; a message that fails to format itself is cut there.
        let _ = write!(buffer, "<{priority}>{}{message}", self.tag);
        buffer.truncate(buffer.floor_char_boundary(DATAGRAM_BYTES_MAX));
    }
}

impl Link {
    fn deliver(&mut self, path: &Path, datagram: &[u8]) -> Result<()> {
        let was_connected = self.socket.is_some();
        match self.attempt(path, datagram) {
            // The system's log has ended, or was restarted.
            Err(_) if was_connected && self.socket.is_none() => self.attempt(path, datagram),
            result => result,
        }
    }

    fn attempt(&mut self, path: &Path, datagram: &[u8]) -> Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.connect(path)?,
        };
        let result = socket.send(datagram);
        match &result {
            Ok(_) => (self.socket, self.retry_at) = (Some(socket), None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.socket = Some(socket),
            Err(_) => {}
        }
        result.map(drop)
    }

    fn connect(&mut self, path: &Path) -> Result<UnixDatagram> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|time| now < time) {
            return Err(ErrorKind::NotConnected.into());
        }
        self.retry_at = Some(now + RETRY);
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(path)?;
        Ok(socket)
    }
}

fn code(facility: SyslogFacility) -> u8 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

/// Redis's levels are a step lower than their names: its warnings include errors.
fn severity(level: Level) -> u8 {
    match level {
        Level::Error | Level::Warn => 4,
        Level::Info => 5,
        Level::Debug => 6,
        Level::Trace => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(path: &Path) -> Syslog {
        Syslog::at(path.to_owned(), SyslogFacility::Local3, "braid", 17)
    }

    /// Sends a line, and returns whether there is an error to report.
    fn send(syslog: &Syslog, level: Level, line: &str) -> bool {
        syslog.send(level, format_args!("{line}"), &mut String::new()).is_some()
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut datagram = [0; 2 * DATAGRAM_BYTES_MAX];
        let len = socket.recv(&mut datagram).unwrap_or_else(|error| panic!("no datagram: {error}"));
        String::from_utf8(datagram[..len].to_vec()).expect("UTF-8")
    }

    fn listen(path: &Path) -> UnixDatagram {
        let socket = UnixDatagram::bind(path).expect("a socket");
        socket.set_nonblocking(true).expect("a mode");
        socket
    }

    /// Permits the next attempt at once.
    fn pass_time(syslog: &Syslog) {
        syslog.link.lock().retry_at = None;
    }

    #[test]
    fn a_line_is_a_datagram_with_priority_and_tag() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let socket = listen(&path);
        let syslog = sender(&path);
        for (level, priority) in [
            (Level::Error, 156),
            (Level::Warn, 156),
            (Level::Info, 157),
            (Level::Debug, 158),
            (Level::Trace, 159),
        ] {
            assert!(!send(&syslog, level, "a \"b\"\nc"));
            assert_eq!(received(&socket), format!("<{priority}>braid[17]: a \"b\"\nc"));
        }
        assert!(!send(&syslog, Level::Info, &"é".repeat(DATAGRAM_BYTES_MAX)));
        let cut = received(&socket);
        assert!(cut.ends_with('é') && (DATAGRAM_BYTES_MAX - 1..=DATAGRAM_BYTES_MAX).contains(&cut.len()));
        let user = Syslog::at(path, SyslogFacility::User, "", 1);
        assert!(!send(&user, Level::Info, ""));
        assert_eq!(received(&socket), "<13>[1]: ");
    }

    #[test]
    fn a_missing_log_is_reported_once_and_found_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let syslog = sender(&path);
        assert!(send(&syslog, Level::Info, "one"));
        assert!(!send(&syslog, Level::Info, "two"));
        pass_time(&syslog);
        assert!(!send(&syslog, Level::Info, "three"));
        let socket = listen(&path);
        // The time of the next attempt has not come.
        assert!(!send(&syslog, Level::Info, "four"));
        assert_eq!(socket.recv(&mut [0]).expect_err("nothing").kind(), ErrorKind::WouldBlock);
        pass_time(&syslog);
        assert!(!send(&syslog, Level::Info, "five"));
        let confession = "<156>braid[17]: 4 lines before this one are missing: syslog did not take them";
        assert_eq!(received(&socket), confession);
        assert_eq!(received(&socket), "<157>braid[17]: five");
    }

    #[test]
    fn a_restarted_log_loses_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let syslog = sender(&path);
        for line in ["one", "two"] {
            let socket = listen(&path);
            assert!(!send(&syslog, Level::Info, line));
            assert_eq!(received(&socket), format!("<157>braid[17]: {line}"));
            std::fs::remove_file(&path).expect("removed");
        }
        assert!(send(&syslog, Level::Info, "three"));
    }

    #[test]
    fn a_log_that_does_not_read_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let socket = listen(&path);
        let syslog = sender(&path);
        let reports = (0..10_000).filter(|_| send(&syslog, Level::Info, &"x".repeat(1_000))).count();
        assert_eq!(reports, 1);
        let taken = std::iter::from_fn(|| socket.recv(&mut [0]).ok()).count();
        assert!(!send(&syslog, Level::Info, "last"));
        let lost = 10_000 - taken;
        assert!(received(&socket).contains(&format!(": {lost} lines before this one are missing")));
        assert_eq!(received(&socket), "<157>braid[17]: last");
    }
}
