// SPDX-License-Identifier: BSD-3-Clause
//! Directives about snapshots and the append-only file.

use super::checks;
use crate::directive::{Special, Unit};
use crate::enums::{AppendFsync, ConfigEnum, RdbTarget, RdbVersionCheck};
use crate::rows::{INT_MAX, LONG_MAX};

super::directives! {
    "Persistence", after memory;

    /// Conditions for a snapshot: pairs of seconds and minimum changes. An empty string disables
    /// automatic snapshots, also at shutdown.
    save_points: special => special("save", Special::Save);

    /// Name of the snapshot file in `dir`.
    dbfilename: text =>
        text("dbfilename", "dump.rdb").protected().text_check(checks::dbfilename);

    /// Compress strings in snapshots.
    rdbcompression: bool => switch("rdbcompression", true);

    /// Append a checksum to snapshots and verify it on load.
    rdbchecksum: bool => switch("rdbchecksum", true).immutable();

    /// Snapshots of unknown versions: strict refuses them, relaxed tries to load them.
    rdb_version_check: RdbVersionCheck =>
        choice("rdb-version-check", RdbVersionCheck::Strict.raw(), RdbVersionCheck::WORDS);

    /// Load snapshots and full syncs that contain values of modules (such as RedisJSON) without
    /// them; otherwise such a value ends the load. They are counted in the log and in INFO.
    rdb_skip_unsupported: bool =>
        switch("rdb-skip-unsupported", false).aliases(&["rdb-skip-unknown-modules"]);

    /// Servers that must be able to read snapshots (dump files, bases of the append-only file,
    /// DUMP). Values are written in the newest encoding that these servers know. Unsupported data
    /// is dropped: member expiry times and, for keydb, functions.
    rdb_target: RdbTarget => choice("rdb-target", RdbTarget::Braid.raw(), RdbTarget::WORDS);

    /// Refuse writes after a failed snapshot until one succeeds; no effect without save points.
    stop_writes_on_bgsave_error: bool => switch("stop-writes-on-bgsave-error", true);

    /// Delete a received full sync file after loading it; no effect with save points.
    rdb_del_sync_files: bool => switch("rdb-del-sync-files", false);

    /// Fsync a snapshot incrementally while it is written.
    rdb_save_incremental_fsync: bool => switch("rdb-save-incremental-fsync", true);

    /// Microseconds to wait after each saved key; -N waits one microsecond every N keys. For
    /// tests.
    rdb_key_save_delay_microseconds: i64 =>
        integer("rdb-key-save-delay", || 0, -(1 << 31), INT_MAX, Unit::Microseconds).hidden();

    /// Log every write to the append-only file.
    appendonly: bool => switch("appendonly", false).deny_loading();

    /// Base name of the append-only files.
    appendfilename: text => text("appendfilename", "appendonly.aof").immutable()
        .text_check(checks::appendfilename);

    /// Directory of the append-only files, inside `dir`.
    appenddirname: text => text("appenddirname", "appendonlydir").immutable()
        .text_check(checks::appenddirname);

    /// Directory of backups (BACKUP START), inside `dir`.
    backupdirname: text => text("backupdirname", "backupdir").immutable()
        .text_check(checks::backupdirname).beyond_redis();

    /// Remove a sealed backup after this many seconds; 0 keeps it until BACKUP CLEANUP.
    backup_sealed_ttl_seconds: u32 => integer("backup-sealed-ttl", || 0, 0, INT_MAX, Unit::Seconds).beyond_redis();

    /// When to fsync the append-only file: always (before replying), everysec, or no (left to the
    /// kernel).
    appendfsync: AppendFsync =>
        choice("appendfsync", AppendFsync::Everysec.raw(), AppendFsync::WORDS);

    /// Do not fsync the append-only file while a snapshot or rewrite is in progress.
    no_appendfsync_on_rewrite: bool => switch("no-appendfsync-on-rewrite", false);

    /// Rewrite the append-only file after it has grown by this percentage; 0 disables it.
    auto_aof_rewrite_percentage: u32 =>
        integer("auto-aof-rewrite-percentage", || 100, 0, INT_MAX, Unit::Percent);

    /// Minimum size of the append-only file for an automatic rewrite.
    auto_aof_rewrite_min_size: u64 =>
        integer("auto-aof-rewrite-min-size", || 64 << 20, 0, LONG_MAX, Unit::Bytes);

    /// Load an append-only file whose last command is truncated, instead of refusing to start.
    aof_load_truncated: bool => switch("aof-load-truncated", true);

    /// Write the base of the append-only file as a snapshot.
    aof_use_rdb_preamble: bool => switch("aof-use-rdb-preamble", true);

    /// Write timestamps to the append-only file.
    aof_timestamp_enabled: bool => switch("aof-timestamp-enabled", false);

    /// Fsync a rewritten append-only file incrementally.
    aof_rewrite_incremental_fsync: bool => switch("aof-rewrite-incremental-fsync", true);

    /// Keep obsolete append-only files; for tests.
    aof_disable_auto_gc: bool => switch("aof-disable-auto-gc", false).hidden();
}

/// Position of `save`.
pub(crate) const SAVE: usize = index_of!(save_points);
