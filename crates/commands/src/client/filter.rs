// SPDX-License-Identifier: BSD-3-Clause
//! Filters of CLIENT LIST and CLIENT KILL.
//!
//! Most filters can be negated; a client must pass all of them. A later filter replaces an earlier
//! one of the same kind; IDs add up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::number;
use braid_clients::describe::{FLAG_LETTERS, idle_seconds, letters, seconds_since};
use braid_clients::{ClientRecord, client_flags};
use braid_executor::Call;
use braid_spec::CommandError;
use smallvec::SmallVec;

/// The command that uses the filters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    List,
    Kill,
}

/// The client types that TYPE selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientType {
    Normal,
    Replica,
    PubSub,
    Primary,
}

impl ClientType {
    fn parse(name: &[u8]) -> Option<ClientType> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"normal" => ClientType::Normal,
            b"slave" | b"replica" => ClientType::Replica,
            b"pubsub" => ClientType::PubSub,
            b"master" | b"primary" => ClientType::Primary,
            _ => return None,
        })
    }

    fn of(record: &ClientRecord) -> ClientType {
        if record.has(client_flags::PRIMARY) {
            ClientType::Primary
        } else if record.has(client_flags::REPLICA) {
            ClientType::Replica
        } else if record.has(client_flags::PUBSUB) {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }
}

enum Test<'a> {
    Ids(SmallVec<[u64; 8]>),
    Type(ClientType),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    Ip(&'a [u8]),
    User(&'a [u8]),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Flags(&'a [u8]),
    /// Letters of CLIENT CAPA's capabilities.
    Capabilities(&'a [u8]),
    Database(u32),
    /// Connected for at least this many seconds.
    Age(i64),
    /// No request for at least this many seconds.
    Idle(i64),
}

impl Test<'_> {
    fn passes(&self, record: &ClientRecord, now_ms: i64) -> bool {
        match self {
            Test::Ids(ids) => ids.contains(&record.id),
            Test::Type(kind) => ClientType::of(record) == *kind,
            Test::Address(text) => record.address.to_string().as_bytes() == *text,
            Test::LocalAddress(text) => record.local_address.to_string().as_bytes() == *text,
            Test::Ip(text) => ip(&record.address.to_string()).as_bytes() == *text,
            Test::User(name) => *record.user.lock().name == **name,
            Test::Name(name) => record.texts.lock().name == *name,
            Test::LibraryName(name) => record.texts.lock().lib_name == *name,
            Test::LibraryVersion(version) => record.texts.lock().lib_ver == *version,
            Test::Flags(wanted) => wanted.iter().all(|letter| letters(record).any(|shown| shown == *letter)),
            Test::Capabilities(wanted) => wanted.is_empty() || record.knows_redirect.load(Relaxed),
            Test::Database(db) => record.db.load(Relaxed) == *db,
            Test::Age(seconds) => seconds_since(now_ms, record.created_ms) >= *seconds,
            Test::Idle(seconds) => idle_seconds(now_ms, record) >= *seconds,
        }
    }
}

/// An address without its port.
fn ip(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Filters that a client must pass.
pub(super) struct Filters<'a> {
    /// Each test, and whether it is negated.
    tests: SmallVec<[(Test<'a>, bool); 4]>,
    skip_me: bool,
}

impl<'a> Filters<'a> {
    /// The filter of CLIENT KILL's old form, which may match the calling client.
    pub(super) fn of_address(address: &'a [u8]) -> Filters<'a> {
        Filters { tests: [(Test::Address(address), false)].into_iter().collect(), skip_me: false }
    }

    /// Parses filters.
    pub(super) fn parse(
        call: &Call,
        args: &[&'a [u8]],
        purpose: Purpose,
    ) -> Result<Filters<'a>, CommandError> {
        let mut filters = Filters { tests: SmallVec::new(), skip_me: purpose == Purpose::Kill };
        let mut rest = args;
        let mut after_ids = false;
        while let [name, after @ ..] = rest {
            let name = name.to_ascii_lowercase();
            let (name, negated) = match name.strip_prefix(b"not-") {
                Some(name) if ![&b"maxage"[..], b"idle", b"skipme"].contains(&name) => (name, true),
                _ => (&name[..], false),
            };
            let [value, further @ ..] = after else { return Err(unknown(after_ids, purpose)) };
            rest = further;
            if name == b"skipme" {
                filters.skip_me = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(CommandError::Syntax),
                };
                continue;
            }
            let test = if name == b"id" {
                let ids;
                (ids, rest) = parse_ids(after, purpose)?;
                Test::Ids(ids)
            } else {
                parse_test(call, name, value)?.ok_or_else(|| unknown(after_ids, purpose))?
            };
            after_ids = name == b"id";
            filters.put(test, negated);
        }
        Ok(filters)
    }

    fn put(&mut self, mut test: Test<'a>, negated: bool) {
        let kind = std::mem::discriminant(&test);
        self.tests.retain(|(other, other_negated)| {
            let is_same = std::mem::discriminant(other) == kind && *other_negated == negated;
            if is_same && let (Test::Ids(ids), Test::Ids(before)) = (&mut test, other) {
                ids.insert_from_slice(0, before);
            }
            !is_same
        });
        self.tests.push((test, negated));
    }

    /// The clients that pass, in order of their IDs; if IDs were given, in the given order.
    pub(super) fn select(&self, call: &Call) -> Vec<Arc<ClientRecord>> {
        let ids = self.tests.iter().find_map(|(test, negated)| match test {
            Test::Ids(ids) if !negated => Some(ids),
            _ => None,
        });
        let mut records = match ids {
            Some(ids) => ids.iter().filter_map(|id| call.engine.clients.registry.get(*id)).collect(),
            None => call.engine.clients.registry.all(),
        };
        let (now, own) = (call.clock_ms(), call.session.id());
        records.retain(|record| {
            !(self.skip_me && record.id == own)
                && self.tests.iter().all(|(test, negated)| test.passes(record, now) != *negated)
        });
        records
    }
}

/// The error for an unknown filter. After the IDs of CLIENT LIST it counts as an invalid ID.
fn unknown(after_ids: bool, purpose: Purpose) -> CommandError {
    if after_ids && purpose == Purpose::List { invalid_id(purpose) } else { CommandError::Syntax }
}

fn invalid_id(purpose: Purpose) -> CommandError {
    CommandError::text(match purpose {
        Purpose::List => "ERR Invalid client ID",
        Purpose::Kill => "ERR client-id should be greater than 0",
    })
}

/// Client IDs, and the arguments after them.
type IdsAndRest<'s, 'a> = (SmallVec<[u64; 8]>, &'s [&'a [u8]]);

/// Parses IDs up to the first argument that is not a number. At least one is required.
fn parse_ids<'s, 'a>(args: &'s [&'a [u8]], purpose: Purpose) -> Result<IdsAndRest<'s, 'a>, CommandError> {
    let mut ids = SmallVec::new();
    let mut rest = args;
    while let [value, after @ ..] = rest
        && let Some(id) = number::parse_i64(value)
    {
        match u64::try_from(id) {
            Ok(id) if id > 0 => ids.push(id),
            // No such client exists, which is an error only for KILL.
            _ if purpose == Purpose::List => {}
            _ if ids.is_empty() => return Err(invalid_id(purpose)),
            // In Redis, which takes one ID, a second one is never valid.
            _ => return Err(CommandError::Syntax),
        }
        rest = after;
    }
    if rest.len() == args.len() {
        return Err(invalid_id(purpose));
    }
    Ok((ids, rest))
}

/// Parses a filter with one value; `None` if the name is unknown.
fn parse_test<'a>(call: &Call, name: &[u8], value: &'a [u8]) -> Result<Option<Test<'a>>, CommandError> {
    Ok(Some(match name {
        b"type" => {
            let error = || CommandError::quoting("ERR Unknown client type '", value, "'");
            Test::Type(ClientType::parse(value).ok_or_else(error)?)
        }
        b"addr" => Test::Address(value),
        b"laddr" => Test::LocalAddress(value),
        b"ip" => Test::Ip(value),
        b"user" if call.engine.acl.user(value).is_none() => {
            return Err(CommandError::quoting("ERR No such user '", value, "'"));
        }
        b"user" => Test::User(value),
        b"name" => Test::Name(value),
        b"lib-name" => Test::LibraryName(value),
        b"lib-ver" => Test::LibraryVersion(value),
        b"flags" => {
            let known =
                |letter: &u8| *letter == b'N' || FLAG_LETTERS.iter().any(|(_, known)| known == letter);
            if !value.iter().all(known) {
                return Err(CommandError::quoting(
                    "ERR Unknown flags found in the provided filter: ",
                    value,
                    "",
                ));
            }
            Test::Flags(value)
        }
        b"capa" if value.iter().all(|letter| *letter == b'r') => Test::Capabilities(value),
        b"capa" => {
            return Err(CommandError::quoting("ERR Unknown capa found in the provided filter: ", value, ""));
        }
        b"db" => Test::Database(parse_database(call, value)?),
        b"maxage" => Test::Age(parse_seconds("maxage", value)?),
        b"idle" => Test::Idle(parse_seconds("idle", value)?),
        _ => return Ok(None),
    }))
}

fn parse_database(call: &Call, value: &[u8]) -> Result<u32, CommandError> {
    let db =
        number::parse_i64(value).ok_or(CommandError::text("ERR DB is not an integer or out of range"))?;
    let databases = call.engine.keyspace.databases();
    u32::try_from(db)
        .ok()
        .filter(|&db| db < databases)
        .ok_or_else(|| CommandError::text(format!("ERR DB number should be between 0 and {}", databases - 1)))
}

fn parse_seconds(name: &str, value: &[u8]) -> Result<i64, CommandError> {
    let seconds = number::parse_i64(value)
        .ok_or_else(|| CommandError::text(format!("ERR {name} is not an integer or out of range")))?;
    if seconds <= 0 {
        return Err(CommandError::text(format!("ERR {name} should be greater than 0")));
    }
    Ok(seconds)
}
