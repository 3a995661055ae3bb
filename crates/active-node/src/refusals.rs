// SPDX-License-Identifier: BSD-3-Clause
//! What other servers say that they refuse. A server whose clock was ahead, that was restored from
//! older files or that has another's number looks healthy from inside: its links are up, and its
//! clients get their replies. Only its peers know that nobody takes its writes, so they tell it
//! (ACTIVE TELL).
//!
//! Nothing here reads a clock or a socket; time is an argument.

use std::collections::BTreeMap;

/// How long a server counts as being in contact after its last request, in ms. A peer that
/// refuses something tries again after five seconds at most.
const CONTACT_MS: i64 = 15_000;
/// The maximum length of a told reason, in bytes.
pub(crate) const REASON_MAX: usize = 500;

/// Why a server refuses the effects of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The region whose effects are refused, if they are the reason.
    pub about: Option<u8>,
    pub reason: String,
}

impl From<String> for Refused {
    fn from(reason: String) -> Refused {
        Refused { about: None, reason }
    }
}

impl From<&str> for Refused {
    fn from(reason: &str) -> Refused {
        Refused::from(reason.to_owned())
    }
}

impl From<braid_active::Refusal> for Refused {
    fn from(refusal: braid_active::Refusal) -> Refused {
        Refused { about: refusal.about().map(|region| region.number()), reason: refusal.to_string() }
    }
}

/// True if two texts differ at most in their numbers: a problem that persists is logged once.
pub(crate) fn is_same_problem(one: &str, other: &str) -> bool {
    let letters = |text: &'_ str| text.bytes().filter(|byte| !byte.is_ascii_digit()).collect::<Vec<_>>();
    letters(one) == letters(other)
}

/// What one other server has let us know.
#[derive(Debug, Default)]
struct Voice {
    /// When it last asked for units or told something, in Unix ms.
    heard_ms: i64,
    refused: Option<Refused>,
}

/// What each other server refuses, by its region.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    voices: BTreeMap<u8, Voice>,
}

impl Refusals {
    /// A server has asked for units.
    pub fn note_pull(&mut self, region: u8, now_ms: i64) {
        self.voices.entry(region).or_default().heard_ms = now_ms;
    }

    /// A server refuses something, or no longer. Returns true if that is new.
    pub fn note(&mut self, region: u8, refused: Option<Refused>, now_ms: i64) -> bool {
        let voice = self.voices.entry(region).or_default();
        voice.heard_ms = now_ms;
        let is_new = match (&voice.refused, &refused) {
            (None, None) => false,
            (Some(had), Some(new)) => had.about != new.about || !is_same_problem(&had.reason, &new.reason),
            _ => true,
        };
        voice.refused = refused;
        is_new
    }

    /// A region has been removed.
    pub fn forget(&mut self, region: u8) {
        self.voices.remove(&region);
    }

    /// The refusals, each with the region that has told it.
    pub fn all(&self) -> impl Iterator<Item = (u8, &Refused)> {
        self.voices.iter().filter_map(|(region, voice)| Some((*region, voice.refused.as_ref()?)))
    }

    /// How many servers refuse the effects of `region`.
    pub fn count(&self, region: u8) -> usize {
        self.all().filter(|(_, refused)| refused.about == Some(region)).count()
    }

    /// How many of the servers in contact refuse the effects of `region`, and how many do not.
    pub fn in_contact(&self, region: u8, now_ms: i64) -> (usize, usize) {
        let in_contact = self.voices.values().filter(|voice| now_ms - voice.heard_ms <= CONTACT_MS);
        let (refuse, take): (Vec<&Voice>, Vec<&Voice>) =
            in_contact.partition(|voice| voice.refused.as_ref().is_some_and(|one| one.about == Some(region)));
        (refuse.len(), take.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(about: u8, reason: &str) -> Option<Refused> {
        Some(Refused { about: Some(about), reason: reason.to_owned() })
    }

    #[test]
    fn refusals_are_told_once_and_end() {
        let mut refusals = Refusals::default();
        assert!(!refusals.note(2, None, 0));
        assert!(refusals.note(2, refused(1, "70000 ms ahead"), 10));
        assert!(!refusals.note(2, refused(1, "69000 ms ahead"), 20), "it differs only in a number");
        assert!(refusals.note(2, refused(3, "70000 ms ahead"), 30));
        assert!(refusals.note(2, refused(1, "another server"), 40));
        assert_eq!((refusals.count(1), refusals.count(3), refusals.all().count()), (1, 0, 1));
        assert!(refusals.note(2, None, 50));
        assert_eq!(refusals.count(1), 0);
        refusals.note(2, refused(1, "x"), 60);
        refusals.forget(2);
        assert_eq!(refusals.all().count(), 0);
    }

    #[test]
    fn a_server_that_one_takes_is_not_isolated() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.in_contact(1, 0), (0, 0));
        refusals.note(2, refused(1, "x"), 1000);
        assert_eq!(refusals.in_contact(1, 2000), (1, 0));
        // Another refuses a third region's effects, which is not this one's fault.
        refusals.note(3, refused(4, "x"), 1000);
        assert_eq!(refusals.in_contact(1, 2000), (1, 1));
        // It is gone.
        refusals.note_pull(2, 20_000);
        assert_eq!(refusals.in_contact(1, 21_000), (1, 0));
        assert_eq!(refusals.in_contact(1, 60_000), (0, 0));
    }
}
