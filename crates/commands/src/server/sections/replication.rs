// SPDX-License-Identifier: BSD-3-Clause
//! INFO replication, with Redis's fields for both roles, and INFO links.

use std::fmt::Write;

use braid_base::clock;
use braid_replica::figures;
use braid_replica::report::{self, LinkReport};
use braid_replication::Stage;
use braid_replication::history::{History, ID_LEN};
use braid_replication::link::Phase;

use super::{Fields, safe_address};
use crate::server::figures as server;

/// Writes the section.
pub(super) fn write(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let config = &engine.config;
    let now = clock::unix_ms();
    let history = engine.replication.history();
    match report::link_report(engine) {
        Some(report) => link(fields, &report, &history),
        None => fields.field("role", "master"),
    }
    let replicas = report::replica_reports(engine);
    fields.field("connected_slaves", replicas.len());
    if config.min_replicas_to_write() > 0 && config.min_replicas_max_lag_seconds() > 0 {
        fields.show(&server::GOOD_REPLICAS, engine);
    }
    for (number, report) in replicas.iter().enumerate() {
        let replica = &report.replica;
        let lag = if replica.stage() == Stage::Online { replica.lag_seconds(now) } else { 0 };
        // The type field is Valkey's: full sync and stream share a connection.
        fields.field(
            format_args!("slave{number}"),
            format_args!(
                "ip={},port={},state={},{},lag={lag},type=replica",
                safe_address(&replica.ip()),
                replica.options.port,
                replica.stage_name(),
                figures::REPLICA_OFFSET.pair(report)
            ),
        );
    }
    let (end, kept) = (engine.keyspace.journal.end(), engine.keyspace.journal.backlog());
    // Valkey's field, for replicas with two connections.
    fields.field("replicas_waiting_psync", 0);
    fields.field("master_failover_state", engine.replication.failover.phase().name());
    let (earlier_id, until) = match history.earlier() {
        Some((id, until)) => (id.to_owned(), i64::try_from(until + 1).unwrap_or(i64::MAX)),
        None => ("0".repeat(ID_LEN), -1),
    };
    fields.field("master_replid", history.id());
    fields.field("master_replid2", earlier_id);
    fields.field("master_repl_offset", history.offset(end));
    fields.field("second_repl_offset", until);
    fields.field("repl_backlog_active", u8::from(kept.is_some()));
    fields.show(&server::BACKLOG_MAX, engine);
    // The first byte is number 1.
    fields.field("repl_backlog_first_byte_offset", kept.map_or(0, |kept| history.offset(kept.first) + 1));
    fields.field("repl_backlog_histlen", kept.map_or(0, |kept| kept.len));
}

/// Writes a replica's fields.
fn link(fields: &mut Fields<'_>, report: &LinkReport, history: &History) {
    let engine = fields.engine;
    let config = &engine.config;
    let is_up = report.phase == Phase::Connected;
    let applied = history.offset(engine.keyspace.journal.end());
    fields.field("role", "slave");
    fields.field("master_host", safe_address(&report.primary.host));
    fields.field("master_port", report.primary.port);
    fields.show(&figures::LINK_UP, report);
    fields.show(&figures::LAST_IO, report);
    fields.show(&figures::SYNC_IN_PROGRESS, report);
    fields.field("slave_read_repl_offset", applied + report.unapplied_bytes);
    fields.field("slave_repl_offset", applied);
    // The names of Redis 8 and of Valkey. The stream after a full sync stays with the primary
    // until the full sync is loaded.
    fields.same(0, &["replica_full_sync_buffer_size", "replica_full_sync_buffer_peak"]);
    fields.same(0, &["replicas_repl_buffer_size", "replicas_repl_buffer_peak"]);
    if let Some(sync) = &report.full_sync {
        let total = sync.total_bytes.unwrap_or(0);
        let left = sync.total_bytes.map_or(-1, |total| total.saturating_sub(sync.read_bytes) as i64);
        let percent = if total > 0 { sync.read_bytes as f64 * 100.0 / total as f64 } else { 0.0 };
        fields.field("master_sync_total_bytes", total);
        fields.field("master_sync_read_bytes", sync.read_bytes);
        fields.field("master_sync_left_bytes", left);
        fields.field("master_sync_perc", format_args!("{percent:.2}"));
        fields.field("master_sync_last_io_seconds_ago", sync.last_io_ms / 1000);
    }
    if !is_up {
        // -1: the link has never been up.
        fields.show(&figures::DOWN, report);
    }
    fields.field("slave_priority", config.replica_priority());
    fields.field("slave_read_only", u8::from(config.replica_read_only()));
    fields.field("replica_announced", u8::from(config.replica_announced()));
}

/// Writes INFO links, Braid's own: the lag of links and the progress of full syncs.
pub(super) fn links(fields: &mut Fields<'_>) {
    let unknown = |bytes: Option<u64>| bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    if let Some(report) = report::link_report(fields.engine) {
        let mut line = format!(
            "host={},port={},state={},{},last_io_ms={},down_ms={}",
            safe_address(&report.primary.host),
            report.primary.port,
            report.phase.name(),
            figures::UNAPPLIED.pair(&report),
            report.last_io_ms.unwrap_or(-1),
            report.down_ms.unwrap_or(-1)
        );
        if let Some(sync) = report.full_sync {
            let loaded = sync.loaded.map_or(-1.0, |share| share * 100.0);
            let _ = write!(line, ",{},{}", figures::SYNC_READ.pair(&sync), figures::SYNC_TOTAL.pair(&sync));
            let _ = write!(line, ",sync_loaded_perc={loaded:.2}");
        }
        fields.field("primary", line);
    }
    for (number, report) in report::replica_reports(fields.engine).iter().enumerate() {
        let replica = &report.replica;
        let mut line = format!(
            "ip={},port={},state={},{},{}",
            safe_address(&replica.ip()),
            replica.options.port,
            replica.stage_name(),
            figures::REPLICA_LAG.pair(report),
            figures::REPLICA_DELAY.pair(report)
        );
        if let Some(sync) = report.full_sync {
            let total = unknown(sync.total_bytes);
            let _ = write!(line, ",{},sync_total_bytes={total}", figures::SYNC_SENT.pair(&sync));
            let _ = write!(line, ",sync_perc={:.2}", sync.done * 100.0);
        }
        fields.field(format_args!("replica{number}"), line);
    }
}
