// SPDX-License-Identifier: BSD-3-Clause
//! The service manager (`supervised`): reports the server's state to systemd by sd_notify(3); under
//! upstart the process stops itself when it is ready.
//!
//! Must never fail the server: a message that cannot be sent is logged and dropped.

use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use braid_config::Supervised;
use rustix::process::{Signal, getpid, kill_process};

/// Environment variable with the address of systemd's socket.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Environment variable set by upstart.
const UPSTART_JOB: &str = "UPSTART_JOB";

/// Interval of reports during a long load or the final save.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Extension of systemd's time limits by each report; far longer than `REPORT_EVERY`, because a
/// busy machine may delay the reporter.
const EXTENSION: Duration = Duration::from_secs(60);

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub enum Supervisor {
    #[default]
    None,
    Upstart,
    Systemd(SocketAddr),
}

impl Supervisor {
    /// Detects the service manager from the directive and the environment.
    ///
    /// # Errors
    /// What the environment lacks for the service manager that the directive names.
    pub fn detect(mode: Supervised) -> Result<Supervisor, String> {
        Supervisor::of(mode, env::var_os(NOTIFY_SOCKET).as_deref(), env::var_os(UPSTART_JOB).is_some())
    }

    fn of(mode: Supervised, socket: Option<&OsStr>, is_upstart_job: bool) -> Result<Supervisor, String> {
        match (mode, socket) {
            (Supervised::No, _) => Ok(Supervisor::None),
            (Supervised::Upstart | Supervised::Auto, _) if is_upstart_job => Ok(Supervisor::Upstart),
            (Supervised::Upstart, _) => {
                Err(format!("upstart supervision requested, but {UPSTART_JOB} not found!"))
            }
            (_, Some(socket)) => address(socket).map(Supervisor::Systemd),
            (Supervised::Systemd, None) => {
                Err(format!("systemd supervision error: {NOTIFY_SOCKET} not found!"))
            }
            (Supervised::Auto, None) => Ok(Supervisor::None),
        }
    }

    /// Its name in the directive `supervised` and in INFO.
    pub fn name(&self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Upstart => "upstart",
            Supervisor::Systemd(_) => "systemd",
        }
    }

    /// Logs the service manager. Under upstart the process stops here until it is continued: that
    /// is upstart's sign of readiness.
    pub fn begin(&self) {
        match self {
            Supervisor::None => {}
            Supervisor::Upstart => {
                log::info!("supervised by upstart, will stop to signal readiness.");
                if let Err(error) = kill_process(getpid(), Signal::STOP) {
                    log::warn!("upstart supervision error: {error}");
                }
            }
            Supervisor::Systemd(_) => {
                log::info!(
                    "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and TimeoutStopSec in \
                     your service unit."
                );
                self.tell("STATUS=Braid is loading...");
            }
        }
    }

    /// Clients are served from now on.
    pub fn ready(&self) {
        self.tell("STATUS=Ready to accept connections\nREADY=1");
    }

    /// Sets the line shown by `systemctl status`.
    pub fn status(&self, text: &str) {
        // Each line of a message is an assignment.
        self.tell(&format!("STATUS={}", text.replace('\n', " ")));
    }

    /// The server is shutting down.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Runs work that may exceed systemd's time limits, which are extended meanwhile. `status`
    /// returns the line for `systemctl status`, if it changes.
    pub fn patiently<T>(&self, status: impl Fn() -> Option<String> + Sync, work: impl FnOnce() -> T) -> T {
        let Supervisor::Systemd(_) = self else { return work() };
        let report = || {
            let text = status().map_or_else(String::new, |line| format!("\nSTATUS={line}"));
            self.tell(&format!("EXTEND_TIMEOUT_USEC={}{text}", EXTENSION.as_micros()));
        };
        std::thread::scope(|scope| {
            // Dropped at the end of the work, also by a panic.
            let (_working, until_done) = mpsc::channel::<()>();
            let reports = move || {
                while until_done.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
                    report();
                }
            };
            if let Err(error) =
                std::thread::Builder::new().name("supervisor".into()).spawn_scoped(scope, reports)
            {
                log::warn!("Cannot notify systemd: {error}");
            }
            work()
        })
    }

    /// Sends assignments to systemd, one per line.
    fn tell(&self, assignments: &str) {
        let Supervisor::Systemd(address) = self else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| {
            // A manager that does not read must not block the server.
            socket.set_nonblocking(true)?;
            socket.send_to_addr(format!("{assignments}\n").as_bytes(), address)
        });
        if let Err(error) = sent {
            log::warn!("systemd supervision error: {error}");
        }
    }
}

/// Parses a socket address: a path, or `@` and an abstract name.
fn address(text: &OsStr) -> Result<SocketAddr, String> {
    let address = match text.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(text),
        _ => {
            return Err(format!(
                "systemd supervision error: {NOTIFY_SOCKET} is '{}', neither a path nor an abstract name",
                text.display()
            ));
        }
    };
    address.map_err(|error| format!("systemd supervision error: {NOTIFY_SOCKET}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use super::*;

    #[test]
    fn directive_and_environment_decide() {
        let socket = Some(OsStr::new("/run/notify"));
        for (mode, socket, is_upstart_job, expected) in [
            (Supervised::No, socket, true, Ok("no")),
            (Supervised::Auto, None, false, Ok("no")),
            (Supervised::Auto, socket, false, Ok("systemd")),
            (Supervised::Auto, socket, true, Ok("upstart")),
            (Supervised::Systemd, socket, true, Ok("systemd")),
            (Supervised::Systemd, None, true, Err("NOTIFY_SOCKET not found")),
            (Supervised::Systemd, Some(OsStr::new("@name")), false, Ok("systemd")),
            (Supervised::Systemd, Some(OsStr::new("vsock:2:1")), false, Err("neither a path nor")),
            (Supervised::Systemd, Some(OsStr::new("")), false, Err("neither a path nor")),
            (Supervised::Upstart, socket, false, Err("UPSTART_JOB not found")),
        ] {
            let found = Supervisor::of(mode, socket, is_upstart_job);
            match expected {
                Ok(name) => assert_eq!(found.expect("a supervisor is found").name(), name),
                Err(reason) => {
                    let error = found.expect_err("no supervisor is found");
                    assert!(error.contains(reason), "{error}");
                }
            }
        }
        let long = "/".repeat(200);
        assert!(Supervisor::of(Supervised::Systemd, Some(OsStr::new(&long)), false).is_err());
    }

    #[test]
    fn messages_reach_the_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let supervisor = Supervisor::of(Supervised::Systemd, Some(path.as_os_str()), false).expect("a path");
        let mut buffer = [0u8; 200];
        let mut next = || {
            let len = manager.recv(&mut buffer).expect("a message");
            String::from_utf8_lossy(&buffer[..len]).into_owned()
        };
        supervisor.status("two\nlines");
        assert_eq!(next(), "STATUS=two lines\n");
        supervisor.ready();
        assert_eq!(next(), "STATUS=Ready to accept connections\nREADY=1\n");
        supervisor.stopping();
        assert_eq!(next(), "STOPPING=1\n");
    }

    #[test]
    fn long_work_puts_time_limits_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let supervisor = Supervisor::of(Supervised::Systemd, Some(path.as_os_str()), false).expect("a path");
        let mut buffer = [0u8; 200];
        let message = supervisor.patiently(
            || Some("42 %".into()),
            || {
                let len = manager.recv(&mut buffer).expect("a message");
                String::from_utf8_lossy(&buffer[..len]).into_owned()
            },
        );
        assert_eq!(message, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=42 %\n");
        // Short work is not reported.
        let begin = Instant::now();
        let was_asked = AtomicBool::new(false);
        let status = || {
            was_asked.store(true, Relaxed);
            None
        };
        for _ in 0..20 {
            supervisor.patiently(status, || ());
        }
        assert!(begin.elapsed() < REPORT_EVERY * 10 && !was_asked.load(Relaxed));
    }

    #[test]
    fn absent_or_unresponsive_supervisor_does_not_block() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let supervisor = Supervisor::of(Supervised::Systemd, Some(path.as_os_str()), false).expect("a path");
        supervisor.ready();
        let _deaf = UnixDatagram::bind(&path).expect("a socket");
        for _ in 0..5_000 {
            supervisor.status("nobody reads this");
        }
    }
}
