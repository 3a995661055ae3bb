// SPDX-License-Identifier: BSD-3-Clause
//! Translates requests on lists to changes of single elements: elements that a request does not
//! name keep their places. Therefore regions that write to one list concurrently each remove and
//! change only the elements that their clients meant.
//!
//! Elements are found as the commands find them: by index, or by value from one end. A list that
//! lacks the element of a request is out of step with the keyspace, which is then consulted
//! ([`Reason::Unknown`]).

use super::{Reason, number};
use crate::database::ValueRef;
use crate::list::List;
use crate::local::Transaction;
use crate::position::Side;
use crate::value::Value;
use crate::{Bytes, Name};

/// The list of a request.
struct Subject<'t, 'r> {
    transaction: &'t mut Transaction<'r>,
    database: u32,
    key: Name,
}

/// `args` starts with the key.
pub(super) fn translate(
    transaction: &mut Transaction<'_>,
    database: u32,
    name: &[u8],
    args: &[&[u8]],
) -> Result<(), Reason> {
    let Some((key, rest)) = args.split_first() else { return Err(Reason::Malformed) };
    let mut list = Subject { transaction, database, key: Name::from(*key) };
    match (name, rest) {
        (b"RPUSH" | b"RPUSHX", values) => list.push(Side::Right, values),
        (b"LPUSH" | b"LPUSHX", values) => list.push(Side::Left, values),
        (b"LPOP", []) => return list.pop(Side::Left, 1),
        (b"RPOP", []) => return list.pop(Side::Right, 1),
        (b"LPOP", [count]) => return list.pop(Side::Left, number(count)?),
        (b"RPOP", [count]) => return list.pop(Side::Right, number(count)?),
        (b"LREM", [count, value]) => return list.remove(number(count)?, value),
        (b"LTRIM", [first, last]) => return list.trim(number(first)?, number(last)?),
        (b"LSET", [index, value]) => return list.set(number(index)?, value),
        (b"LINSERT", [place, pivot, value]) => {
            return list.insert(place.eq_ignore_ascii_case(b"AFTER"), pivot, value);
        }
        (b"RPOPLPUSH", [target]) => return list.move_to(target, Side::Right, Side::Left),
        (b"LMOVE", [target, from, to]) => return list.move_to(target, side(from)?, side(to)?),
        _ => return Err(Reason::Unknown),
    }
    Ok(())
}

fn side(word: &[u8]) -> Result<Side, Reason> {
    match () {
        () if word.eq_ignore_ascii_case(b"LEFT") => Ok(Side::Left),
        () if word.eq_ignore_ascii_case(b"RIGHT") => Ok(Side::Right),
        () => Err(Reason::Malformed),
    }
}

/// Converts an index: a negative one counts from the end.
fn counted(index: i64, len: usize) -> i64 {
    if index < 0 { index.saturating_add(len as i64) } else { index }
}

impl Subject<'_, '_> {
    fn list(&self) -> Result<&List, Reason> {
        match self.transaction.value(self.database, &self.key) {
            Some(ValueRef::Kept(Value::List(list))) => Ok(list),
            _ => Err(Reason::Unknown),
        }
    }

    fn push(&mut self, side: Side, values: &[&[u8]]) {
        let values = values.iter().map(|value| Bytes::from(*value)).collect();
        self.transaction.list_push(self.database, &self.key, side, values);
    }

    fn remove_at(&mut self, index: usize) {
        self.transaction.list_remove(self.database, &self.key, index);
    }

    fn pop(&mut self, side: Side, count: i64) -> Result<(), Reason> {
        let len = self.list()?.len();
        let count = usize::try_from(count).map_err(|_| Reason::Malformed)?.min(len);
        for gone in 1..=count {
            self.remove_at(if side == Side::Left { 0 } else { len - gone });
        }
        Ok(())
    }

    fn remove(&mut self, count: i64, value: &[u8]) -> Result<(), Reason> {
        let values = self.list()?.values().enumerate();
        let mut found: Vec<usize> =
            values.filter(|(_, one)| one[..] == *value).map(|(index, _)| index).collect();
        let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match count {
            0 => {}
            1.. => found.truncate(most),
            _ => drop(found.drain(..found.len().saturating_sub(most))),
        }
        if found.is_empty() {
            return Err(Reason::Unknown);
        }
        // From right to left, so that the others keep their indexes.
        found.into_iter().rev().for_each(|index| self.remove_at(index));
        Ok(())
    }

    fn trim(&mut self, first: i64, last: i64) -> Result<(), Reason> {
        let len = self.list()?.len();
        let first = usize::try_from(counted(first, len)).unwrap_or(0).min(len);
        // The index after the last element to keep; no element is kept if it is not after
        // `first`.
        let end = usize::try_from(counted(last, len).saturating_add(1)).unwrap_or(0).min(len).max(first);
        (end..len).rev().for_each(|index| self.remove_at(index));
        (0..first).for_each(|_| self.remove_at(0));
        Ok(())
    }

    fn set(&mut self, index: i64, value: &[u8]) -> Result<(), Reason> {
        let len = self.list()?.len();
        let index = usize::try_from(counted(index, len)).ok().filter(|index| *index < len);
        let index = index.ok_or(Reason::Unknown)?;
        self.transaction.list_set(self.database, &self.key, index, value.into());
        Ok(())
    }

    fn insert(&mut self, is_after: bool, pivot: &[u8], value: &[u8]) -> Result<(), Reason> {
        let at = self.list()?.values().position(|one| one[..] == *pivot).ok_or(Reason::Unknown)?;
        let index = at + usize::from(is_after);
        self.transaction.list_insert(self.database, &self.key, index, value.into());
        Ok(())
    }

    /// Pushes first: a list that is its own target keeps its time, even if it has only one
    /// element.
    fn move_to(&mut self, target: &[u8], from: Side, to: Side) -> Result<(), Reason> {
        let list = self.list()?;
        let len = list.len();
        let index = if from == Side::Left { 0 } else { len.saturating_sub(1) };
        let value = list.values_since(index).next().ok_or(Reason::Unknown)?.clone();
        let is_same = *self.key == *target;
        if is_same && from == to {
            return Ok(());
        }
        self.transaction.list_push(self.database, &Name::from(target), to, vec![value]);
        self.remove_at(index + usize::from(is_same && to == Side::Left));
        Ok(())
    }
}
