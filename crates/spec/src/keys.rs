// SPDX-License-Identifier: BSD-3-Clause
//! Finds a request's keys from its command's specification.

use smallvec::SmallVec;

use crate::spec::{Begin, Find, KeyFlags, KeySpec, Spec};

/// Key positions given by three numbers: `first`, then every `step` up to `last` (negative: from
/// the end).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimpleKeys {
    /// 0 means no keys of this kind.
    pub first: i32,
    pub last: i32,
    pub step: i32,
    /// The keys are locked exclusively: they may be written, or a client queued at them.
    pub locks_exclusively: bool,
    /// All keys of the command are covered.
    pub complete: bool,
}

impl SimpleKeys {
    pub(crate) fn of(spec: &Spec) -> SimpleKeys {
        let none = SimpleKeys { first: 0, last: 0, step: 0, locks_exclusively: false, complete: false };
        match spec.keys {
            [] => SimpleKeys { complete: spec.key_finder.is_none(), ..none },
            [
                KeySpec {
                    begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, flags, ..
                },
            ] if !flags.has(KeyFlags::NOT_KEY) => {
                let last = if *last < 0 { *last } else { first + last };
                let complete = spec.key_finder.is_none() && !flags.has(KeyFlags::INCOMPLETE);
                let locks_exclusively = spec.keys[0].writes() || spec.locks_exclusively.is_some();
                SimpleKeys { first: *first, last, step: *step, locks_exclusively, complete }
            }
            _ => none,
        }
    }

    /// True for exactly one key, always at argument 1.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.first == 1 && self.last == 1 && self.complete
    }
}

/// A key among the arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyAt {
    pub index: usize,
    pub flags: KeyFlags,
}

/// Key positions of a request.
pub type KeyList = SmallVec<[KeyAt; 8]>;

/// The keys of a request with valid arity; `None` if the arguments are invalid (such as a key
/// count that is not a number). The body then replies with the error and touches no keys.
pub fn find(spec: &Spec, args: &[&[u8]]) -> Option<KeyList> {
    find_where(spec, args, |flags| !flags.has(KeyFlags::NOT_KEY))
}

/// As [`find`], including shard channels: everything that has a slot in a cluster.
pub fn find_slotted(spec: &Spec, args: &[&[u8]]) -> Option<KeyList> {
    find_where(spec, args, |_| true)
}

fn find_where(spec: &Spec, args: &[&[u8]], wants: impl Fn(KeyFlags) -> bool) -> Option<KeyList> {
    if let Some(finder) = spec.key_finder {
        return Some(finder(args)?.into_iter().map(|(index, flags)| KeyAt { index, flags }).collect());
    }
    let mut found = KeyList::new();
    for key_spec in spec.keys {
        if !wants(key_spec.flags) {
            continue;
        }
        find_one(key_spec, args, &mut found)?;
    }
    Some(found)
}

fn find_one(spec: &KeySpec, args: &[&[u8]], found: &mut KeyList) -> Option<()> {
    let count = args.len() as i64;
    let begin = match spec.begin {
        Begin::Index(index) => i64::from(index),
        Begin::Keyword { word, from } => match find_keyword(args, word, from) {
            Some(at) => at as i64 + 1,
            None => return Some(()),
        },
        Begin::Unknown => return None,
    };
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let last = match (i64::from(last), i64::from(limit)) {
                (last, _) if last >= 0 => begin + last,
                (last, limit) if limit <= 1 => count + last,
                (last, limit) => begin + (count - begin) / limit + last,
            };
            (begin, last, i64::from(step))
        }
        Find::KeyNum { count_at, first, step } => {
            let text = args.get(usize::try_from(begin + i64::from(count_at)).ok()?)?;
            let keys = braid_base::number::parse_i64(text).filter(|&keys| keys >= 0)?;
            let first = begin + i64::from(first);
            let last = keys.checked_sub(1)?.checked_mul(i64::from(step))?.checked_add(first)?;
            (first, last, i64::from(step))
        }
        Find::Unknown => return None,
    };
    if last >= count {
        return None;
    }
    let mut at = first;
    while at <= last {
        found.push(KeyAt { index: usize::try_from(at).ok()?, flags: spec.flags });
        at += step.max(1);
    }
    Some(())
}

fn find_keyword(args: &[&[u8]], word: &str, from: i32) -> Option<usize> {
    let matches = |at: &usize| args[*at].eq_ignore_ascii_case(word.as_bytes());
    if from >= 0 {
        (from as usize..args.len()).find(matches)
    } else {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(matches)
    }
}
