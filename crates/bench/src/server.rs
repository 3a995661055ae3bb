// SPDX-License-Identifier: BSD-3-Clause
//! A server process for a comparison: started on a free port in its own folder, stopped when
//! dropped.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::system_text::reason;
use braid_client::{Address, Connection, Target, Value};
use rustix::process::{Pid, Signal, kill_process};

use crate::options::words;

/// A running server.
pub struct Server {
    pub target: Target,
    /// `None`: not started here; it keeps running.
    process: Option<Child>,
    folder: Option<PathBuf>,
}

/// Timeout for a server's start, and for its stop.
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Another process may take the port between our check and the server's use of it.
const PORT_ATTEMPTS: u32 = 3;

impl Server {
    /// Starts the command line and waits until the server replies. `base` has the connection's
    /// settings.
    ///
    /// # Errors
    /// If the command line is empty or cannot be run, or the server ends or does not reply in time.
    pub fn start(command: &str, base: &Target, processors: &[usize]) -> Result<Server, String> {
        Server::start_at(command, base, processors, free_port)
    }

    /// As [`Server::start`], on a port found by `choose`.
    pub(crate) fn start_at(
        command: &str,
        base: &Target,
        processors: &[usize],
        choose: fn() -> std::io::Result<u16>,
    ) -> Result<Server, String> {
        let mut failure = String::new();
        for _ in 0..PORT_ATTEMPTS {
            match Server::attempt(command, base, processors, choose) {
                Err(reason) if reason.contains("ddress already in use") => failure = reason,
                other => return other,
            }
        }
        Err(failure)
    }

    fn attempt(
        command: &str,
        base: &Target,
        processors: &[usize],
        choose: fn() -> std::io::Result<u16>,
    ) -> Result<Server, String> {
        let folder =
            new_folder().map_err(|error| format!("cannot create a directory for the server: {error}"))?;
        let port = choose().map_err(|error| format!("no free port: {error}"))?;
        let line = completed(command, port, &folder.display().to_string());
        let words = words(&line)?;
        let child = spawn(&words, &folder, processors);
        let mut server = Server {
            target: Target { address: Address::Tcp { host: "127.0.0.1".into(), port }, ..base.clone() },
            process: None,
            folder: Some(folder),
        };
        server.process =
            Some(child.map_err(|error| format!("cannot start {}: {}", words[0], reason(&error)))?);
        server.wait_until_ready().map_err(|reason| format!("{line}: {reason}"))?;
        Ok(server)
    }

    /// A server that is already running.
    pub fn running(target: Target) -> Server {
        Server { target, process: None, folder: None }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let mut reason = String::new();
        while start.elapsed() < START_PATIENCE {
            if let Some(process) = &mut self.process
                && let Ok(Some(status)) = process.try_wait()
            {
                return Err(format!("the server exited ({status}); its last output:\n{}", self.last_words()));
            }
            match Connection::open(&self.target).and_then(|mut connection| connection.command(&["PING"])) {
                // A server that requires a password, or is still loading, is not ready.
                Ok(Value::Error(text)) => reason = text,
                Ok(_) => return Ok(()),
                Err(error) => reason = error.to_string(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("the server is not ready after a minute ({reason}):\n{}", self.last_words()))
    }

    /// The end of the server's output, or else of a log file in its folder: some servers print
    /// nothing once they log to a file.
    fn last_words(&self) -> String {
        let Some(folder) = &self.folder else { return String::new() };
        let printed = tail(&folder.join(PRINTED));
        if !printed.is_empty() {
            return printed;
        }
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().contains("log"));
        let said = logs.map(|file| tail(&file.path())).find(|text| !text.is_empty());
        said.unwrap_or_else(|| "(it printed nothing; see its log file, if it has one)".to_owned())
    }
}

/// File for the server's output.
const PRINTED: &str = "output";
/// Lines of output shown if the server does not start.
const LAST_LINES: usize = 10;

/// The last non-empty lines of a text file; empty if it cannot be read.
fn tail(path: &std::path::Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            if let Some(id) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
                // It may already have exited.
                let _ = kill_process(id, Signal::TERM);
            }
            let start = Instant::now();
            while matches!(process.try_wait(), Ok(None)) {
                if start.elapsed() > STOP_PATIENCE {
                    let _ = process.kill();
                    let _ = process.wait();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        if let Some(folder) = &self.folder {
            // On failure the folder is left behind.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Fills in the placeholders. Without `{port}`, adds the options that a Redis-like server needs.
fn completed(command: &str, port: u16, folder: &str) -> String {
    let line = command.replace("{port}", &port.to_string()).replace("{dir}", folder);
    if command.contains("{port}") {
        line
    } else {
        format!("{line} --port {port} --bind 127.0.0.1 --dir {folder} --save ''")
    }
}

fn spawn(words: &[String], folder: &std::path::Path, processors: &[usize]) -> std::io::Result<Child> {
    let log = std::fs::File::create(folder.join(PRINTED))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Ctrl-C must not reach the server: it is needed until the results are printed.
    command.process_group(0);
    if processors.is_empty() {
        return command.spawn();
    }
    // A child inherits the processor affinity of the thread that starts it.
    std::thread::scope(|scope| {
        let start = scope.spawn(|| {
            if !braid_net::affinity::bind_thread(processors) {
                return Err(std::io::Error::other("these processors are not available"));
            }
            command.spawn()
        });
        start.join().unwrap_or_else(|_| Err(std::io::Error::other("the starting thread panicked")))
    })
}

fn new_folder() -> std::io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("braid-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(path),
        }
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_completed() {
        assert_eq!(
            completed("redis-server --x 1", 7000, "/tmp/a"),
            "redis-server --x 1 --port 7000 --bind 127.0.0.1 --dir /tmp/a --save ''"
        );
        assert_eq!(completed("s -p {port} -o dir={dir}", 7000, "/tmp/a"), "s -p 7000 -o dir=/tmp/a");
    }

    #[test]
    fn a_server_that_ends_is_heard_out() {
        let command = "sh -c 'echo \"no such directive\" >&2; exit 3' {port}";
        let reason = Server::start(command, &Target::local(0), &[]).err().unwrap();
        assert!(reason.contains("no such directive") && reason.contains("exit status: 3"), "{reason}");
        // A server that logs to a file, and one without output.
        let command = "sh -c 'echo \"bad luck\" > \"$0/some.log\"; exit 3' {dir} {port}";
        let reason = Server::start(command, &Target::local(0), &[]).err().unwrap();
        assert!(reason.contains("bad luck"), "{reason}");
        let reason = Server::start("sh -c 'exit 4' {port}", &Target::local(0), &[]).err().unwrap();
        assert!(reason.contains("exit status: 4") && reason.contains("printed nothing"), "{reason}");
        let reason = Server::start("/no/such/program", &Target::local(0), &[]).err().unwrap();
        assert!(reason.contains("cannot start /no/such/program"), "{reason}");
    }
}
