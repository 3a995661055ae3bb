// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents: requests at a path of member names. Those at other paths, which may lead into
//! arrays or to several places, are left to a comparison with the keyspace.

use super::{Reason, Values, number};
use crate::change::Kind;
use crate::local::Transaction;
use crate::view::View;
use crate::{Bytes, Name, Parts};

type Outcome = Result<(), Reason>;

/// The documents of a database. `args` are what follows the key in a request.
pub(super) struct Documents<'t, 'r> {
    pub transaction: &'t mut Transaction<'r>,
    pub values: &'t dyn Values,
    pub database: u32,
}

impl Documents<'_, '_> {
    fn part(&self, path: &[u8]) -> Result<Bytes, Reason> {
        self.values.document_part(path).ok_or(Reason::Unknown)
    }

    /// `JSON.SET key path value [NX|XX]`.
    pub fn set(&mut self, key: &Name, args: &[&[u8]]) -> Outcome {
        let [path, text, conditions @ ..] = args else { return Err(Reason::Malformed) };
        let is_condition =
            |word: &&[u8]| word.eq_ignore_ascii_case(b"NX") || word.eq_ignore_ascii_case(b"XX");
        if !conditions.iter().all(is_condition) {
            return Err(Reason::Unknown);
        }
        let at = self.part(path)?;
        let parts = self.values.document(text).ok_or(Reason::Malformed)?;
        let (transaction, database) = (&mut *self.transaction, self.database);
        if at.is_empty() {
            let before = transaction.shown(database, key);
            let until = before.as_ref().and_then(|(_, until)| *until);
            let after = (View::Parts(Kind::Json, parts), until);
            transaction.bring(database, key, &before, &Some(after));
            return Ok(());
        }
        if !transaction.is_of(database, key, Kind::Json) {
            return Err(Reason::WrongType);
        }
        let inside = |(name, value): (Bytes, Bytes)| ([&at[..], &name].concat().into(), value);
        let parts: Parts = parts.into_iter().map(inside).collect();
        transaction.bring_member(database, key, &at, &parts);
        Ok(())
    }

    /// `JSON.DEL key [path]`.
    pub fn remove(&mut self, key: &Name, args: &[&[u8]]) -> Outcome {
        let at = args.first().map_or(Ok(Bytes::default()), |path| self.part(path))?;
        match at.is_empty() {
            true => self.transaction.remove(self.database, key),
            false => self.transaction.bring_member(self.database, key, &at, &[]),
        }
        Ok(())
    }

    /// `JSON.ARRAPPEND key path value [value ...]`.
    pub fn append(&mut self, key: &Name, args: &[&[u8]]) -> Outcome {
        let [path, elements @ ..] = args else { return Err(Reason::Malformed) };
        let at = self.part(path)?;
        let elements: Option<Vec<Bytes>> =
            elements.iter().map(|one| self.values.document_text(one)).collect();
        let elements = elements.ok_or(Reason::Malformed)?;
        match self.transaction.append_to_array(self.database, key, &at, elements) {
            true => Ok(()),
            false => Err(Reason::Unknown),
        }
    }

    /// `JSON.NUMINCRBY key path number`.
    pub fn increment(&mut self, key: &Name, args: &[&[u8]]) -> Outcome {
        let [path, by] = args else { return Err(Reason::Malformed) };
        let by = number(by).map_err(|_| Reason::Unknown)?;
        let at = self.part(path)?;
        match self.transaction.part_increment(self.database, key, &at, by) {
            true => Ok(()),
            false => Err(Reason::Unknown),
        }
    }
}
