// SPDX-License-Identifier: BSD-3-Clause
//! Directives about snapshots and the append-only file.

use super::checks;
use crate::directive::{Special, Unit};
use crate::enums::{AppendFsync, ConfigEnum, RdbTarget, RdbVersionCheck};
use crate::rows::{INT_MAX, LONG_MAX};

super::directives! {
    "Persistence", after memory;

    /// When to write a snapshot: pairs of seconds and changes. An empty text switches it off, also
    /// at shutdown.
    save_points: special => special("save", Special::Save);

    /// Name of the snapshot file, inside `dir`.
    dbfilename: text =>
        text("dbfilename", "dump.rdb").protected().text_check(checks::dbfilename);

    /// Compress texts in snapshots.
    rdbcompression: bool => switch("rdbcompression", true);

    /// End snapshots with a checksum and check it when loading.
    rdbchecksum: bool => switch("rdbchecksum", true).immutable();

    /// Which snapshots of unknown versions are loaded: strict refuses them, relaxed tries.
    rdb_version_check: RdbVersionCheck =>
        choice("rdb-version-check", RdbVersionCheck::Strict.raw(), RdbVersionCheck::WORDS);

    /// The servers that must be able to read snapshots (dump files, bases of the append-only file,
    /// DUMP): values are written in the newest form that they know. What they do not know is left
    /// out: expiry times of members of collections, and for keydb functions.
    rdb_target: RdbTarget => choice("rdb-target", RdbTarget::Braid.raw(), RdbTarget::WORDS);

    /// Refuse writes after a snapshot failed, until one succeeds.
    stop_writes_on_bgsave_error: bool => switch("stop-writes-on-bgsave-error", true);

    /// Remove snapshots that were made only to feed a replica.
    rdb_del_sync_files: bool => switch("rdb-del-sync-files", false);

    /// Force a snapshot to disk piece by piece while it is written.
    rdb_save_incremental_fsync: bool => switch("rdb-save-incremental-fsync", true);

    /// Microseconds to wait after each key that is saved; for tests.
    rdb_key_save_delay_microseconds: i64 =>
        integer("rdb-key-save-delay", || 0, -(1 << 31), INT_MAX, Unit::Microseconds).hidden();

    /// Log every write to the append-only file.
    appendonly: bool => switch("appendonly", false).deny_loading();

    /// First part of the append-only files' names.
    appendfilename: text => text("appendfilename", "appendonly.aof").immutable()
        .text_check(checks::appendfilename);

    /// Folder of the append-only files, inside `dir`.
    appenddirname: text => text("appenddirname", "appendonlydir").immutable()
        .text_check(checks::appenddirname);

    /// When the append-only file is forced to disk: always (before replying), everysec, or no (the
    /// kernel decides).
    appendfsync: AppendFsync =>
        choice("appendfsync", AppendFsync::Everysec.raw(), AppendFsync::WORDS);

    /// Do not force the append-only file to disk while a snapshot or rewrite is written.
    no_appendfsync_on_rewrite: bool => switch("no-appendfsync-on-rewrite", false);

    /// Rewrite the append-only file when it grew by this many percent; 0 never does.
    auto_aof_rewrite_percentage: u32 =>
        integer("auto-aof-rewrite-percentage", || 100, 0, INT_MAX, Unit::Percent);

    /// Do not rewrite an append-only file smaller than this.
    auto_aof_rewrite_min_size: u64 =>
        integer("auto-aof-rewrite-min-size", || 64 << 20, 0, LONG_MAX, Unit::Bytes);

    /// Load an append-only file whose last command is cut off, rather than refuse to start.
    aof_load_truncated: bool => switch("aof-load-truncated", true);

    /// Begin a rewritten append-only file with a snapshot.
    aof_use_rdb_preamble: bool => switch("aof-use-rdb-preamble", true);

    /// Note the time in the append-only file now and then.
    aof_timestamp_enabled: bool => switch("aof-timestamp-enabled", false);

    /// Force a rewritten append-only file to disk piece by piece.
    aof_rewrite_incremental_fsync: bool => switch("aof-rewrite-incremental-fsync", true);

    /// Keep append-only files that are no longer needed; for tests.
    aof_disable_auto_gc: bool => switch("aof-disable-auto-gc", false).hidden();
}

/// Position of `save`.
pub(crate) const SAVE: usize = index_of!(save_points);
