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

    /// Tell a supervisor that the server is ready: systemd, upstart, auto (look at the environment)
    /// or no.
    supervised: Supervised => choice("supervised", Supervised::No.raw(), Supervised::WORDS).immutable();

    /// File that holds the process number while the server runs.
    pidfile: text => optional_text("pidfile").immutable();

    /// Working directory: snapshots and append-only files are kept here, and relative names start
    /// here.
    dir: special => special("dir", Special::Directory).protected().deny_loading().always_applied()
        .documented_default("./", "the directory the server was started in").of_one_node();

    /// Number of databases. In cluster mode `cluster-databases` counts instead.
    databases: u32 => integer("databases", || 16, 1, INT_MAX, Unit::Plain).immutable();

    /// How much is logged: debug, verbose, notice, warning or nothing.
    loglevel: LogLevel => choice("loglevel", LogLevel::Notice.raw(), LogLevel::WORDS);

    /// File to log to; empty means standard output.
    logfile: text => text("logfile", "").immutable();

    /// Layout of log lines.
    log_format: LogFormat => choice("log-format", LogFormat::Legacy.raw(), LogFormat::WORDS).no_effect_yet();

    /// How log lines write the time.
    log_timestamp_format: LogTimestampFormat =>
        choice("log-timestamp-format", LogTimestampFormat::Legacy.raw(), LogTimestampFormat::WORDS)
            .no_effect_yet();

    /// Keep keys and values of users out of the log, also after a crash.
    hide_user_data_from_log: bool => switch("hide-user-data-from-log", true).no_effect_yet();

    /// Log to the system's log as well.
    syslog_enabled: bool => switch("syslog-enabled", false).immutable().no_effect_yet();

    /// Name under which the system's log knows this server.
    syslog_ident: text => text("syslog-ident", "redis").immutable().no_effect_yet();

    /// Facility of the system's log.
    syslog_facility: SyslogFacility =>
        choice("syslog-facility", SyslogFacility::Local0.raw(), SyslogFacility::WORDS).immutable()
            .no_effect_yet();

    /// Log a report when the server crashes.
    crash_log_enabled: bool => switch("crash-log-enabled", true);

    /// Check the memory when the server crashes.
    crash_memcheck_enabled: bool => switch("crash-memcheck-enabled", true).no_effect_yet();

    /// End with exit rather than abort after a fatal error.
    use_exit_on_panic: bool => switch("use-exit-on-panic", false).hidden().no_effect_yet();

    /// Show the logo at start even when the log is not a terminal.
    always_show_logo: bool => switch("always-show-logo", false).immutable();

    /// Show state in the process title.
    set_proc_title: bool => switch("set-proc-title", true).immutable();

    /// Text of the process title. Names in braces: title, listen-addr, server-mode, port, tls-port,
    /// unixsocket, config-file.
    proc_title_template: text => text("proc-title-template", "{title} {listen-addr} {server-mode}")
        .text_check(checks::proc_title_template);

    /// Locale whose order SORT ALPHA uses; empty takes it from the environment.
    locale_collate: text => text("locale-collate", "").no_effect_yet();

    /// Rate of background work in rounds a second, from 1 to 500.
    hz: u32 => integer("hz", || 10, 0, INT_MAX, Unit::Plain).integer_check(checks::hz);

    /// Raise the rate of background work when many clients are connected.
    dynamic_hz: bool => switch("dynamic-hz", true).no_effect_yet();

    /// What SIGINT does: default, or any of save, nosave, now, force, safe, failover (a replica
    /// that has everything takes over before).
    shutdown_on_sigint: ShutdownFlags => flags("shutdown-on-sigint", 0, ShutdownFlags::WORDS);

    /// What SIGTERM does: default, or any of save, nosave, now, force, safe, failover (a replica
    /// that has everything takes over before).
    shutdown_on_sigterm: ShutdownFlags => flags("shutdown-on-sigterm", 0, ShutdownFlags::WORDS);

    /// Seconds that a shutdown waits for replicas to catch up.
    shutdown_timeout_seconds: u32 =>
        integer("shutdown-timeout", || 10, 0, INT_MAX, Unit::Seconds);

    /// Ask the kernel to end this process earlier or later than others when memory runs out: no,
    /// yes (relative to the score at start) or absolute.
    oom_score_adj: OomScoreAdj =>
        choice("oom-score-adj", OomScoreAdj::No.raw(), OomScoreAdj::WORDS).no_effect_yet();

    /// Scores for a master, a replica and a background child, each from -2000 to 2000.
    oom_score_adj_values: special =>
        special("oom-score-adj-values", Special::OomScoreAdjValues).no_effect_yet();

    /// Switch transparent huge pages off for this process.
    disable_thp: bool => switch("disable-thp", true).immutable().no_effect_yet();

    /// Names of start-up warnings that do not stop the server.
    ignore_warnings: text => text("ignore-warnings", "").no_effect_yet();

    /// Milliseconds after which the watchdog logs in which functions a command is that is not done
    /// yet; 0 switches it off.
    watchdog_period_milliseconds: u32 =>
        integer("watchdog-period", || 0, 0, INT_MAX, Unit::Milliseconds).hidden();

    /// Version of Redis that INFO, HELLO, LOLWUT and scripts report. Clients and applications
    /// decide by it which commands and options to use; `braid_version` in INFO tells Braid's own.
    redis_version: text =>
        text("redis-version", "7.2.4").immutable().beyond_redis().text_check(checks::version);

    /// Name itself as a stock server does where clients insist on it.
    extended_redis_compatibility: bool => switch("extended-redis-compatibility", false).no_effect_yet();

    /// Where this server runs; clients can ask for it to prefer near servers.
    availability_zone: text => text("availability-zone", "").no_effect_yet();
}

/// Position of `dir`.
pub(crate) const DIR: usize = index_of!(dir);
/// Position of `oom-score-adj-values`.
pub(crate) const OOM_SCORES: usize = index_of!(oom_score_adj_values);
