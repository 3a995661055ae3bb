// SPDX-License-Identifier: BSD-3-Clause
//! Translates the journal of a server's keyspace into effects for its peers.
//!
//! A server has a keyspace, in which commands run, and a [`Replica`], its *shadow*: all values
//! with their marks. One thread reads the journal as an ordinary replica reads its primary's
//! stream, and passes each unit to [`translate`], which applies it to the shadow and returns the
//! unit of effects. The opposite direction, from peers' units to requests for the keyspace, is
//! [`crate::difference`].
//!
//! No clock is read here: a key or element exists until the journal says that the keyspace has
//! ended it ([`EXPIRED`]), as in an ordinary replica. Therefore the shadow agrees with the keyspace
//! at every position of the journal. An ended key or element is removed by one region only, the one
//! that gave the time; on other servers it is hidden until then.
//!
//! # Forms
//! These requests are translated directly; names in any case. Any other request in the journal is
//! [`Problem::Unknown`]: the caller compares its keys with the keyspace ([`agree`]).
//!
//! - `SET` with a time or `KEEPTTL`, `SETNX`, `GETSET`, `MSET`, `MSETNX`: conditions are ignored,
//!   since requests in the journal have been executed
//! - `INCR`, `DECR`, `INCRBY`, `DECRBY`, `INCRBYFLOAT`, `HINCRBY`, `HINCRBYFLOAT`, `ZINCRBY`,
//!   `ZADD INCR`: increments add up
//! - `DEL`, `UNLINK`, `FLUSHALL`, `FLUSHDB`
//! - `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`, `PERSIST`
//! - `HSET`, `HMSET`, `HSETNX`, `HDEL`, `HGETDEL`, `HSETEX` with no option but `PXAT` or
//!   `KEEPTTL`, `SADD`, `SREM`, `SMOVE`, `ZADD` without conditions, `ZREM`
//! - `HPEXPIREAT`, `HPERSIST` and their counterparts for sets and sorted sets, without conditions
//! - `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`, `LPOP`, `RPOP`, `LREM`, `LTRIM`, `LSET`, `LINSERT`,
//!   `LMOVE`, `RPOPLPUSH`
//! - `PFADD`
//! - `XADD` with an ID, and trimming only by `MINID =`; `XTRIM` likewise; `XDEL`, `XSETID`,
//!   `XACK`, `XCLAIM`, `XGROUP`
//! - `JSON.SET`, `JSON.DEL`, `JSON.FORGET`, `JSON.MSET` of a path of member names, and
//!   `JSON.NUMINCRBY` of an integer there, which adds up
//! - `VADD`, `VREM`, `VSETATTR`; `RESTORE` of a vector set or document
//! - [`EVICTED`], [`EXPIRED`]: losses of the keyspace, not removals by clients
//! - `FUNCTION LOAD`, `DELETE`, `FLUSH`, `RESTORE`: [libraries](crate::hidden)
//! - `SELECT`, `MULTI`, `EXEC`, `PING`, `PUBLISH`, `SPUBLISH`, `SCRIPT`: ignored

mod commands;
mod documents;
mod lists;
mod vector_sets;

use crate::Parts;
use crate::amount::Amount;
use crate::change::{RequestWrite, Written};
use crate::effect::Unit;
use crate::replica::{Refusal, Replica};
use crate::vector_set::Quantisation;
use crate::view::{Shown, View};
use crate::{Bytes, Name};

/// Reasons why a request has no translation.
enum Reason {
    Unknown,
    Malformed,
    WrongType,
}

fn number(text: &[u8]) -> Result<i64, Reason> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Reason::Malformed)
}

/// `ACTIVE.EVICTED key [key ...]`: the keyspace has evicted keys. Peers keep them, see
/// [`crate::evicted`].
pub const EVICTED: &[u8] = b"ACTIVE.EVICTED";
/// `ACTIVE.EXPIRED key [element ...]`: the keyspace has removed a key, or elements of it, because
/// their time had come.
pub const EXPIRED: &[u8] = b"ACTIVE.EXPIRED";

/// A request of the journal.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub database: u32,
    pub args: &'a [&'a [u8]],
}

/// Value formats that this crate does not know.
pub trait Values {
    /// The value in the payload of a RESTORE, if it consists of [parts](crate::parts).
    fn decode(&self, _payload: &[u8]) -> Option<View> {
        None
    }
    /// The parts of a JSON text.
    fn document(&self, _text: &[u8]) -> Option<Parts> {
        None
    }
    /// A JSON text as documents show it.
    fn document_text(&self, _text: &[u8]) -> Option<Bytes> {
        None
    }
    /// The part of a JSON path, if the path consists of names of members.
    fn document_part(&self, _path: &[u8]) -> Option<Bytes> {
        None
    }
    /// The vector that a vector set returns for one that it is given, both as little-endian `f32`.
    fn vector(&self, _quantisation: Quantisation, vector: &[u8]) -> Vec<u8> {
        vector.into()
    }
    /// The register and rank that PFADD counts for an element.
    fn register(&self, element: &[u8]) -> (u16, u8);
    /// The name of the library with this code.
    fn library_name(&self, code: &[u8]) -> Option<Name>;
    /// The code of the libraries in the payload of a FUNCTION RESTORE.
    fn libraries(&self, payload: &[u8]) -> Option<Vec<Bytes>>;
}

/// Reasons why a request could not be translated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// Nothing has changed. The ceiling must be raised first.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("active-active replication does not support the request {0}")]
    Unknown(String),
    #[error("the request {0} is malformed")]
    Malformed(String),
    #[error("the request {0} does not match the key's value")]
    WrongType(String),
}

/// The first problem. The other requests of the unit have been translated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{problem}")]
pub struct TranslateError {
    pub problem: Problem,
    /// The translated requests as a unit for the peers. It has been applied.
    pub unit: Option<Box<Unit>>,
}

/// Key and change of a request that is a [plain write](crate::write), judging by the request
/// alone.
pub fn plain_write<'a>(
    mut args: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Option<(&'a [u8], RequestWrite<'a>)> {
    let count = args.len();
    if !(2..=4).contains(&count) {
        return None;
    }
    let (name, key) = (args.next()?, args.next()?);
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    let mut next = || args.next();
    let written = match count {
        2 if is(b"INCR") => Written::Sum(Amount::of_integer(1)),
        2 if is(b"DECR") => Written::Sum(Amount::of_integer(-1)),
        3 if is(b"SET") => Written::Text(next().filter(|text| !text.starts_with(commands::HYPERLOGLOG))?),
        3 if is(b"SADD") => Written::Member(next()?),
        3 if is(b"INCRBY") => Written::Sum(Amount::of_integer(number(next()?).ok()?)),
        3 if is(b"DECRBY") => Written::Sum(Amount::of_integer(number(next()?).ok()?.checked_neg()?)),
        4 if is(b"HSET") || is(b"HMSET") => Written::Field(next()?, next()?),
        4 if is(b"ZADD") => {
            let score = commands::score(next()?)?;
            Written::Score(next()?, score)
        }
        _ => return None,
    };
    Some((key, written))
}

/// Translates one unit of the journal. `None` if nothing changes for the peers.
///
/// # Errors
/// If a request is unknown, malformed or for another type (the other requests of the unit are
/// translated, and the error has the result), or the unit cannot be executed.
pub fn translate(
    replica: &mut Replica,
    values: &dyn Values,
    now_ms: u64,
    requests: &[Request<'_>],
) -> Result<Option<Unit>, TranslateError> {
    let mut problem = None;
    let unit = replica.execute(now_ms, |transaction| {
        for request in requests {
            let outcome = commands::translate(transaction, values, now_ms, request);
            if let Err(reason) = outcome {
                let name = request.args.first().copied().unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                problem.get_or_insert(match reason {
                    Reason::Unknown => Problem::Unknown(name),
                    Reason::Malformed => Problem::Malformed(name),
                    Reason::WrongType => Problem::WrongType(name),
                });
            }
        }
    });
    match (unit, problem) {
        (Err(refusal), _) => Err(TranslateError { problem: refusal.into(), unit: None }),
        (Ok(unit), None) => Ok(unit),
        (Ok(unit), Some(problem)) => Err(TranslateError { problem, unit: unit.map(Box::new) }),
    }
}

/// Brings keys of the shadow to the state that the keyspace has, as one unit.
///
/// # Errors
/// [`Refusal::Ceiling`] if a higher ceiling must be on disk first.
pub fn agree(
    replica: &mut Replica,
    now_ms: u64,
    keys: &[(u32, Name, Shown)],
) -> Result<Option<Unit>, Refusal> {
    let before: Vec<Shown> = keys.iter().map(|(db, name, _)| shown(replica, *db, name)).collect();
    replica.execute(now_ms, |transaction| {
        for ((database, name, after), before) in keys.iter().zip(&before) {
            transaction.bring(*database, name, before, after);
        }
    })
}

/// A key as the keyspace shows it, provided that it agrees with the shadow.
pub fn shown(replica: &Replica, database: u32, name: &[u8]) -> Shown {
    let view = replica.view(database, name)?;
    let time = replica.key(database, name).and_then(|key| key.time(replica.rules()));
    Some((view, time.map(|(_, time)| time)))
}
