// SPDX-License-Identifier: BSD-3-Clause
//! What the executor and the lower services ask of services above them. Each is created with the
//! engine, if the configuration asks for it, and does the rest in its own crate.
//!
//! A service's crate gets its own state back from these by [`state_of`]. Nobody else looks behind
//! them.

use std::any::Any;
use std::sync::Arc;

use braid_group::MemberId;
use braid_replication::Replica;

use crate::cluster_map::ClusterMap;
use crate::engine::call::Call;
use crate::transaction::SlotBatch;

/// This server's part in a group (`group-name`), or in a shard of a cluster (`cluster-name`).
pub trait Membership: Any + Send + Sync {
    /// There is no primary, and no server may lead by itself.
    fn is_leaderless(&self) -> bool;
    /// How the link introduces this server to a primary: its node, its run and the epoch.
    fn introduction(&self) -> (String, String, u64);
    /// Makes the group look at this server's state now.
    fn wake(&self);
    /// Bytes of the stream have arrived.
    fn note_received(&self);
    /// Acknowledges the received bytes by `send`, unless that is refused: then it is not called.
    fn acknowledge(&self, send: &mut dyn FnMut());
    /// A full sync is replacing the dataset (false) or has replaced it (true).
    fn set_whole(&self, is_whole: bool);
    /// Not all of the files' content was loaded.
    fn distrust_files(&self);
    /// A handover to a replica is possible: it is in sync.
    fn may_succeed(&self, replica: &Replica) -> bool;
    /// A replica may be chosen for a handover: one that must never take over on its own may not.
    fn may_choose(&self, replica: &Replica) -> bool;
    /// FAILOVER TAKEOVER: asks for this server to become the primary without the last one.
    ///
    /// # Errors
    /// If there is a primary, or etcd is unreachable: the reason.
    fn ask_takeover(&self) -> Result<(), &'static str>;
    /// Asks the group to hand over to a member that has everything.
    fn ask_handover(&self, to: MemberId);
    /// Time for which a primary may serve without hearing from etcd, in nanoseconds.
    fn lease_nanos(&self) -> u64;
    /// Every known member that is up is connected as a replica. `map`: that of the cluster.
    fn has_all_members(&self, map: Option<&ClusterMap>, replicas: &[Arc<Replica>]) -> bool;
}

/// Active-active replication (`active-replica`).
pub trait ActiveLog: Any + Send + Sync {
    /// The region number used in stream IDs.
    fn region_number(&self) -> u8;
    /// A peer's full copy, which was computed for the current replicas, is being merged.
    fn merges_copy(&self) -> bool;
    /// Asks for everything to be brought to disk soon.
    fn ask_for_disk(&self);
    /// Journal offset up to which the log is on disk.
    fn offset_on_disk(&self) -> u64;
    /// Whether the log on disk covers the journal up to an offset: `Some(false)` if the log cannot
    /// be written, `None` if the caller must wait.
    fn progress_on_disk(&self, offset: u64) -> Option<bool>;
    /// Waits until [`ActiveLog::progress_on_disk`] has an outcome.
    fn wait_until_on_disk(&self, offset: u64) -> bool;
}

/// This server as a cluster node (`cluster-enabled`).
pub trait ClusterService: Any + Send + Sync {
    /// Carries out the slot changes that a transaction has gathered, and replies to EXEC.
    fn answer_slot_batch(&self, call: &mut Call<'_, '_>, batch: SlotBatch);
}

/// The services that the configuration asks for.
#[derive(Default)]
pub struct Services {
    pub group: Option<Arc<dyn Membership>>,
    pub cluster: Option<ClusterMode>,
    pub active: Option<Arc<dyn ActiveLog>>,
}

/// Cluster mode: the map, which the request path reads, and the service.
pub struct ClusterMode {
    /// The map of a cluster of several nodes (`cluster-name`).
    pub map: Option<ClusterMap>,
    pub service: Arc<dyn ClusterService>,
}

/// The state of a service, for its own crate.
pub fn state_of<S: Any>(service: &dyn Any) -> Option<&S> {
    service.downcast_ref()
}

/// The same, to keep.
pub fn shared_state_of<S: Any + Send + Sync>(service: Arc<dyn Any + Send + Sync>) -> Option<Arc<S>> {
    service.downcast().ok()
}
