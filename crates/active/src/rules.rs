// SPDX-License-Identifier: BSD-3-Clause
//! The rules on which convergence depends. A server applies all of them; the simulator disables
//! one at a time, to prove that it detects the violation.

/// The rules that a replica applies. All are on except in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Stamps only rise, whatever the wall clock does.
    pub clock_never_goes_back: bool,
    /// Stamps are later than every stamp seen.
    pub clock_is_hybrid: bool,
    /// A unit waits until everything its region had seen is applied.
    pub waits_for_dependencies: bool,
    /// A unit that has been applied is not applied again.
    pub applies_once: bool,
    /// A unit waits for the one before it.
    pub applies_in_order: bool,
    /// A server that comes back from an older file starts a new run.
    pub starts_new_run: bool,
    /// A region's own effects that a crash has lost are taken back from its peers.
    pub takes_back_own: bool,
    /// Equal times are ordered by region.
    pub ties_by_region: bool,
    /// A value that loses to a concurrent one is kept, since the winner may be removed.
    pub keeps_losers: bool,
    /// The forgotten part of a tally is kept until its region, or all regions, know of it.
    pub keeps_forgotten: bool,
    /// A tally is over when its region has forgotten it in the run that it belongs to.
    pub tallies_end_with_their_run: bool,
    /// A region's tallies are over when that region, not any, has acknowledged that.
    pub tallies_wait_for_their_region: bool,
    /// A removal forgets the part of a tally that it saw, not all of it.
    pub forgets_only_seen: bool,
    /// A removal removes only the values that it saw.
    pub removes_only_seen: bool,
    /// In a merge, a value that the other side has seen and does not have was removed.
    pub merge_knows_removals: bool,
    /// The hidden value of a type conflict is kept until a write that saw it removes it.
    pub keeps_losing_types: bool,
    /// A write that creates a key removes leftovers of the previous one.
    pub clears_before_creating: bool,
    /// Garbage is dropped once all regions, not just one, have acknowledged it.
    pub waits_for_all_regions: bool,
    /// An acknowledgement counts once everything its region knew has been applied here.
    pub acknowledgements_wait: bool,
    /// The longest of concurrent times wins.
    pub longest_time_wins: bool,
    /// Only the winner's region removes an expired key.
    pub one_region_expires: bool,
    /// While a state is saved, keys are written out before they change.
    pub saves_before_changes: bool,
    /// An eviction removes the key nowhere else.
    pub eviction_is_no_removal: bool,
    /// While a full copy is being merged, an effect has seen it only if its key has been merged.
    pub copies_are_seen_by_key: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            clock_never_goes_back: true,
            clock_is_hybrid: true,
            waits_for_dependencies: true,
            applies_once: true,
            applies_in_order: true,
            starts_new_run: true,
            takes_back_own: true,
            ties_by_region: true,
            keeps_losers: true,
            keeps_forgotten: true,
            tallies_end_with_their_run: true,
            tallies_wait_for_their_region: true,
            forgets_only_seen: true,
            removes_only_seen: true,
            merge_knows_removals: true,
            keeps_losing_types: true,
            clears_before_creating: true,
            waits_for_all_regions: true,
            acknowledgements_wait: true,
            longest_time_wins: true,
            one_region_expires: true,
            saves_before_changes: true,
            eviction_is_no_removal: true,
            copies_are_seen_by_key: true,
        }
    }
}
