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
use braid_commands::server::allocator;
use braid_config::{Config, ShutdownFlags};
use braid_executor::Engine;
use braid_node::shutdown::{self, ShutdownOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

/// Changes to the configured directory, now and whenever the setting changes.
pub fn enter_directory(config: &Arc<Config>) -> Result<(), String> {
    let enter = |config: &Config| {
        let dir = config.dir();
        std::env::set_current_dir(&dir)
            .map_err(|error| format!("Can't chdir to '{}': {}", dir.display(), reason(&error)))
    };
    config.on_change(&["dir"], enter);
    enter(config)
}

/// Standard input, with a copy of the bytes read so far.
#[derive(Default)]
pub struct Input(Vec<u8>);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = std::io::stdin().read(buffer)?;
        self.0.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Continues in the background: restarts the program without a terminal and ends this process.
/// `from` is the folder in which this process was started, to which paths on the command line are
/// relative. The new process reads the same input.
pub fn daemonize(from: Option<&Path>, input: &Input) -> Result<(), String> {
    const MARK: &str = "BRAID_DAEMON";
    if std::env::var_os(MARK).is_some() {
        // This is the background process: leave the terminal's session.
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

/// Descriptors reserved for other uses than clients.
const RESERVED: u64 = 32;

/// Adapts this process, or the configuration, to the kernel's limits and memory management. Call it
/// before other threads start.
pub fn adapt_to_kernel(config: &Config) {
    raise_descriptor_limit(config);
    disable_huge_pages(config);
}

/// Disables transparent huge pages for this process (`disable-thp`), if the kernel would use them
/// for memory that does not ask for them.
fn disable_huge_pages(config: &Config) {
    const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let is_always = || std::fs::read_to_string(MODE).is_ok_and(|modes| modes.contains("[always]"));
    if config.disable_thp()
        && is_always()
        && let Err(error) = rustix::thread::disable_transparent_huge_pages(true)
    {
        log::warn!("Cannot disable transparent huge pages: {error}");
    }
}

/// Raises the limit of open files for `maxclients` connections, or lowers `maxclients` to fit the
/// limit.
fn raise_descriptor_limit(config: &Config) {
    let wanted = config.maxclients();
    if let Err(possible) = allow_clients(wanted) {
        log::warn!(
            "You requested maxclients of {wanted} requiring at least {} max file descriptors. maxclients has been \
             reduced to {possible} to compensate for the limit of the system.",
            u64::from(wanted) + RESERVED
        );
        if let Err(error) = config.assign("maxclients", &[&possible.to_string()]) {
            log::warn!("cannot reduce maxclients: {error}");
        }
    }
}

/// Adapts the process to settings, now and whenever they change.
pub fn follow_settings(config: &Config) {
    follow_client_limit(config);
    follow_allocator(config);
}

/// Adapts the limit of open files to CONFIG SET maxclients.
fn follow_client_limit(config: &Config) {
    config.on_change(&["maxclients"], |config| {
        allow_clients(config.maxclients()).map_err(|possible| {
            format!(
                "The operating system is not able to handle the specified number of clients, try with {possible}"
            )
        })
    });
}

/// Lets the allocator return memory on a thread of its own, or not (`jemalloc-bg-thread`).
fn follow_allocator(config: &Config) {
    let apply = |config: &Config| match allocator::set_background_thread(config.jemalloc_bg_thread()) {
        true => Ok(()),
        false => Err("Failed to change jemalloc bg thread".to_owned()),
    };
    if let Err(error) = apply(config) {
        log::warn!("{error}");
    }
    config.on_change(&["jemalloc-bg-thread"], apply);
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

/// Writes the process ID to the file named by `pidfile`.
pub fn write_pid_file(config: &Config) {
    let path = config.pidfile();
    if !path.is_empty()
        && let Err(error) = std::fs::write(&*path, format!("{}\n", std::process::id()))
    {
        log::warn!("Failed to write PID file {path}: {}", reason(&error));
    }
}

/// Removes the file named by `pidfile`.
pub fn remove_pid_file(config: &Config) {
    let path = config.pidfile();
    if !path.is_empty() {
        // The file may already have been removed.
        let _ = std::fs::remove_file(&*path);
    }
}

/// Shuts the server down on SIGTERM and SIGINT. A second SIGINT exits immediately.
pub fn watch_signals(engine: &Arc<Engine>) -> Result<Handle, String> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGXFSZ]).map_err(|error| error.to_string())?;
    let handle = signals.handle();
    let engine = Arc::clone(engine);
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGXFSZ {
                // A file has reached its size limit: the failed write returns the error.
                continue;
            }
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            if !engine.shutdown.schedule() {
                if signal == SIGINT {
                    log::warn!("You insist... exiting now.");
                    braid_durable::saving::remove_unfinished_saves();
                    std::process::exit(1);
                }
                continue;
            }
            log::warn!("Received {name} scheduling shutdown...");
            let config = &engine.config;
            let flags =
                if signal == SIGINT { config.shutdown_on_sigint() } else { config.shutdown_on_sigterm() };
            // On a separate thread, so that further signals are still handled.
            let of_end = Arc::clone(&engine);
            let end = move || shut_down_by_signal(&of_end, name, flags);
            if let Err(error) = std::thread::Builder::new().name("shutdown".into()).spawn(end) {
                log::warn!(
                    "{name} received, but the thread that shuts down the server cannot be started: {error}"
                );
                shutdown::abort_shutdown(&engine);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(|error| error.to_string())?;
    Ok(handle)
}

/// Shuts the server down, unless the request is cancelled.
fn shut_down_by_signal(engine: &Engine, name: &str, flags: ShutdownFlags) {
    // While periodic work is paused (DEBUG PAUSE-CRON), so is this.
    while engine.debug.cron_paused.load(Relaxed) && engine.shutdown.is_scheduled() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let save = match (flags.has(ShutdownFlags::SAVE), flags.has(ShutdownFlags::NOSAVE)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    };
    let (now, force) = (flags.has(ShutdownFlags::NOW), flags.has(ShutdownFlags::FORCE));
    let (safe, failover) = (flags.has(ShutdownFlags::SAFE), flags.has(ShutdownFlags::FAILOVER));
    if shutdown::shut_down_by_signal(engine, ShutdownOptions { save, now, force, safe, failover }).is_err() {
        log::warn!(
            "{name} received but errors trying to shut down the server, check the logs for more information"
        );
    }
}

/// Prints the banner.
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
