// SPDX-License-Identifier: BSD-3-Clause
//! From a request of the journal to the changes of keys that it makes.
//!
//! What a request does to a key follows from the flags of its command's key specifications. A few
//! commands say more than their flags, and those that concern whole databases name no key. Only
//! the request's bytes count, so every server that has them finds the same.

use braid_keyspace::journal::{Loss, loss_of};
use braid_spec::{Command, CommandTable, Flags, Group, KeyFlags, keys};
use smallvec::SmallVec;

use crate::definition::Feed;

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has a new value, whatever it had before.
    Set,
    /// Its value, or its expiry, was changed.
    Changed,
    Deleted,
    Expired,
    Evicted,
    /// It was renamed, and no longer exists under this name.
    Renamed,
    /// All keys of a database, or of all, were deleted.
    Flushed,
    /// Two databases were swapped.
    Swapped,
}

impl Event {
    pub const fn name(self) -> &'static str {
        match self {
            Event::Set => "set",
            Event::Changed => "changed",
            Event::Deleted => "deleted",
            Event::Expired => "expired",
            Event::Evicted => "evicted",
            Event::Renamed => "renamed",
            Event::Flushed => "flushed",
            Event::Swapped => "swapped",
        }
    }

    /// The key does not exist any more.
    const fn removes(self) -> bool {
        !matches!(self, Event::Set | Event::Changed | Event::Swapped)
    }
}

/// A change of one key, or of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change<'r> {
    pub event: Event,
    /// `None` if the change concerns all keys of a database.
    pub key: Option<&'r [u8]>,
    /// The key's type as TYPE names it; `unknown` if the command works on any type.
    pub kind: &'static str,
    /// -1: all databases, or it is not known.
    pub db: i64,
    /// The command in upper case.
    pub command: SmallVec<[u8; 24]>,
    /// Another name with its role: where the key came from, or went to.
    pub other: Option<(&'static str, &'r [u8])>,
    pub content: Content<'r>,
}

/// What a feed with values adds to a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content<'r> {
    Nothing,
    /// The key's new value.
    Value(&'r [u8]),
    /// The arguments of the command that made the change.
    Arguments(SmallVec<[&'r [u8]; 4]>),
}

/// Words of the journal that say more than key specifications do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    None,
    /// The value of the one key is this argument.
    Sets(usize),
    /// Each key is followed by its value.
    SetsPairs,
    Deletes,
    Renames,
    Moves,
    Copies,
    FlushesAll,
    Flushes,
    Swaps,
}

fn special_of(name: &str) -> Special {
    match name {
        "set" | "setnx" | "getset" => Special::Sets(2),
        "setex" | "psetex" => Special::Sets(3),
        "mset" | "msetnx" | "msetex" => Special::SetsPairs,
        "getdel" => Special::Deletes,
        "rename" | "renamenx" => Special::Renames,
        "move" => Special::Moves,
        "copy" => Special::Copies,
        "flushall" => Special::FlushesAll,
        "flushdb" => Special::Flushes,
        "swapdb" => Special::Swaps,
        _ => Special::None,
    }
}

/// The type of the keys that a command writes, as TYPE names it.
fn kind_of(command: &Command) -> &'static str {
    let name = command.spec.name;
    match command.spec.group {
        Group::String | Group::Bitmap | Group::HyperLogLog => "string",
        Group::Array => "array",
        Group::Hash => "hash",
        Group::List => "list",
        Group::Set => "set",
        Group::SortedSet | Group::Geo => "zset",
        Group::Stream => "stream",
        // SORT ... STORE.
        Group::Generic if name == "sort" => "list",
        Group::Module => {
            let family = name.split_once('.').map_or("v", |(family, _)| family);
            match family {
                "json" => "ReJSON-RL",
                "bf" => "MBbloom--",
                "cf" => "MBbloomCF",
                "cms" => "CMSk-TYPE",
                "topk" => "TopK-TYPE",
                "tdigest" => "TDIS-TYPE",
                "ts" => "TSDB-TYPE",
                "v" => "vectorset",
                _ => "unknown",
            }
        }
        _ => "unknown",
    }
}

/// The command that a request of the journal names.
fn command_of<'c>(commands: &'c CommandTable, args: &[&[u8]]) -> Option<&'c Command> {
    let command = commands.find(args.first()?)?;
    if command.subcommands.is_empty() {
        return Some(command);
    }
    commands.find_subcommand(command, args.get(1)?)
}

fn upper(name: &str) -> SmallVec<[u8; 24]> {
    name.bytes().map(|byte| if byte == b'|' { b' ' } else { byte.to_ascii_uppercase() }).collect()
}

/// The database that a request selects for the following ones.
pub fn selected(args: &[&[u8]]) -> Option<Option<u32>> {
    match args {
        [name, db] if name.eq_ignore_ascii_case(b"SELECT") => {
            Some(braid_base::number::parse_i64(db).and_then(|db| u32::try_from(db).ok()))
        }
        _ => None,
    }
}

/// Adds the changes of a request that a feed is about. `db`: the selected database, if it is
/// known.
pub fn changes_of<'r>(
    feed: &Feed,
    commands: &CommandTable,
    db: Option<u32>,
    args: &[&'r [u8]],
    out: &mut Vec<Change<'r>>,
) {
    let Some(command) = command_of(commands, args) else { return };
    if !command.spec.flags.has(Flags::WRITE) || !command.spec.arity.allows(args.len()) {
        return;
    }
    let special = special_of(command.spec.name);
    let reading = Reading { feed, command, special, db: db.map_or(-1, i64::from), args };
    if matches!(special, Special::FlushesAll | Special::Flushes | Special::Swaps) {
        out.push(reading.of_database());
        return;
    }
    let Some(found) = keys::find(command.spec, args) else { return };
    let is_ours = |at: &keys::KeyAt| feed.matches(args[at.index]);
    if !found.iter().any(|at| !at.flags.has(KeyFlags::RO) && is_ours(at)) {
        return;
    }
    // Arguments that concern other keys as well are not for readers of this feed.
    let shows_arguments = feed.has_values && found.iter().all(is_ours);
    for at in found.iter().filter(|at| !at.flags.has(KeyFlags::RO) && is_ours(at)) {
        reading.add(at, shows_arguments, out);
    }
}

/// A request that is about keys of a feed.
struct Reading<'s, 'r> {
    feed: &'s Feed,
    command: &'s Command,
    special: Special,
    db: i64,
    args: &'s [&'r [u8]],
}

impl<'r> Reading<'_, 'r> {
    fn change(&self, event: Event, key: Option<&'r [u8]>) -> Change<'r> {
        Change {
            event,
            key,
            kind: if event.removes() { "none" } else { kind_of(self.command) },
            db: self.db,
            command: upper(&self.command.full_name),
            other: None,
            content: Content::Nothing,
        }
    }

    fn of_database(&self) -> Change<'r> {
        let number = |index: usize| self.args.get(index).and_then(|db| braid_base::number::parse_i64(db));
        match self.special {
            Special::FlushesAll => Change { db: -1, ..self.change(Event::Flushed, None) },
            Special::Swaps => Change {
                db: number(1).unwrap_or(-1),
                other: self.args.get(2).map(|db| ("with", *db)),
                ..self.change(Event::Swapped, None)
            },
            _ => self.change(Event::Flushed, None),
        }
    }

    fn event(&self, flags: KeyFlags) -> Event {
        match self.special {
            Special::Sets(_) | Special::SetsPairs => Event::Set,
            Special::Deletes => Event::Deleted,
            _ if flags.has(KeyFlags::RM) => match self.args.first().and_then(|name| loss_of(name)) {
                Some(Loss::Expired) => Event::Expired,
                Some(Loss::Evicted) => Event::Evicted,
                None => Event::Deleted,
            },
            _ if flags.has(KeyFlags::OW) => Event::Set,
            _ => Event::Changed,
        }
    }

    fn content(&self, event: Event, at: &keys::KeyAt, shows_arguments: bool) -> Content<'r> {
        let value = match self.special {
            _ if !self.feed.has_values || event.removes() => return Content::Nothing,
            Special::Sets(index) => self.args.get(index),
            Special::SetsPairs => self.args.get(at.index + 1),
            _ if shows_arguments => {
                let own = if self.command.parent.is_some() { 2 } else { 1 };
                return Content::Arguments(self.args.iter().skip(own).copied().collect());
            }
            _ => None,
        };
        value.map_or(Content::Nothing, |value| Content::Value(value))
    }

    /// Adds what the request does to one key.
    fn add(&self, at: &keys::KeyAt, shows_arguments: bool, out: &mut Vec<Change<'r>>) {
        let (key, args) = (self.args[at.index], self.args);
        let ours = |index: usize| args.get(index).copied().filter(|key| self.feed.matches(key));
        match self.special {
            Special::Renames if at.index == 1 => {
                let other = ours(2).map(|to| ("to", to));
                out.push(Change { other, ..self.change(Event::Renamed, Some(key)) });
            }
            Special::Renames | Special::Copies => {
                let other = ours(1).map(|from| ("from", from));
                let db = if self.special == Special::Copies { self.copied_to() } else { self.db };
                out.push(Change { other, db, ..self.change(Event::Set, Some(key)) });
            }
            Special::Moves => {
                out.push(self.change(Event::Deleted, Some(key)));
                let db = args.get(2).and_then(|db| braid_base::number::parse_i64(db)).unwrap_or(-1);
                out.push(Change { db, ..self.change(Event::Set, Some(key)) });
            }
            _ => {
                let event = self.event(at.flags);
                let content = self.content(event, at, shows_arguments);
                out.push(Change { content, ..self.change(event, Some(key)) });
            }
        }
    }

    /// The database into which COPY copies.
    fn copied_to(&self) -> i64 {
        let named = self.args.windows(2).skip(3).find(|words| words[0].eq_ignore_ascii_case(b"DB"));
        named.map_or(self.db, |words| braid_base::number::parse_i64(words[1]).unwrap_or(-1))
    }
}
