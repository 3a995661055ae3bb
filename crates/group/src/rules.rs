// SPDX-License-Identifier: BSD-3-Clause
//! The rules that safety and progress depend on. A server follows all of them; the simulator drops
//! one at a time to show that it detects the violation.

/// The rules that a member follows. All are on except in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Only a member of the in-sync set is promoted.
    pub promotes_in_sync_only: bool,
    /// A member in the middle of a full sync is not promoted.
    pub promotes_whole_only: bool,
    /// A candidate refuses the old primary for a lease time before it is promoted.
    pub waits_for_grace: bool,
    /// A promotion compares the record that it is based on.
    pub compares_record: bool,
    /// A promotion requires that the old primary's lease is gone.
    pub compares_holder: bool,
    /// A member is removed by a committed transaction before the primary stops waiting for it.
    pub removes_by_transaction: bool,
    /// A member added by a transaction of unknown outcome must acknowledge.
    pub requires_unknown: bool,
    /// An expired lease is replaced only by a transaction that binds the new one.
    pub binds_lease: bool,
    /// A member has everything acknowledged before it is added.
    pub joins_caught_up: bool,
    /// A candidate follows no primary while its promotion may still be committed.
    pub keeps_refusing: bool,
    /// Rights start when the message is sent, not when it is answered.
    pub counts_from_sending: bool,
    /// A candidate waits for the primary's own lease time if that is longer than its own.
    pub knows_lease: bool,
    /// Rights and waits allow a margin for clock drift.
    pub allows_for_drift: bool,
    /// A new process resumes its former process's membership only if everything acknowledged was on
    /// disk.
    pub resumes_from_disk: bool,
    /// The record says that everything is on disk only after every member has confirmed it.
    pub waits_for_all_disks: bool,
    /// Acknowledgements from memory count again only under a new epoch.
    pub clears_disk_anew: bool,
    /// The primary serves nothing between the start of a handover and its outcome.
    pub stops_for_handover: bool,
    /// A joining member that does not acknowledge in time is given up.
    pub drops_joining: bool,
    /// A member that was removed or given up is kept out for a while.
    pub backs_off: bool,
    /// A primary does not count on a lease that it gives up, from its decision on.
    pub stops_to_resign: bool,
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
            drops_joining: true,
            backs_off: true,
            stops_to_resign: true,
        }
    }
}
