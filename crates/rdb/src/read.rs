// SPDX-License-Identifier: BSD-3-Clause
//! Reading code shared by the forms of all types, and forms of unsupported values: those of
//! modules and KeyDB's jobs. Types read their own forms (crate `types`).

use braid_containers::listpack::Listpack;

use crate::decode::Decoder;
use crate::error::{Error, Fault};
use crate::rdb_type::RdbType;
use crate::source::Source;
use crate::write::NO_TIME;
use crate::ziplist;

impl<S: Source> Decoder<S> {
    /// The form of a value.
    ///
    /// # Errors
    /// If the source ends, or no form of this version has the number.
    pub fn kind(&mut self) -> Result<RdbType, Error> {
        let number = self.byte()?;
        RdbType::from_number(number, self.version).ok_or_else(|| self.error(Fault::UnknownType(number)))
    }

    /// Skips a value of an unsupported form; the fault names it. Reading can continue after
    /// [`Fault::Module`] and [`Fault::LeftOut`].
    pub fn foreign_value(&mut self, kind: RdbType) -> Error {
        let read = match kind.number() {
            7 => return self.foreign_module_value(),
            64 => self.skip_keydb_job().map(|()| Fault::LeftOut("a job of KeyDB's KEYDB.CRON")),
            6 => Ok(Fault::Corrupt("a module's value of a pre-release of Redis 4")),
            _ => Ok(Fault::UnknownType(kind.number())),
        };
        read.map_or_else(|error| error, |fault| self.error(fault))
    }

    /// The number of members of a collection, each of at least `least` bytes: at least one.
    ///
    /// # Errors
    /// If the source ends or is too short for so many members, or if there is none
    /// ([`Fault::Empty`]).
    pub fn members(&mut self, least: u64) -> Result<usize, Error> {
        match self.count(least)? {
            0 => Err(self.error(Fault::Empty)),
            count => Ok(count),
        }
    }

    /// A packed list, as a listpack or a ziplist; `what` describes an invalid one.
    ///
    /// # Errors
    /// If the source ends, or the list is not well-formed.
    pub fn packed(&mut self, is_ziplist: bool, what: &'static str) -> Result<Listpack, Error> {
        let bytes = self.string()?;
        let list = if is_ziplist { ziplist::to_listpack(bytes) } else { Listpack::from_bytes(bytes) };
        list.ok_or_else(|| self.corrupt(what))
    }

    /// A packed list with at least one entry.
    ///
    /// # Errors
    /// As [`Decoder::packed`], and [`Fault::Empty`] if it has no entry.
    pub fn packed_members(&mut self, is_ziplist: bool, what: &'static str) -> Result<Listpack, Error> {
        let list = self.packed(is_ziplist, what)?;
        if list.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(list) }
    }

    /// The expiry of a field or member, if it has one.
    ///
    /// # Errors
    /// If the source ends, or the time is before 1970 and does not mean "none".
    pub fn time_or_none(&mut self) -> Result<Option<i64>, Error> {
        let time = self.time_ms()?;
        self.ensure(time >= NO_TIME, "a member's expiry that is out of range")?;
        Ok((time != NO_TIME).then_some(time))
    }

    /// A script, its first run, interval, keys and arguments.
    fn skip_keydb_job(&mut self) -> Result<(), Error> {
        self.string()?;
        self.take(16)?;
        for _ in 0..2 {
            for _ in 0..self.count(1)? {
                self.string()?;
            }
        }
        Ok(())
    }

    fn foreign_module_value(&mut self) -> Error {
        match self.length() {
            Ok(id) => self.foreign_module(id),
            Err(error) => error,
        }
    }

    /// Skips the value of an unsupported module, after the module's ID; the fault names it.
    pub fn foreign_module(&mut self, id: u64) -> Error {
        match self.skip_module() {
            Ok(()) => self.error(Fault::Module(module_name(id))),
            Err(error) => error,
        }
    }

    /// Skips a module's value or auxiliary data, after the module's id.
    ///
    /// # Errors
    /// If the source ends, or a part of the value has an unknown encoding.
    pub fn skip_module(&mut self) -> Result<(), Error> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => _ = self.length()?,
                3 => _ = self.take(4)?,
                4 => _ = self.take(8)?,
                5 => _ = self.string()?,
                _ => return Err(self.corrupt("a module's value in an unknown encoding")),
            }
        }
    }
}

/// The name in a module's id: nine characters of 6 bits each, followed by a 10-bit version.
pub fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|index| char::from(CHARACTERS[(id >> (10 + 6 * index) & 63) as usize])).collect()
}
