//! The command table: finding a command by name, in any case, without a copy.
//!
//! HOT PATH: a look-up hashes the upper-cased name as two words and compares once.

use crate::keys::SimpleKeys;
use crate::spec::{Flags, Spec};

/// A command or subcommand as the server knows it: the spec plus what is derived from it once.
pub struct Command {
    pub spec: &'static Spec,
    /// Place in the table; statistics are kept by it.
    pub id: u32,
    /// `get`, or `client|list`.
    pub full_name: String,
    /// The container of a subcommand.
    pub parent: Option<u32>,
    /// Subcommands by id.
    pub subcommands: Vec<u32>,
    /// Key positions when they can be told from numbers alone.
    pub simple_keys: SimpleKeys,
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
}

/// The longest command name that is found by the quick way (all of Redis's are shorter).
const NAME_MAX: usize = 24;

type Name = [u64; 3];

/// The name in upper case as words, or nothing if it is too long. Non-letters that only differ in bit 5 could be confused, so the
/// final comparison is exact.
#[inline]
fn fold(name: &[u8]) -> Option<Name> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut bytes = [0u8; NAME_MAX];
    bytes[..name.len()].copy_from_slice(name);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    const CASE: u64 = 0x2020_2020_2020_2020;
    Some([word(0) & !CASE, word(8) & !CASE, word(16) & !CASE])
}

#[inline]
fn mix(name: &Name, len: usize, seed: u64) -> usize {
    let word = name[0] ^ name[1].rotate_left(23) ^ name[2].rotate_left(41) ^ (len as u64) << 56 ^ seed;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

impl CommandTable {
    /// A table of the given families.
    pub fn new(families: &[&'static [Spec]]) -> CommandTable {
        let mut table =
            CommandTable { commands: Vec::new(), slots: Vec::new(), seed: 0, top_level: Vec::new() };
        let mut all: Vec<&'static Spec> = families.iter().flat_map(|family| family.iter()).collect();
        all.sort_by_key(|spec| spec.name);
        for spec in all {
            let id = table.push(spec, None, spec.name.to_owned());
            table.top_level.push(id);
            let subcommands: Vec<u32> = spec
                .subcommands
                .iter()
                .map(|sub| table.push(sub, Some(id), format!("{}|{}", spec.name, sub.name)))
                .collect();
            table.commands[id as usize].subcommands = subcommands;
        }
        table.index();
        table
    }

    fn push(&mut self, spec: &'static Spec, parent: Option<u32>, full_name: String) -> u32 {
        let id = self.commands.len() as u32;
        let plain = !spec.flags.any(Flags::NO_AUTH | Flags::NO_MULTI) && spec.subcommands.is_empty();
        self.commands.push(Command {
            spec,
            id,
            full_name,
            parent,
            subcommands: Vec::new(),
            simple_keys: SimpleKeys::of(spec),
            plain,
        });
        id
    }

    /// Chooses a seed for which no two names collide, so that a look-up is one probe.
    fn index(&mut self) {
        let size = (self.top_level.len() * 16).next_power_of_two().max(16);
        for seed in 0.. {
            let mut slots = vec![0u16; size];
            let fits = self.top_level.iter().all(|&id| {
                let name = self.commands[id as usize].spec.name.as_bytes();
                let folded = fold(name).expect("command names are short");
                let slot = &mut slots[mix(&folded, name.len(), seed) & (size - 1)];
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
        let folded = fold(name)?;
        let slot = self.slots[mix(&folded, name.len(), self.seed) & (self.slots.len() - 1)];
        let command = self.commands.get(usize::from(slot).checked_sub(1)?)?;
        command.spec.name.as_bytes().eq_ignore_ascii_case(name).then_some(command)
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

    /// Commands and subcommands.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Commands without subcommands, by name.
    pub fn top_level(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.top_level.iter().map(|&id| &self.commands[id as usize])
    }
}
