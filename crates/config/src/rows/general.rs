// SPDX-License-Identifier: BSD-3-Clause
//! Directives about the process: working directory, log, start and shutdown.

use super::checks;
use crate::directive::{Special, Unit};
use crate::enums::{
    ConfigEnum, LogFormat, LogLevel, LogTimestampFormat, OomScoreAdj, ShutdownFlags, Supervised,
    SyslogFacility,
};
use crate::rows::INT_MAX;

super::directives! {
    "General", after tls;

    /// Run in the background.
    daemonize: bool => switch("daemonize", false).immutable();

    /// Report readiness to a supervisor: systemd, upstart, auto (detect it from the environment)
    /// or no.
    supervised: Supervised => choice("supervised", Supervised::No.raw(), Supervised::WORDS).immutable();

    /// File that holds the process ID while the server runs.
    pidfile: text => optional_text("pidfile").immutable();

    /// Working directory: snapshots and append-only files are stored here, and relative paths
    /// start here.
    dir: special => special("dir", Special::Directory).protected().deny_loading().always_applied()
        .documented_default("./", "the directory the server was started in").of_one_node();

    /// Number of databases. Cluster mode uses `cluster-databases` instead.
    databases: u32 => integer("databases", || 16, 1, INT_MAX, Unit::Plain).immutable();

    /// Minimum level of log messages: debug, verbose, notice, warning or nothing.
    loglevel: LogLevel => choice("loglevel", LogLevel::Notice.raw(), LogLevel::WORDS);

    /// Log file; empty means standard output.
    logfile: text => text("logfile", "").immutable();

    /// Format of log lines: legacy (as in Redis), logfmt or json. Crash reports have their own.
    log_format: LogFormat => choice("log-format", LogFormat::Legacy.raw(), LogFormat::WORDS);

    /// Format of times in the log: legacy, iso8601 or milliseconds (since the Unix epoch). The
    /// first two are in UTC.
    log_timestamp_format: LogTimestampFormat =>
        choice("log-timestamp-format", LogTimestampFormat::Legacy.raw(), LogTimestampFormat::WORDS);

    /// Omit names of users from log lines about TLS certificates.
    hide_user_data_from_log: bool => switch("hide-user-data-from-log", true);

    /// Also log to the system's log, through `/dev/log`. It is not waited for: lines that it does
    /// not take at once are lost, and it is told how many.
    syslog_enabled: bool => switch("syslog-enabled", false).immutable();

    /// Name of this server in the system's log.
    syslog_ident: text => text("syslog-ident", "redis").immutable();

    /// Facility of this server's lines in the system's log.
    syslog_facility: SyslogFacility =>
        choice("syslog-facility", SyslogFacility::Local0.raw(), SyslogFacility::WORDS).immutable();

    /// Log a report when the server crashes.
    crash_log_enabled: bool => switch("crash-log-enabled", true);

    /// Test memory after a crash.
    crash_memcheck_enabled: bool => switch("crash-memcheck-enabled", true).no_effect_yet();

    /// Exit instead of aborting after a fatal error.
    use_exit_on_panic: bool => switch("use-exit-on-panic", false).hidden().no_effect_yet();

    /// Print the logo at start even if standard output is not a terminal.
    always_show_logo: bool => switch("always-show-logo", false).immutable();

    /// Set the process title from `proc-title-template`.
    set_proc_title: bool => switch("set-proc-title", true).immutable();

    /// Template of the process title. Variables in braces: title, listen-addr, server-mode, port,
    /// tls-port, unixsocket, config-file.
    proc_title_template: text => text("proc-title-template", "{title} {listen-addr} {server-mode}")
        .text_check(checks::proc_title_template);

    /// Locale that determines the order of SORT ALPHA; empty takes it from the environment.
    locale_collate: text => text("locale-collate", "").no_effect_yet();

    /// Background work cycles per second, clamped to 1 to 500.
    hz: u32 => integer("hz", || 10, 0, INT_MAX, Unit::Plain).integer_check(checks::hz);

    /// Run background work more often when many clients are connected. Accepted for compatibility:
    /// a cycle visits as many clients as there are to visit.
    dynamic_hz: bool => switch("dynamic-hz", true).always_on();

    /// Shutdown options on SIGINT: default, or any of save, nosave, now, force, safe (refuse on a
    /// cluster primary that owns slots), failover (promote an up-to-date replica first).
    shutdown_on_sigint: ShutdownFlags => flags("shutdown-on-sigint", 0, ShutdownFlags::WORDS);

    /// Shutdown options on SIGTERM: default, or any of save, nosave, now, force, safe (refuse on a
    /// cluster primary that owns slots), failover (promote an up-to-date replica first).
    shutdown_on_sigterm: ShutdownFlags => flags("shutdown-on-sigterm", 0, ShutdownFlags::WORDS);

    /// Maximum seconds that a shutdown waits for replicas to catch up; 0 disables the wait.
    shutdown_timeout_seconds: u32 =>
        integer("shutdown-timeout", || 10, 0, INT_MAX, Unit::Seconds);

    /// Adjust the kernel's OOM score of this process: no, yes (relative to the score before) or
    /// absolute.
    oom_score_adj: OomScoreAdj =>
        choice("oom-score-adj", OomScoreAdj::No.raw(), OomScoreAdj::WORDS);

    /// OOM scores of a primary, a replica and a background process, each from -2000 to 2000. Braid
    /// has no background process.
    oom_score_adj_values: special => special("oom-score-adj-values", Special::OomScoreAdjValues);

    /// Disable transparent huge pages for this process, if the system uses them for all memory.
    disable_thp: bool => switch("disable-thp", true).immutable();

    /// Names of start-up warnings that do not prevent the start.
    ignore_warnings: text => text("ignore-warnings", "").no_effect_yet();

    /// Log the call stack of a command that runs for this many milliseconds; 0 disables the
    /// watchdog.
    watchdog_period_milliseconds: u32 =>
        integer("watchdog-period", || 0, 0, INT_MAX, Unit::Milliseconds).hidden();

    /// Redis version reported to clients (INFO, HELLO, LOLWUT) and scripts, which choose commands
    /// and options by it. Braid's own version is `braid_version` in INFO.
    redis_version: text =>
        text("redis-version", "7.2.4").immutable().beyond_redis().text_check(checks::version);

    /// Report a stock server's name to clients that require it. Accepted for compatibility: HELLO
    /// always reports `redis`.
    extended_redis_compatibility: bool => switch("extended-redis-compatibility", false).always_on();

    /// Name the modules of stock servers whose commands this server has in MODULE LIST and HELLO:
    /// some libraries look for `ReJSON` there before they use its commands.
    module_list_compatible: bool => switch("module-list-compatible", false).beyond_redis();

    /// Location of this server, reported by HELLO and INFO; some clients prefer nearby servers.
    availability_zone: text => text("availability-zone", "");
}

/// Position of `dir`.
pub(crate) const DIR: usize = index_of!(dir);
/// Position of `oom-score-adj-values`.
pub(crate) const OOM_SCORES: usize = index_of!(oom_score_adj_values);
