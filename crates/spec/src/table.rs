// SPDX-License-Identifier: BSD-3-Clause
//! The command table: finding a command by name, in any case, without a copy.
//!
//! HOT PATH: a look-up takes the name as up to three words in lower case, hashes them and compares once.

use crate::keys::SimpleKeys;
use crate::spec::{Behavior, Flags, Scope, Spec};

/// How many keys a request may lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// One key at most.
    OneKey,
    /// Several keys, all of them, or an unknown set: scripts and transactions.
    Wide,
    /// Depends on the arguments.
    Depends,
}

impl Reach {
    /// The reach of a command, as far as its specification tells.
    fn of(spec: &Spec, takes_single_key: bool) -> Reach {
        if spec.behavior.any(Behavior::RUNS_SCRIPTS | Behavior::EXECUTES_QUEUE) {
            Reach::Wide
        } else if takes_single_key && spec.scope == Scope::Keys && spec.scope_finder.is_none() {
            Reach::OneKey
        } else {
            Reach::Depends
        }
    }
}

/// A row of a family: a specification and its subcommands' rows. What else a row has (the body) is
/// its own business.
pub trait Row: Sized + 'static {
    /// The row's specification.
    fn spec(&'static self) -> &'static Spec;
    /// The rows of its subcommands.
    fn subcommands(&'static self) -> &'static [Self];
}

/// A command or subcommand as the server knows it: the spec plus what is derived from it once.
pub struct Command {
    pub spec: &'static Spec,
    /// What clients call it by: the spec's name, unless it was renamed; empty if it was taken away.
    pub called: Box<str>,
    /// The same as [`fold`] has it, if it is not too long for that.
    folded: Name,
    /// Place in the table; statistics are kept by it.
    pub id: u32,
    /// `get`, or `client|list`. Statistics and COMMAND show this, renamed or not.
    pub full_name: String,
    /// The container of a subcommand.
    pub parent: Option<u32>,
    /// Subcommands by id.
    pub subcommands: Vec<u32>,
    /// Key positions when they can be told from numbers alone.
    pub simple_keys: SimpleKeys,
    /// How it is treated, its container's flags included.
    pub behavior: Behavior,
    /// It runs scripts, or may do so (EXEC): others must be answered meanwhile.
    pub runs_scripts: bool,
    /// How much of the keyspace it may need.
    pub reach: Reach,
    /// No check beyond arity and authentication applies, in the normal state of server and client.
    pub plain: bool,
}

/// All commands.
pub struct CommandTable {
    commands: Vec<Command>,
    /// Open addressing by name; index + 1, 0 = empty.
    slots: Vec<u16>,
    seed: u64,
    top_level: Vec<u32>,
    /// Renamed commands with names too long for the quick look-up. Nearly always empty.
    long: Vec<u32>,
}

/// The longest command name that is found by the quick way (all of Redis's are shorter).
const NAME_MAX: usize = 24;

type Name = [u64; 3];

/// The name in lower case as words, with zeros behind it, or nothing if it is too long.
///
/// Its bytes are read as words in the first place: copied to a buffer and read from there they
/// would have to go through the memory, since the processor cannot put a word together from several
/// stores that are still on their way.
#[inline]
fn fold(name: &[u8]) -> Option<Name> {
    let (words, rest) = name.as_chunks::<8>();
    let is_whole = rest.is_empty();
    let rest = lower(short_word(rest));
    match words {
        [] => Some([rest, 0, 0]),
        [first] => Some([whole_word(first), rest, 0]),
        [first, second] => Some([whole_word(first), whole_word(second), rest]),
        [first, second, third] if is_whole => {
            Some([whole_word(first), whole_word(second), whole_word(third)])
        }
        _ => None,
    }
}

#[inline]
fn whole_word(bytes: &[u8; 8]) -> u64 {
    lower(u64::from_le_bytes(*bytes))
}

/// At most seven bytes as a word.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let at = |index: usize| u64::from(bytes[index]) << (8 * index);
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            // Where they overlap they agree.
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
        }
        _ if len == 0 => 0,
        _ => at(0) | at(len / 2) | at(len - 1),
    }
}

/// Eight bytes with ASCII's capitals made small.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = 0x80 * EACH;
    // The high bit of each byte tells: no carry gets from one byte to the next.
    let low = word & !HIGH;
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let beyond_z = low + EACH * (0x80 - b'Z' as u64 - 1);
    let capital = from_a & !beyond_z & !word & HIGH;
    word | capital >> 2
}

#[inline]
fn mix(name: &Name, len: usize, seed: u64) -> usize {
    let word = name[0] ^ name[1].rotate_left(23) ^ name[2].rotate_left(41) ^ (len as u64) << 56 ^ seed;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

impl CommandTable {
    /// A table of the given families, and each command's row by id.
    pub fn new<R: Row>(families: &[&'static [R]]) -> (CommandTable, Vec<&'static R>) {
        let mut table = CommandTable {
            commands: Vec::new(),
            slots: Vec::new(),
            seed: 0,
            top_level: Vec::new(),
            long: Vec::new(),
        };
        let mut rows = Vec::new();
        let mut all: Vec<&'static R> = families.iter().flat_map(|family| family.iter()).collect();
        all.sort_by_key(|row| row.spec().name);
        for row in all {
            let (spec, subcommands) = (row.spec(), row.subcommands());
            let id = table.push(spec, None, spec.name.to_owned(), !subcommands.is_empty());
            table.top_level.push(id);
            rows.push(row);
            for subcommand in subcommands {
                let name = format!("{}|{}", spec.name, subcommand.spec().name);
                let sub = table.push(subcommand.spec(), Some(id), name, false);
                table.commands[id as usize].subcommands.push(sub);
                rows.push(subcommand);
            }
        }
        table.index();
        (table, rows)
    }

    fn push(
        &mut self,
        spec: &'static Spec,
        parent: Option<u32>,
        full_name: String,
        has_subcommands: bool,
    ) -> u32 {
        let id = self.commands.len() as u32;
        let special = Flags::NO_AUTH | Flags::NO_MULTI | Flags::PROTECTED;
        let plain = !spec.flags.any(special) && !has_subcommands;
        let simple_keys = SimpleKeys::of(spec);
        let inherited = parent.map_or(Behavior::NONE, |parent: u32| self.commands[parent as usize].behavior);
        let behavior = spec.behavior | inherited;
        let runs_scripts = behavior.any(Behavior::RUNS_SCRIPTS | Behavior::EXECUTES_QUEUE);
        self.commands.push(Command {
            spec,
            called: spec.name.into(),
            folded: Name::default(),
            id,
            full_name,
            parent,
            subcommands: Vec::new(),
            reach: Reach::of(spec, simple_keys.is_single()),
            simple_keys,
            behavior,
            runs_scripts,
            plain,
        });
        id
    }

    /// Gives a command another name, or with an empty one takes it away. The error is the reason as operators
    /// know it.
    ///
    /// What it is called changes nothing but how clients reach it: specs refer to commands by their own
    /// names.
    pub fn rename(&mut self, command: &str, new_name: &str) -> Result<(), &'static str> {
        let Some(id) = self.find(command.as_bytes()).map(|command| command.id) else {
            return Err("No such command in rename-command");
        };
        if new_name.is_empty() {
            self.top_level.retain(|&other| other != id);
            self.commands[id as usize].called = "".into();
        } else if self.find(new_name.as_bytes()).is_some() {
            return Err("Target command name already exists");
        } else {
            self.commands[id as usize].called = new_name.into();
        }
        self.index();
        Ok(())
    }

    /// Chooses a seed for which no two names collide, so that a look-up is one probe.
    fn index(&mut self) {
        for command in &mut self.commands {
            command.folded = fold(command.called.as_bytes()).unwrap_or_default();
        }
        let is_short = |id: &u32| self.commands[*id as usize].called.len() <= NAME_MAX;
        let (quick, long): (Vec<u32>, Vec<u32>) = self.top_level.iter().partition(|id| is_short(id));
        self.long = long;
        let size = (self.top_level.len() * 16).next_power_of_two().max(16);
        for seed in 0.. {
            let mut slots = vec![0u16; size];
            let fits = quick.iter().all(|&id| {
                let command = &self.commands[id as usize];
                let slot = &mut slots[mix(&command.folded, command.called.len(), seed) & (size - 1)];
                std::mem::replace(slot, id as u16 + 1) == 0
            });
            if fits {
                (self.slots, self.seed) = (slots, seed);
                return;
            }
        }
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        if let Some(folded) = fold(name) {
            let slot = self.slots[mix(&folded, name.len(), self.seed) & (self.slots.len() - 1)];
            if let Some(command) = self.commands.get(usize::from(slot).wrapping_sub(1))
                && command.folded == folded
                && command.called.len() == name.len()
            {
                return Some(command);
            }
        }
        self.find_long(name)
    }

    #[cold]
    fn find_long(&self, name: &[u8]) -> Option<&Command> {
        let mut long = self.long.iter().map(|&id| &self.commands[id as usize]);
        long.find(|command| command.called.as_bytes().eq_ignore_ascii_case(name))
    }

    /// A subcommand of this name, in any case.
    pub fn find_subcommand(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        container
            .subcommands
            .iter()
            .map(|&id| &self.commands[id as usize])
            .find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The command of a full name such as `get` or `client|list`, in any case.
    pub fn find_full(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find_subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// By id.
    #[inline]
    pub fn get(&self, id: u32) -> &Command {
        &self.commands[id as usize]
    }

    /// Commands and subcommands that clients can call.
    pub fn available(&self) -> impl Iterator<Item = &Command> {
        let taken_away = |command: &Command| command.called.is_empty();
        self.commands
            .iter()
            .filter(move |&command| !taken_away(command.parent.map_or(command, |parent| self.get(parent))))
    }

    /// Commands and subcommands, also those that were taken away: by id.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Commands without subcommands, by name.
    pub fn top_level(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.top_level.iter().map(|&id| &self.commands[id as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `fold` is to be, byte by byte.
    fn folded(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(&name.to_ascii_lowercase());
        let (words, _) = bytes.as_chunks::<8>();
        Some([0, 1, 2].map(|index| u64::from_le_bytes(words[index])))
    }

    #[test]
    fn names_of_any_length_and_all_bytes_are_folded() {
        for len in 0..40 {
            for first in 0..=255u8 {
                let name: Vec<u8> =
                    (0..len).map(|index| first.wrapping_add(37u8.wrapping_mul(index))).collect();
                assert_eq!(fold(&name), folded(&name), "{name:?}");
            }
        }
    }
}
