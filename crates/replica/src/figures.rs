// SPDX-License-Identifier: BSD-3-Clause
//! Figures of replication links that INFO and the metrics show, one row each. Those whose name has
//! no `master_` stand in the lines of INFO links.

use braid_replication::link::Phase;
use braid_telemetry::Figure;
use braid_telemetry::Reading::{Count, Flag, Known, Link, Milliseconds, WholeSeconds};

use crate::report::{LinkReport, ReceiveProgress, ReplicaReport, SendProgress};

#[rustfmt::skip]
mod rows {
    use super::*;

    // The link to the primary.
    pub static LINK_UP: Figure<LinkReport> = Figure::gauge("master_link_status", "braid_primary_link_up", "1 if the server receives changes from its primary.", |link| Link(link.phase == Phase::Connected));
    pub static DOWN: Figure<LinkReport> = Figure::gauge("master_link_down_since_seconds", "braid_primary_link_down_seconds", "Time since the link to the primary was lost; only while it is down after having been up.", |link| WholeSeconds(link.down_ms));
    pub static LAST_IO: Figure<LinkReport> = Figure::gauge("master_last_io_seconds_ago", "braid_primary_last_io_seconds", "Time since the last message from the primary, while the link is up.", |link| WholeSeconds(link.last_io_ms));
    pub static UNAPPLIED: Figure<LinkReport> = Figure::gauge("unapplied_bytes", "braid_primary_unapplied_bytes", "Bytes of the stream received but not yet applied.", |link| Count(link.unapplied_bytes));
    pub static SYNC_IN_PROGRESS: Figure<LinkReport> = Figure::gauge("master_sync_in_progress", "braid_primary_sync_in_progress", "1 while a full sync is received or loaded.", |link| Flag(link.full_sync.is_some()));
    pub static SYNC_READ: Figure<ReceiveProgress> = Figure::gauge("sync_read_bytes", "braid_primary_sync_read_bytes", "Bytes of the full sync received so far, during a full sync.", |sync| Count(sync.read_bytes));
    pub static SYNC_TOTAL: Figure<ReceiveProgress> = Figure::gauge("sync_total_bytes", "braid_primary_sync_total_bytes", "Length of the full sync, while one of known length is received.", |sync| Known(sync.total_bytes));

    // A replica.
    pub static REPLICA_LAG: Figure<ReplicaReport> = Figure::gauge("lag_bytes", "braid_replica_lag_bytes", "Bytes of the stream that the replica has not acknowledged.", |replica| Count(replica.lag_bytes));
    pub static REPLICA_DELAY: Figure<ReplicaReport> = Figure::gauge("lag_ms", "braid_replica_delay_seconds", "Age of the oldest change that the replica has not acknowledged; replicas acknowledge once a second.", |replica| Milliseconds(Some(replica.lag_ms)));
    pub static REPLICA_OFFSET: Figure<ReplicaReport> = Figure::gauge("offset", "braid_replica_offset_bytes", "Offset up to which the replica has acknowledged the stream.", |replica| Count(replica.offset));
    pub static SYNC_SENT: Figure<SendProgress> = Figure::gauge("sync_sent_bytes", "braid_replica_sync_sent_bytes", "Bytes of the full sync sent to the replica, during a full sync.", |sync| Count(sync.sent_bytes));
}

pub use rows::*;
