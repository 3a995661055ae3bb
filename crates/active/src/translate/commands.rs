// SPDX-License-Identifier: BSD-3-Clause
//! Translates single requests of the journal. The keys of unknown ones are compared with the
//! keyspace.

use smallvec::SmallVec;

use super::documents::Documents;
use super::{EVICTED, EXPIRED, Reason, Request, Values, lists, number, vector_sets};
use crate::amount::Amount;
use crate::cell::Time;
use crate::hidden::LIBRARIES;
use crate::local::Transaction;
use crate::stream::{Id, Pending};
use crate::{Bytes, Name};

type Outcome = Result<(), Reason>;

/// A request on a key.
struct Call<'t, 'r, 'a> {
    transaction: &'t mut Transaction<'r>,
    database: u32,
    key: Name,
    args: &'a [&'a [u8]],
    now_ms: u64,
}

fn boxed(bytes: &[u8]) -> Bytes {
    bytes.into()
}

/// A time in ms of Unix time. A negative time has passed long ago.
fn time(text: &[u8], unit_ms: u64) -> Result<u64, Reason> {
    Ok(u64::try_from(number(text)?).unwrap_or(0).saturating_mul(unit_ms))
}

pub(super) fn id(text: &[u8]) -> Result<Id, Reason> {
    let text = std::str::from_utf8(text).map_err(|_| Reason::Malformed)?;
    let (ms, sequence) = text.split_once('-').unwrap_or((text, "0"));
    let parse = |text: &str| text.parse().map_err(|_| Reason::Unknown);
    Ok(Id { ms: parse(ms)?, sequence: parse(sequence)? })
}

pub(super) fn translate(
    transaction: &mut Transaction<'_>,
    values: &dyn Values,
    now_ms: u64,
    request: &Request<'_>,
) -> Outcome {
    let Some((name, args)) = request.args.split_first() else { return Ok(()) };
    let mut upper = SmallVec::<[u8; 32]>::from_slice(name);
    upper.make_ascii_uppercase();
    let database = request.database;
    match &upper[..] {
        b"SELECT" | b"MULTI" | b"EXEC" | b"PING" | b"PUBLISH" | b"SPUBLISH" | b"SCRIPT" => return Ok(()),
        b"FUNCTION" => return function(transaction, values, args),
        b"FLUSHALL" => {
            transaction.flush(None);
            return Ok(());
        }
        b"FLUSHDB" => {
            transaction.flush(Some(database));
            return Ok(());
        }
        b"DEL" | b"UNLINK" => {
            args.iter().for_each(|key| transaction.remove(database, &Name::from(*key)));
            return Ok(());
        }
        b"MSET" | b"MSETNX" => {
            for pair in args.chunks_exact(2) {
                let key = Name::from(pair[0]);
                Call { transaction: &mut *transaction, database, key, args: pair, now_ms }
                    .write(pair[1], None);
            }
            return Ok(());
        }
        _ => {}
    }
    // XGROUP names its key after the subcommand.
    let at = usize::from(&upper[..] == b"XGROUP");
    let key = Name::from(*args.get(at).ok_or(Reason::Unknown)?);
    let mut call = Call { transaction, database, key, args, now_ms };
    match &upper[..] {
        EVICTED => {
            args.iter().for_each(|key| call.transaction.evict(database, &Name::from(*key)));
            Ok(())
        }
        EXPIRED => call.expired(),
        b"PFADD" => {
            let registers = args[1..].iter().map(|element| values.register(element)).collect();
            call.transaction.count(database, &call.key, registers);
            Ok(())
        }
        name => match call.string(name) {
            Err(Reason::Unknown) => match call.collection(name) {
                Err(Reason::Unknown) => match lists::translate(call.transaction, database, name, args) {
                    Err(Reason::Unknown) => match call.stream(name) {
                        Err(Reason::Unknown) => call.parts(values, name),
                        outcome => outcome,
                    },
                    outcome => outcome,
                },
                outcome => outcome,
            },
            outcome => outcome,
        },
    }
}

/// Translates FUNCTION requests.
fn function(transaction: &mut Transaction<'_>, values: &dyn Values, args: &[&[u8]]) -> Outcome {
    let Some((subcommand, args)) = args.split_first() else { return Ok(()) };
    let load = |transaction: &mut Transaction<'_>, code: &[u8]| {
        let name = values.library_name(code).ok_or(Reason::Malformed)?;
        transaction.set(LIBRARIES, &name, code, None);
        Ok(())
    };
    match (&subcommand.to_ascii_uppercase()[..], args) {
        (b"LOAD", [.., code]) => load(transaction, code),
        (b"DELETE", [name]) => {
            transaction.remove(LIBRARIES, &Name::from(*name));
            Ok(())
        }
        (b"FLUSH", _) => {
            transaction.flush(Some(LIBRARIES));
            Ok(())
        }
        (b"RESTORE", [payload, policy @ ..]) => {
            let restored = values.libraries(payload).ok_or(Reason::Malformed)?;
            if policy.first().is_some_and(|policy| policy.eq_ignore_ascii_case(b"FLUSH")) {
                transaction.flush(Some(LIBRARIES));
            }
            restored.iter().try_for_each(|code| load(transaction, code))
        }
        _ => Ok(()),
    }
}

impl<'a> Call<'_, '_, 'a> {
    fn arg(&self, index: usize) -> Result<&'a [u8], Reason> {
        self.args.get(index).copied().ok_or(Reason::Malformed)
    }

    /// Writes a whole string.
    fn write(&mut self, value: &[u8], until: Option<u64>) {
        match registers_of(value) {
            Some(registers) => {
                self.transaction.remove(self.database, &self.key);
                self.transaction.count(self.database, &self.key, registers);
                if let Some(until) = until {
                    self.transaction.live(self.database, &self.key, Time::At(until));
                }
            }
            None => self.transaction.set(self.database, &self.key, value, until),
        }
    }

    fn expired(&mut self) -> Outcome {
        let (database, key) = (self.database, self.key.clone());
        let elements = self.args[1..].iter().map(|element| Some(*element));
        let whole = (self.args.len() == 1).then_some(None);
        let mut all_had_times = true;
        for one in whole.into_iter().chain(elements) {
            all_had_times &= self.transaction.end(database, &key, one);
        }
        // Otherwise the keyspace decides.
        if all_had_times { Ok(()) } else { Err(Reason::Unknown) }
    }

    fn live(&mut self, time: Time) -> Outcome {
        self.transaction.live(self.database, &self.key, time);
        Ok(())
    }

    fn sum(&mut self, by: Option<Amount>) -> Outcome {
        let by = by.ok_or(Reason::WrongType)?;
        match self.transaction.increment(self.database, &self.key, by) {
            true => Ok(()),
            false => Err(Reason::WrongType),
        }
    }

    fn integer(&self, index: usize, sign: i64) -> Option<Amount> {
        let number = number(self.arg(index).ok()?).ok()?;
        Some(Amount::of_integer(number.checked_mul(sign)?))
    }

    fn string(&mut self, name: &[u8]) -> Outcome {
        match name {
            b"SET" => self.set(),
            b"SETNX" | b"GETSET" => {
                self.write(self.arg(1)?, None);
                Ok(())
            }
            b"INCR" => self.sum(Some(Amount::of_integer(1))),
            b"DECR" => self.sum(Some(Amount::of_integer(-1))),
            b"INCRBY" => self.sum(self.integer(1, 1)),
            b"DECRBY" => self.sum(self.integer(1, -1)),
            b"INCRBYFLOAT" => self.sum(Amount::parse(self.arg(1)?)),
            b"PEXPIREAT" => self.live(Time::At(time(self.arg(1)?, 1)?)),
            b"EXPIREAT" => self.live(Time::At(time(self.arg(1)?, 1000)?)),
            b"PEXPIRE" => self.live(Time::At(self.now_ms.saturating_add(time(self.arg(1)?, 1)?))),
            b"EXPIRE" => self.live(Time::At(self.now_ms.saturating_add(time(self.arg(1)?, 1000)?))),
            b"PERSIST" => self.live(Time::Never),
            _ => Err(Reason::Unknown),
        }
    }

    fn set(&mut self) -> Outcome {
        let (mut until, mut index) = (None, 2);
        while let Some(option) = self.args.get(index) {
            let next = |unit| time(self.args.get(index + 1).ok_or(Reason::Malformed)?, unit);
            let option = option.to_ascii_uppercase();
            until = match &option[..] {
                b"PXAT" => Some(next(1)?),
                b"EXAT" => Some(next(1000)?),
                b"PX" => Some(self.now_ms.saturating_add(next(1)?)),
                b"EX" => Some(self.now_ms.saturating_add(next(1000)?)),
                b"KEEPTTL" => self.transaction.time_of(self.database, &self.key),
                b"NX" | b"XX" | b"GET" => until,
                _ => return Err(Reason::Unknown),
            };
            index += 1 + usize::from(matches!(&option[..], b"PXAT" | b"EXAT" | b"PX" | b"EX"));
        }
        self.write(self.arg(1)?, until);
        Ok(())
    }

    /// The members after `FIELDS count` or `MEMBERS count` at an index.
    fn members(&self, index: usize) -> Result<&'a [&'a [u8]], Reason> {
        let word = self.arg(index)?;
        match word.eq_ignore_ascii_case(b"FIELDS") || word.eq_ignore_ascii_case(b"MEMBERS") {
            true => self.args.get(index + 2..).ok_or(Reason::Malformed),
            // With a condition.
            false => Err(Reason::Unknown),
        }
    }

    fn collection(&mut self, name: &[u8]) -> Outcome {
        let (database, key) = (self.database, self.key.clone());
        let rest = self.args.get(1..).unwrap_or_default();
        match name {
            b"HSET" | b"HMSET" | b"HSETNX" => {
                for pair in rest.chunks_exact(2) {
                    self.transaction.hash_set(database, &key, boxed(pair[0]), boxed(pair[1]), None);
                }
            }
            b"HDEL" => {
                rest.iter().for_each(|field| self.transaction.hash_remove(database, &key, boxed(field)))
            }
            b"HSETEX" => return self.set_fields(),
            b"HGETDEL" => {
                for field in self.members(1)? {
                    self.transaction.hash_remove(database, &key, boxed(field));
                }
            }
            b"HINCRBY" | b"HINCRBYFLOAT" => {
                let by = Amount::parse(self.arg(2)?).ok_or(Reason::WrongType)?;
                let field = boxed(self.arg(1)?);
                if !self.transaction.hash_increment(database, &key, field, by) {
                    return Err(Reason::WrongType);
                }
            }
            b"HPEXPIREAT" | b"SPEXPIREAT" | b"ZPEXPIREAT" => {
                let time = Time::At(time(self.arg(1)?, 1)?);
                self.members(2)?.iter().for_each(|member| self.element_lives(name, boxed(member), time));
            }
            b"HPERSIST" | b"SPERSIST" | b"ZPERSIST" => {
                let members = self.members(1)?;
                members.iter().for_each(|member| self.element_lives(name, boxed(member), Time::Never));
            }
            b"SADD" => rest.iter().for_each(|member| self.transaction.set_add(database, &key, boxed(member))),
            b"SREM" => {
                rest.iter().for_each(|member| self.transaction.set_remove(database, &key, boxed(member)))
            }
            b"SMOVE" => {
                let (to, member) = (Name::from(self.arg(1)?), boxed(self.arg(2)?));
                self.transaction.set_move(database, &key, &to, member);
            }
            b"ZADD" => return self.add_to_sorted_set(rest),
            b"ZREM" => {
                rest.iter()
                    .for_each(|member| self.transaction.sorted_set_remove(database, &key, boxed(member)));
            }
            b"ZINCRBY" => return self.increment_score(self.args.get(1), self.args.get(2)),
            _ => return Err(Reason::Unknown),
        }
        Ok(())
    }

    /// HSETEX in the journal's form: without conditions, with an absolute time.
    fn set_fields(&mut self) -> Outcome {
        let (database, key) = (self.database, self.key.clone());
        let option = self.arg(1)?.to_ascii_uppercase();
        let (until, used) = match &option[..] {
            b"PXAT" => (Some(time(self.arg(2)?, 1)?), 2),
            b"KEEPTTL" => (None, 1),
            _ => (None, 0),
        };
        let pairs = self.members(used + 1)?;
        if pairs.len() % 2 == 1 {
            return Err(Reason::Malformed);
        }
        for pair in pairs.chunks_exact(2) {
            let until = match &option[..] {
                b"KEEPTTL" => self.transaction.time_of_element(database, &key, pair[0]),
                _ => until,
            };
            self.transaction.hash_set(database, &key, boxed(pair[0]), boxed(pair[1]), until);
        }
        Ok(())
    }

    fn element_lives(&mut self, name: &[u8], member: Bytes, time: Time) {
        let (database, key) = (self.database, &self.key);
        match name.first() {
            Some(b'H') => self.transaction.hash_live(database, key, member, time),
            Some(b'S') => self.transaction.set_live(database, key, member, time),
            _ => self.transaction.sorted_set_live(database, key, member, time),
        }
    }

    fn add_to_sorted_set(&mut self, rest: &[&[u8]]) -> Outcome {
        match rest.first().map(|word| word.to_ascii_uppercase()) {
            Some(word) if word == b"INCR" => return self.increment_score(rest.get(1), rest.get(2)),
            Some(word) if word == b"CH" => return self.add_to_sorted_set(&rest[1..]),
            _ => {}
        }
        let scores = rest.chunks_exact(2).map(|pair| Some((score(pair[0])?, boxed(pair[1]))));
        // Conditions are left to the keyspace.
        let scores: Option<Vec<(f64, Bytes)>> = scores.collect();
        for (score, member) in scores.ok_or(Reason::Unknown)? {
            self.transaction.sorted_set_add(self.database, &self.key, member, score);
        }
        Ok(())
    }

    fn increment_score(&mut self, by: Option<&&[u8]>, member: Option<&&[u8]>) -> Outcome {
        let (Some(by), Some(member)) = (by, member) else { return Err(Reason::Malformed) };
        let by = score(by).and_then(Amount::of_float).ok_or(Reason::WrongType)?;
        match self.transaction.sorted_set_increment(self.database, &self.key, boxed(member), by) {
            true => Ok(()),
            false => Err(Reason::WrongType),
        }
    }

    /// JSON documents and vector sets.
    fn parts(&mut self, values: &dyn Values, name: &[u8]) -> Outcome {
        let (database, key, args) = (self.database, &self.key, self.args);
        let mut documents = Documents { transaction: &mut *self.transaction, values, database };
        match name {
            b"JSON.MSET" => {
                args.chunks_exact(3).try_for_each(|one| documents.set(&Name::from(one[0]), &one[1..]))
            }
            b"JSON.SET" => documents.set(key, &args[1..]),
            b"JSON.DEL" | b"JSON.FORGET" => documents.remove(key, &args[1..]),
            b"JSON.NUMINCRBY" => documents.increment(key, &args[1..]),
            b"JSON.ARRAPPEND" => documents.append(key, &args[1..]),
            b"VADD" => vector_sets::add(self.transaction, database, key, &args[1..]),
            b"VREM" => vector_sets::remove(self.transaction, database, key, self.arg(1)?),
            b"VSETATTR" => {
                vector_sets::set_attribute(self.transaction, database, key, self.arg(1)?, self.arg(2)?)
            }
            b"RESTORE" => self.restore(values),
            _ => Err(Reason::Unknown),
        }
    }

    /// `RESTORE key ttl payload` with its options.
    fn restore(&mut self, values: &dyn Values) -> Outcome {
        let view = values.decode(self.arg(2)?).ok_or(Reason::Unknown)?;
        let until = match time(self.arg(1)?, 1)? {
            0 => None,
            ttl if self.args[3..].iter().any(|word| word.eq_ignore_ascii_case(b"ABSTTL")) => Some(ttl),
            ttl => Some(self.now_ms.saturating_add(ttl)),
        };
        let before = self.transaction.shown(self.database, &self.key);
        self.transaction.bring(self.database, &self.key, &before, &Some((view, until)));
        Ok(())
    }

    fn stream(&mut self, name: &[u8]) -> Outcome {
        let (database, key) = (self.database, self.key.clone());
        match name {
            // An empty stream, in the form used in files.
            b"XADD" if self.arg(1)?.eq_ignore_ascii_case(b"MAXLEN") && self.arg(2)? == b"0" => {
                let id = id(self.arg(3)?)?;
                self.transaction.stream_set_id(database, &key, id);
            }
            b"XADD" => {
                let first = self.first_kept()?;
                let entry = &self.args[if first.is_some() { 4 } else { 1 }..];
                let Some((id_text, fields)) = entry.split_first() else { return Err(Reason::Malformed) };
                let id = id(id_text)?;
                let fields: Vec<Bytes> = fields.iter().map(|field| boxed(field)).collect();
                if fields.is_empty() || fields.len() % 2 == 1 {
                    return Err(Reason::Unknown);
                }
                self.transaction.stream_add(database, &key, Some(id), fields.into());
                if let Some(first) = first {
                    self.transaction.stream_trim(database, &key, first);
                }
            }
            b"XTRIM" => {
                let first = self.first_kept()?.ok_or(Reason::Unknown)?;
                self.transaction.stream_trim(database, &key, first);
            }
            b"XDEL" => {
                for one in &self.args[1..] {
                    let id = id(one)?;
                    self.transaction.stream_remove(database, &key, id);
                }
            }
            b"XSETID" => {
                let id = id(self.arg(1)?)?;
                self.transaction.stream_set_id(database, &key, id);
            }
            b"XACK" => {
                let group = boxed(self.arg(1)?);
                for one in &self.args[2..] {
                    let id = id(one)?;
                    self.transaction.group_acknowledge(database, &key, &group, id);
                }
            }
            b"XCLAIM" => return self.claim(),
            b"XGROUP" => return self.group(),
            _ => return Err(Reason::Unknown),
        }
        Ok(())
    }

    /// The first ID that `MINID = ID` keeps, if that follows the key.
    fn first_kept(&self) -> Result<Option<Id>, Reason> {
        if !self.arg(1)?.eq_ignore_ascii_case(b"MINID") {
            return Ok(None);
        }
        match self.arg(2)? {
            b"=" => id(self.arg(3)?).map(Some),
            _ => Err(Reason::Unknown),
        }
    }

    /// `XCLAIM key group consumer 0 id TIME ms RETRYCOUNT count FORCE JUSTID LASTID id`, the
    /// journal's form.
    fn claim(&mut self) -> Outcome {
        let (group, consumer) = (boxed(self.arg(1)?), boxed(self.arg(2)?));
        let id = id(self.arg(4)?)?;
        let options = self.args.get(5..).unwrap_or_default();
        let option = |name: &[u8]| {
            let at = options.iter().position(|word| word.eq_ignore_ascii_case(name))?;
            options.get(at + 1).copied()
        };
        let count = number(option(b"RETRYCOUNT").ok_or(Reason::Unknown)?)?;
        let count = u64::try_from(count).map_err(|_| Reason::Malformed)?;
        let delivered_ms = option(b"TIME").map_or(Ok(self.now_ms), |text| time(text, 1))?;
        let last = option(b"LASTID").map(self::id).transpose()?;
        let entries = [(id, Pending { consumer, delivered_ms, count })];
        self.transaction.group_claim(self.database, &self.key, &group, &entries, last);
        Ok(())
    }

    fn group(&mut self) -> Outcome {
        let (database, key) = (self.database, self.key.clone());
        let group = boxed(self.arg(2)?);
        let subcommand = self.arg(0)?.to_ascii_uppercase();
        match &subcommand[..] {
            b"CREATE" => {
                let id = id(self.arg(3)?)?;
                if self.args[4..].iter().any(|word| word.eq_ignore_ascii_case(b"MKSTREAM")) {
                    return Err(Reason::Unknown);
                }
                self.transaction.group_create(database, &key, &group, id);
            }
            b"SETID" => {
                let id = id(self.arg(3)?)?;
                self.transaction.group_set_id(database, &key, &group, id);
            }
            b"DESTROY" => self.transaction.group_destroy(database, &key, &group),
            b"CREATECONSUMER" => {
                let consumer = boxed(self.arg(3)?);
                self.transaction.group_consumer(database, &key, &group, &consumer);
            }
            b"DELCONSUMER" => {
                let consumer = boxed(self.arg(3)?);
                self.transaction.group_remove_consumer(database, &key, &group, &consumer);
            }
            _ => return Err(Reason::Unknown),
        }
        Ok(())
    }
}

pub(super) fn score(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<f64>().ok().filter(|score| !score.is_nan())
}

/// The prefix of a string that is a HyperLogLog.
pub(super) const HYPERLOGLOG: &[u8] = b"HYLL";

/// The registers and ranks of a string that is a HyperLogLog.
fn registers_of(value: &[u8]) -> Option<Vec<(u16, u8)>> {
    let (head, body) = value.split_at_checked(16)?;
    if !head.starts_with(HYPERLOGLOG) {
        return None;
    }
    let mut registers = Vec::new();
    match head[4] {
        0 if body.len() == 12288 => {
            for register in 0..16384_u16 {
                let bit = usize::from(register) * 6;
                let (byte, shift) = (bit / 8, bit % 8);
                let next = body.get(byte + 1).copied().unwrap_or(0);
                let rank = (u16::from_le_bytes([body[byte], next]) >> shift) as u8 & 63;
                if rank > 0 {
                    registers.push((register, rank));
                }
            }
        }
        1 => {
            let (mut register, mut at) = (0_usize, 0);
            while let Some(&first) = body.get(at) {
                let (rank, len) = match first {
                    0x80.. => ((first >> 2 & 31) + 1, usize::from(first & 3) + 1),
                    0x40.. => {
                        at += 1;
                        (0, (usize::from(first & 63) << 8 | usize::from(*body.get(at)?)) + 1)
                    }
                    _ => (0, usize::from(first & 63) + 1),
                };
                at += 1;
                for one in register..register + len {
                    if rank > 0 {
                        registers.push((u16::try_from(one).ok().filter(|one| *one < 16384)?, rank));
                    }
                }
                register += len;
            }
            if register != 16384 {
                return None;
            }
        }
        _ => return None,
    }
    Some(registers)
}
