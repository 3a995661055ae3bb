// SPDX-License-Identifier: BSD-3-Clause
//! The command table: case-insensitive lookup by name, without copying.
//!
//! HOT PATH: a lookup folds the name to lower case in at most three words, hashes them and, but for
//! a few names, compares once.

use crate::keys::SimpleKeys;
use crate::spec::{Behavior, Flags, KeyFlags, Scope, Spec};

/// How many keys a request may lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// At most one key.
    OneKey,
    /// Several keys, all of them, or an unknown set: scripts and transactions.
    Wide,
    /// Depends on the arguments.
    Depends,
}

impl Reach {
    /// A command's reach by its specification.
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

/// A row of a family: a specification and the rows of its subcommands.
pub trait Row: Sized + 'static {
    /// The row's specification.
    fn spec(&'static self) -> &'static Spec;
    /// The rows of its subcommands.
    fn subcommands(&'static self) -> &'static [Self];
}

/// A command or subcommand: the specification and the properties derived from it.
#[derive(Clone)]
pub struct Command {
    pub spec: &'static Spec,
    /// Name for clients: the specification's, unless renamed; empty if removed.
    pub called: Box<str>,
    /// The folded name, if it is short enough.
    folded: Name,
    /// Index in the table and in the statistics.
    pub id: u32,
    /// `get`, or `client|list`: shown by statistics and COMMAND even if renamed.
    pub full_name: String,
    /// The container of a subcommand.
    pub parent: Option<u32>,
    /// IDs of the subcommands.
    pub subcommands: Vec<u32>,
    /// Key positions given by numbers.
    pub simple_keys: SimpleKeys,
    /// Behaviour, including the container's flags.
    pub behavior: Behavior,
    /// The command runs scripts, or may do so (EXEC): other clients are served meanwhile.
    pub runs_scripts: bool,
    /// How many keys the command may need.
    pub reach: Reach,
    /// Needs no check beyond arity and authentication while no state is set.
    pub plain: bool,
    /// Its keys must belong to one cluster slot. Set in cluster mode, for commands that can have
    /// several.
    pub checks_slots: bool,
}

/// All commands.
#[derive(Clone)]
pub struct CommandTable {
    commands: Vec<Command>,
    /// Open addressing by name, with linear probing; index + 1, 0 means empty.
    slots: Vec<u16>,
    seed: u64,
    top_level: Vec<u32>,
    /// Renamed commands whose names are too long for the fast lookup. Nearly always empty.
    long: Vec<u32>,
}

/// Maximum name length for the fast lookup; all of Redis's names are shorter.
const NAME_MAX: usize = 24;

/// Seeds that are tried.
const SEEDS: u64 = 32;

type Name = [u64; 3];

/// The name in lower case as words, padded with zeros; `None` if it is too long.
///
/// Reads words directly: a copy to a buffer would go through memory, because the processor cannot
/// forward several small stores to one load.
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

/// Up to seven bytes as a word.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let at = |index: usize| u64::from(bytes[index]) << (8 * index);
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            // Overlapping bytes are equal.
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
        }
        _ if len == 0 => 0,
        _ => at(0) | at(len / 2) | at(len - 1),
    }
}

/// Converts eight ASCII bytes to lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = 0x80 * EACH;
    // The high bit of each byte decides, and no carry crosses byte boundaries.
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
    /// Builds the table from families. Also returns each command's row, by ID.
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
            checks_slots: false,
        });
        id
    }

    /// Cluster mode: enables the slot check for all commands that can name several keys or shard
    /// channels, and for EXEC. If the lock set covers everything to check, the ordinary path of a
    /// request does it; other commands take the slow path.
    pub fn check_slots(&mut self) {
        for command in &mut self.commands {
            let spec = command.spec;
            let has_keys = !spec.keys.is_empty() || spec.key_finder.is_some();
            command.checks_slots = (has_keys || command.runs_scripts) && !command.simple_keys.is_single();
            let locks_all = spec.scope == Scope::Keys
                && spec.scope_finder.is_none()
                && !command.runs_scripts
                && !spec.keys.iter().any(|key| key.flags.has(KeyFlags::NOT_KEY));
            command.plain &= !command.checks_slots || locks_all;
        }
    }

    /// Renames a command, or removes it if `new_name` is empty.
    ///
    /// Only clients use the new name: specifications refer to original names.
    ///
    /// # Errors
    /// Redis's text, if there is no such command, or the new name is taken.
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

    /// Fills the slots, with the seed among a few that leaves most names in the first slot they are
    /// looked for in. (A seed that leaves all of them there is one in 100,000 with 430 names:
    /// searching for it took a tenth of a second at each start.)
    fn index(&mut self) {
        for command in &mut self.commands {
            command.folded = fold(command.called.as_bytes()).unwrap_or_default();
        }
        let is_short = |id: &u32| self.commands[*id as usize].called.len() <= NAME_MAX;
        let (quick, long): (Vec<u32>, Vec<u32>) = self.top_level.iter().partition(|id| is_short(id));
        self.long = long;
        let mut fewest = usize::MAX;
        for seed in 0..SEEDS {
            let (slots, displaced) = self.filled(&quick, seed);
            if displaced < fewest {
                (self.slots, self.seed, fewest) = (slots, seed, displaced);
            }
        }
    }

    /// The slots of these commands with a seed, and how many are not in their first slot.
    fn filled(&self, quick: &[u32], seed: u64) -> (Vec<u16>, usize) {
        let mask = (self.top_level.len() * 16).next_power_of_two() - 1;
        let (mut slots, mut displaced) = (vec![0u16; mask + 1], 0);
        for &id in quick {
            let command = &self.commands[id as usize];
            let mut at = mix(&command.folded, command.called.len(), seed);
            displaced += usize::from(slots[at & mask] != 0);
            while slots[at & mask] != 0 {
                at += 1;
            }
            slots[at & mask] = id as u16 + 1;
        }
        (slots, displaced)
    }

    /// Finds a command by name, case-insensitively.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        if let Some(folded) = fold(name) {
            let mut at = mix(&folded, name.len(), self.seed);
            // Ends: most slots are empty.
            while let Some(command) = self.in_slot(at) {
                if command.folded == folded && command.called.len() == name.len() {
                    return Some(command);
                }
                at += 1;
            }
        }
        self.find_long(name)
    }

    #[inline]
    fn in_slot(&self, at: usize) -> Option<&Command> {
        let slot = self.slots[at & (self.slots.len() - 1)];
        self.commands.get(usize::from(slot).wrapping_sub(1))
    }

    #[cold]
    fn find_long(&self, name: &[u8]) -> Option<&Command> {
        let mut long = self.long.iter().map(|&id| &self.commands[id as usize]);
        long.find(|command| command.called.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Finds a subcommand by name, case-insensitively.
    pub fn find_subcommand(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        container
            .subcommands
            .iter()
            .map(|&id| &self.commands[id as usize])
            .find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Finds a command by its full name, such as `get` or `client|list`, case-insensitively.
    pub fn find_full(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find_subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// A command by ID.
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

    /// All commands and subcommands by ID, including removed ones.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Top-level commands, by name.
    pub fn top_level(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.top_level.iter().map(|&id| &self.commands[id as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation of `fold`.
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
