// SPDX-License-Identifier: BSD-3-Clause
//! The details on which safety hangs. A server has all of them; the simulator leaves out one at a
//! time, to show that it notices.

/// What a member keeps to. All of it is on except in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Only a member of the in-sync set is promoted.
    pub promotes_in_sync_only: bool,
    /// A member that is being sent the dataset anew is not promoted.
    pub promotes_whole_only: bool,
    /// A candidate refuses the old primary for a lease time before it is promoted.
    pub waits_for_grace: bool,
    /// A promotion compares the record that it is based on.
    pub compares_record: bool,
    /// A promotion finds the old primary's lease gone.
    pub compares_holder: bool,
    /// A member is removed by a committed transaction before anything goes on without it.
    pub removes_by_transaction: bool,
    /// A member that a transaction of unknown outcome adds must acknowledge.
    pub requires_unknown: bool,
    /// A lease that had lapsed is bound anew only by a transaction.
    pub binds_lease: bool,
    /// A member has all that was acknowledged before it is added.
    pub joins_caught_up: bool,
    /// While its promotion may still be committed a candidate follows nobody.
    pub keeps_refusing: bool,
    /// Rights count from when a message was sent.
    pub counts_from_sending: bool,
    /// A candidate waits as long as the primary's own lease time, if that is longer.
    pub knows_lease: bool,
    /// Rights and waits have a margin for clocks that drift.
    pub allows_for_drift: bool,
    /// A new process is its former one's member only if all that was acknowledged was on disk.
    pub resumes_from_disk: bool,
    /// The record says that all is on disk only when every member has said so.
    pub waits_for_all_disks: bool,
    /// Memory counts again only under another epoch.
    pub clears_disk_anew: bool,
    /// Nothing is served between the begin of a handover and its outcome.
    pub stops_for_handover: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            promotes_in_sync_only: true,
            promotes_whole_only: true,
            waits_for_grace: true,
            compares_record: true,
            compares_holder: true,
            removes_by_transaction: true,
            requires_unknown: true,
            binds_lease: true,
            joins_caught_up: true,
            keeps_refusing: true,
            counts_from_sending: true,
            knows_lease: true,
            allows_for_drift: true,
            resumes_from_disk: true,
            waits_for_all_disks: true,
            clears_disk_anew: true,
            stops_for_handover: true,
        }
    }
}
