// SPDX-License-Identifier: BSD-3-Clause
//! The server program: starts and stops configuration, log, listeners and threads.

mod crash;
mod listeners;
mod log_line;
mod log_sink;
mod process;
mod syslog;
mod system;
mod title;
mod tls_reload;
mod watchdog;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::build::{PROFILE, are_locks_off};
use braid_clients::Message;
use braid_cluster_node::group::{self, previous_process, report};
use braid_config::{Config, Request, UserLine};
use braid_durable::aof_load::AofLoadError;
use braid_durable::at_start;
use braid_durable::saving::{self, LoadFailure};
use braid_executor::Engine;
use braid_executor::engine::{Start, access};
use braid_persistence::LoadError;
use braid_persistence::active::ActiveFiles;
use braid_process::memory;
use braid_process::supervisor::Supervisor;
use braid_replica::link;
use braid_threading::accept::Listeners;

#[global_allocator]
static ALLOCATOR: braid_base::alloc::CountingAllocator = braid_base::alloc::CountingAllocator;

/// jemalloc's start-up options: return freed memory to the system within a quarter of a second
/// (growing tables leave their old segments behind), on a background thread so that no command
/// pays for it.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 59] = b"background_thread:true,dirty_decay_ms:250,muzzy_decay_ms:0\0";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How often a server that waits for the cluster's records looks for them.
const RECORDS_LOOK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    if std::env::args_os().skip(1).eq(["--check-system"]) {
        let findings = system::check_this();
        print!("{}", system::report(&findings));
        return if findings.iter().all(|finding| finding.is_good) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match Request::parse(std::env::args_os().skip(1)) {
        Request::Version => {
            println!(
                "Braid server v={VERSION} compatible=redis-{} malloc=jemalloc bits=64",
                braid_executor::COMPATIBLE_VERSION
            );
            ExitCode::SUCCESS
        }
        Request::Help => {
            print!("{}", braid_config::docs::usage("braid-server"));
            ExitCode::SUCCESS
        }
        Request::Start(arguments) => {
            let config = Arc::new(Config::new());
            match serve(&config, &arguments) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    report_failure(&config, &error);
                    ExitCode::FAILURE
                }
            }
        }
    }
}

/// Reports on standard error and in the log file why the server did not start. In the background,
/// and under a supervisor, the log may be all that the operator sees.
fn report_failure(config: &Arc<Config>, error: &str) {
    eprintln!("{error}");
    if !config.logfile().is_empty() || config.syslog_enabled() {
        // Unless logging has already started. A log that cannot be opened has nowhere to report
        // that.
        let _ = log_sink::install(config);
    } else if log_sink::is_stdout_same_as_stderr() {
        return;
    }
    let lines: Vec<&str> = error.lines().filter(|line| !line.is_empty()).collect();
    log::error!("Exiting after an error: {}", lines.join(" "));
}

/// Logs whether anything has been configured.
fn log_configuration(engine: &Engine, loaded: &braid_config::Loaded, arguments: &braid_config::Arguments) {
    if loaded.file.is_some() || arguments.from_stdin || !arguments.options.is_empty() {
        log::warn!("Configuration loaded");
    } else {
        log::warn!("Warning: no config file specified, using the default config.");
    }
    let container = engine.process.container_memory_bytes;
    if let Some(warning) = container.and_then(|bytes| memory::warning(engine.config.maxmemory(), bytes)) {
        log::warn!("{warning}");
    }
}

/// Runs the server until SHUTDOWN or a signal stops it.
fn serve(config: &Arc<Config>, arguments: &braid_config::Arguments) -> Result<(), String> {
    let mut input = process::Input::default();
    let loaded = config.load(arguments, &mut input).map_err(|error| error.to_string())?;
    let started_in = std::env::current_dir().ok();
    process::enter_directory(config)?;
    // Before the title overwrites the environment. A supervised server stays in the foreground.
    let supervisor = Supervisor::detect(config.supervised());
    let is_supervised = matches!(supervisor, Ok(Supervisor::Upstart | Supervisor::Systemd(_)));
    if config.daemonize() && !is_supervised {
        process::daemonize(started_in.as_deref(), &input)?;
    }
    let executable = std::env::args().next().unwrap_or_default();
    // Before there are other threads, and after the arguments have been read.
    let title = title::Title::claim(config, &executable, loaded.file.as_deref());
    let log = log_sink::install(config)?;
    for warning in &loaded.warnings {
        log::warn!("{warning}");
    }
    warn_of_surprises(config);
    let supervisor = supervisor.unwrap_or_else(|error| {
        log::warn!("{error}");
        Supervisor::None
    });
    if is_supervised {
        config.assign("supervised", &[supervisor.name()])?;
        if config.daemonize() {
            log::warn!(
                "'daemonize yes' is ignored: {} supervises the process it started.",
                supervisor.name()
            );
        }
    }
    supervisor.begin();
    let mut commands = braid_commands::rows_of(config);
    for renamed in &loaded.renamed {
        commands
            .table
            .rename(&renamed.command, &renamed.new_name)
            .map_err(|reason| renamed.place.error(reason).to_string())?;
    }
    braid_base::clock::calibrate();
    process::adapt_to_kernel(config);
    let start = Start { config_file: loaded.file.clone(), executable, supervisor };
    let engine = braid_node::start(Arc::clone(config), commands, start).map_err(|error| error.to_string())?;
    define_users(&engine, &loaded)?;
    log::warn!("oO0OoO0OoO0Oo Braid is starting oO0OoO0OoO0Oo");
    log::warn!(
        "Braid version={VERSION}, bits=64, profile={PROFILE}, pid={}, just started, compatible with Redis {}",
        std::process::id(),
        config.redis_version()
    );
    if are_locks_off() {
        log::warn!("BRAID_NO_LOCKS: there are no locks, for a test that must fail");
    }
    log_configuration(&engine, &loaded, arguments);
    let is_interactive = std::io::IsTerminal::is_terminal(&std::io::stdout()) && !config.syslog_enabled();
    if config.always_show_logo() || is_interactive {
        process::banner(config, VERSION);
    }
    process::write_pid_file(config);
    let listeners = listeners::open(config)?;
    let signals = process::watch_signals(&engine)?;
    crash::install(&engine, log)?;
    watchdog::follow(&engine)?;
    stop_loops_on_shutdown(&engine, &listeners);
    listeners::follow(&engine, &listeners)?;
    process::follow_settings(config);
    if let Some(title) = title {
        title.show_and_follow(config);
    }
    let is_load_due = is_load_due(config);
    if is_load_due || config.active_replica() {
        // Before the first HTTP answer: the server is not ready until the load is done.
        at_start::expect_load(&engine);
    }
    at_start::expect_map(&engine);
    serve_metrics(&engine)?;
    let threads = braid_threading::start(&engine, &listeners).map_err(|error| error.to_string())?;
    log::info!("Server initialized");
    let loaded = load_supervised(&engine, is_load_due);
    match &loaded {
        Ok(()) => {
            if !engine.shutdown.is_requested() {
                engine.process.supervisor.ready();
            }
            announce(&engine);
        }
        Err(error) => {
            engine.process.supervisor.status(error);
            engine.shutdown.request();
        }
    }
    threads.join()?;
    leave(&engine);
    signals.close();
    process::remove_pid_file(config);
    loaded?;
    log::warn!("Braid is now ready to exit, bye bye...");
    Ok(())
}

/// Starts the metrics listeners, if configured.
fn serve_metrics(engine: &Arc<Engine>) -> Result<(), String> {
    let config = &engine.config;
    if config.metrics_port() != 0 {
        let listeners = braid_metrics::bind(&config.metrics_bind(), config.metrics_port())?;
        braid_metrics::serve(Arc::clone(engine), listeners).map_err(|error| error.to_string())?;
        log::info!("Metrics are served by HTTP on port {}", config.metrics_port());
    }
    Ok(())
}

fn warn_of_surprises(config: &Config) {
    warn_of_coarse_size_classes();
    if config.maxclients_reserved() > 0 && config.priority_subnets().is_empty() {
        log::warn!("maxclients-reserved has no effect without priority-subnets");
    }
}

/// Warns if jemalloc was configured elsewhere (`JEMALLOC_SYS_WITH_LG_QUANTUM` in the build
/// environment, or another jemalloc linked in): keys then take more memory than they should.
fn warn_of_coarse_size_classes() {
    use braid_commands::server::allocator::{SPACING, size_class_spacing};
    if let Some(bytes) = size_class_spacing().filter(|bytes| *bytes != SPACING) {
        log::warn!(
            "WARNING: jemalloc was built with size classes {bytes} bytes apart instead of {SPACING}: small \
             keys use up to an eighth more memory, and used_memory is too low. Build with \
             JEMALLOC_SYS_WITH_LG_QUANTUM unset, or 3."
        );
    }
}

/// Defines roles and users, from the configuration or from the file that it names.
fn define_users(engine: &Engine, loaded: &braid_config::Loaded) -> Result<(), String> {
    let words = |lines: &[UserLine]| lines.iter().map(|line| line.words.clone()).collect::<Vec<_>>();
    let (roles, users) = (words(&loaded.roles), words(&loaded.users));
    if braid_acl::file::file_of(&engine.config).is_some() {
        if !roles.is_empty() || !users.is_empty() {
            return Err("Users are defined both in the configuration and in the file named by 'aclfile'. \
                        This very likely leads to mistakes and security holes: use only one of them."
                .into());
        }
        return engine
            .acl
            .load_file(access::acl_server(engine), 0)
            .map_err(|error| format!("Aborting startup because of ACL errors: {error}"));
    }
    let fault =
        |lines: &[UserLine], (number, error): (usize, String)| lines[number].place.error(error).to_string();
    let server = access::acl_server(engine);
    engine.acl.define_roles(server, &roles).map_err(|error| fault(&loaded.roles, error))?;
    engine.acl.define_users(server, &users).map_err(|error| fault(&loaded.users, error))
}

/// Whether there is data to load. If not, the first clients must not be told to wait for it.
fn is_load_due(config: &Config) -> bool {
    if config.appendonly() {
        return true;
    }
    if config.active_replica() && ActiveFiles::exist(Path::new(".")) {
        // They have the dataset.
        return false;
    }
    // If the check fails, the load will hit the error and report it.
    Path::new(&*config.dbfilename()).try_exists().unwrap_or(true)
}

/// Logs that clients are served. A node of a cluster that could not read the records serves no
/// slot, so it says that first.
fn announce(engine: &Arc<Engine>) {
    if !engine.config.cluster_enabled() || report::has_records(engine) {
        return listeners::announce(&engine.config);
    }
    let error = report::group_report(engine).map(|report| report.view.etcd_error).unwrap_or_default();
    log::warn!("Waiting for the cluster's records: this node serves no slot before etcd answers. {error}");
    engine.process.supervisor.status("Waiting for the cluster's records in etcd");
    let engine = Arc::clone(engine);
    let wait = move || {
        while !report::has_records(&engine) && !engine.shutdown.is_requested() {
            std::thread::sleep(RECORDS_LOOK);
        }
        if report::has_records(&engine) {
            listeners::announce(&engine.config);
            engine.process.supervisor.status("Ready to accept connections");
        }
    };
    // Only these lines depend on it.
    if let Err(error) = std::thread::Builder::new().name("announce".into()).spawn(wait) {
        log::warn!("Can't start a thread that waits for the cluster's records: {error}");
    }
}

/// Loads the data, if any, and makes the service manager wait for it. Then a replica starts to
/// follow its primary.
fn load_supervised(engine: &Engine, is_load_due: bool) -> Result<(), String> {
    saving::remove_left_over_files(&engine.config);
    previous_process::recognize_files(engine);
    if !is_load_due {
        start_active(engine)?;
        link::start_link(engine);
        group::thread::start_group(engine).map_err(|error| error.to_string())?;
        return Ok(());
    }
    let progress = &engine.persistence.progress;
    let status = || progress.active.load(Relaxed).then(|| format!("Loading: {:.1} %", progress.percent()));
    engine.process.supervisor.patiently(status, || load(engine))?;
    start_active(engine)?;
    link::start_link(engine);
    group::thread::start_group(engine).map_err(|error| error.to_string())
}

/// After the loops have ended: sends other servers their pending data, and leaves the group.
fn leave(engine: &Engine) {
    braid_active_node::thread::end_active(engine);
    group::thread::leave_group(engine);
}

/// Starts active-active replication, if configured.
fn start_active(engine: &Engine) -> Result<(), String> {
    braid_active_node::thread::start_active(engine, Arc::new(braid_types::active::ActiveValues))
}

/// Loads the data, if any.
fn load(engine: &Engine) -> Result<(), String> {
    let began = std::time::Instant::now();
    if engine.config.appendonly() {
        return load_append_only(engine);
    }
    match at_start::load_at_start(engine) {
        Ok(false) => Ok(()),
        Ok(true) => {
            log::info!("DB loaded from disk: {:.3} seconds", began.elapsed().as_secs_f64());
            Ok(())
        }
        // A shutdown is in progress.
        Err(LoadFailure::Load(LoadError::Stopped)) => Ok(()),
        Err(error) => {
            log::warn!("Terminating server after rdb file reading failure.");
            let path = std::path::absolute(&*engine.config.dbfilename()).unwrap_or_default();
            let advice = match error.is_damage() {
                true => format!(
                    " Run 'braid-check-rdb {}' to see how much of the file can be read.",
                    path.display()
                ),
                false => String::new(),
            };
            Err(format!("Fatal error loading the DB from {}: {error}. Exiting.{advice}", path.display()))
        }
    }
}

/// Loads the append-only file, if there is one. A dump file next to it is ignored.
fn load_append_only(engine: &Engine) -> Result<(), String> {
    match at_start::load_append_only_at_start(engine) {
        Ok(loaded) => {
            let dump = engine.config.dbfilename();
            if loaded.manifest.has_no_data() && Path::new(&*dump).is_file() {
                log::warn!(
                    "There is no append-only file, so the database is empty: the dump file {dump} is not \
                     loaded while 'appendonly' is 'yes'. To continue from it, start with 'appendonly no' \
                     and then CONFIG SET appendonly yes."
                );
            }
            Ok(())
        }
        Err(AofLoadError::Stopped) => Ok(()),
        Err(error) => {
            let error = error.to_string();
            Err(format!(
                "Fatal error loading the append-only file: {}. Exiting.",
                error.trim_end_matches('.')
            ))
        }
    }
}

/// Stops the loops at shutdown. The listeners are closed first, so that a disconnected client
/// cannot reconnect.
fn stop_loops_on_shutdown(engine: &Arc<Engine>, listeners: &Arc<Listeners>) {
    let weak = Arc::downgrade(engine);
    let listeners = Arc::clone(listeners);
    engine.shutdown.on_request(move || {
        listeners.retain(|_| false);
        if let Some(engine) = weak.upgrade() {
            engine.clients.mailboxes.tell_all(|| Message::Stop);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_due_only_if_there_is_data_to_load() {
        // Tests run in the crate's folder.
        for (settings, is_due) in [
            ("dbfilename nosuch.rdb", false),
            ("dbfilename Cargo.toml", true),
            ("dbfilename nosuch.rdb\nappendonly yes", true),
        ] {
            let config = Config::new();
            config.load_text(settings).expect("valid settings");
            assert_eq!(is_load_due(&config), is_due, "{settings}");
        }
    }
}
