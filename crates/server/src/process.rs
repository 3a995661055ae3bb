// SPDX-License-Identifier: BSD-3-Clause
//! The process: directory, daemon, descriptor limit, pid file, signals.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::crc::HASH_SLOTS;
use braid_base::system_text::reason;
use braid_config::{Config, ShutdownFlags};
use braid_engine::Engine;
use braid_engine::shutdown::ShutdownOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

/// Changes into the configured directory, now and whenever it is changed.
pub fn enter_directory(config: &Arc<Config>) -> Result<(), String> {
    let enter = |config: &Config| {
        let dir = config.dir();
        std::env::set_current_dir(&dir)
            .map_err(|error| format!("Can't chdir to '{}': {}", dir.display(), reason(&error)))
    };
    config.on_change(&["dir"], enter);
    enter(config)
}

/// Standard input, and what has been read of it.
#[derive(Default)]
pub struct Input(Vec<u8>);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = std::io::stdin().read(buffer)?;
        self.0.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Goes on in the background: starts the program again without a terminal and ends this process.
/// `from`: the folder that this one was started in, from which paths of the command line count.
/// The new process reads the same input.
pub fn daemonize(from: Option<&Path>, input: &Input) -> Result<(), String> {
    const MARK: &str = "BRAID_DAEMON";
    if std::env::var_os(MARK).is_some() {
        // Already the background process: leave the terminal's session.
        let _ = rustix::process::setsid();
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new(program);
    if let Some(folder) = from {
        command.current_dir(folder);
    }
    let failed = |error| format!("Cannot start in the background: {}", reason(&error));
    let mut process = command
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = process.stdin.take() {
        pipe.write_all(&input.0).map_err(failed)?;
    }
    std::process::exit(0);
}

/// Descriptors that are not clients.
const RESERVED: u64 = 32;

/// Raises the limit of open files for `maxclients` connections, or lowers `maxclients` to the
/// limit.
pub fn raise_descriptor_limit(config: &Config) {
    let wanted = config.maxclients();
    if let Err(possible) = allow_clients(wanted) {
        log::warn!(
            "You requested maxclients of {wanted} requiring at least {} max file descriptors. maxclients has been \
             reduced to {possible} to compensate for the limit of the system.",
            u64::from(wanted) + RESERVED
        );
        if let Err(error) = config.assign("maxclients", &[&possible.to_string()]) {
            log::warn!("maxclients cannot be reduced: {error}");
        }
    }
}

/// Adapts the limit of open files to CONFIG SET maxclients.
pub fn follow_client_limit(config: &Config) {
    config.on_change(&["maxclients"], |config| {
        allow_clients(config.maxclients()).map_err(|possible| {
            format!(
                "The operating system is not able to handle the specified number of clients, try with {possible}"
            )
        })
    });
}

/// Raises the process's limit of open files for `clients` connections. The error is the number of
/// clients that the limit allows.
fn allow_clients(clients: u32) -> Result<(), u64> {
    let wanted = u64::from(clients) + RESERVED;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(());
    }
    let reachable = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { reachable } else { current };
    if now >= wanted { Ok(()) } else { Err(now.saturating_sub(RESERVED).max(1)) }
}

/// Writes the process id to the file that `pidfile` names.
pub fn write_pid_file(config: &Config) {
    let path = config.pidfile();
    if !path.is_empty()
        && let Err(error) = std::fs::write(&*path, format!("{}\n", std::process::id()))
    {
        log::warn!("Failed to write PID file {path}: {}", reason(&error));
    }
}

/// Removes the file that `pidfile` names.
pub fn remove_pid_file(config: &Config) {
    let path = config.pidfile();
    if !path.is_empty() {
        // It may have been removed already.
        let _ = std::fs::remove_file(&*path);
    }
}

/// Shuts the server down on SIGTERM and SIGINT. A second SIGINT exits at once.
pub fn watch_signals(engine: &Arc<Engine>) -> Result<Handle, String> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGXFSZ]).map_err(|error| error.to_string())?;
    let handle = signals.handle();
    let engine = Arc::clone(engine);
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGXFSZ {
                // A file has reached its size limit: the write returns the error.
                continue;
            }
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            if !engine.shutdown.schedule() {
                if signal == SIGINT {
                    log::warn!("You insist... exiting now.");
                    braid_engine::saving::remove_unfinished_saves();
                    std::process::exit(1);
                }
                continue;
            }
            log::warn!("Received {name} scheduling shutdown...");
            let config = &engine.config;
            let flags =
                if signal == SIGINT { config.shutdown_on_sigint() } else { config.shutdown_on_sigterm() };
            // By a thread of its own, so that signals are still heard.
            let of_end = Arc::clone(&engine);
            let end = move || shut_down_by_signal(&of_end, name, flags);
            if let Err(error) = std::thread::Builder::new().name("shutdown".into()).spawn(end) {
                log::warn!("{name} received, but there is no thread to shut down the server: {error}");
                engine.abort_shutdown();
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(|error| error.to_string())?;
    Ok(handle)
}

/// Ends the server, if the request is not taken back.
fn shut_down_by_signal(engine: &Engine, name: &str, flags: ShutdownFlags) {
    // While periodic work is held (DEBUG PAUSE-CRON) this is, too.
    while engine.debug.cron_paused.load(Relaxed) && engine.shutdown.is_scheduled() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let save = match (flags.has(ShutdownFlags::SAVE), flags.has(ShutdownFlags::NOSAVE)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    };
    let (now, force) = (flags.has(ShutdownFlags::NOW), flags.has(ShutdownFlags::FORCE));
    let failover = flags.has(ShutdownFlags::FAILOVER);
    if engine.shut_down_by_signal(ShutdownOptions { save, now, force, failover }).is_err() {
        log::warn!(
            "{name} received but errors trying to shut down the server, check the logs for more information"
        );
    }
}

/// Prints the banner if the server is started at a terminal.
pub fn banner(config: &Config, version: &str) {
    println!(
        r"
     \   /  \   /      Braid {version}
      \ /    \ /       {model} on {threads} threads, {shards} shards
       X      X        Port: {port}
      / \    / \       PID: {pid}
     /   \  /   \
",
        model = config.get_one("threading-model").unwrap_or_default(),
        threads = config.io_threads(),
        shards = if config.cluster_enabled() { usize::from(HASH_SLOTS) } else { config.shards() },
        port = config.port(),
        pid = std::process::id()
    );
}
