// SPDX-License-Identifier: BSD-3-Clause
//! A selector: what commands may be run, on which keys, with which channels. A user has one of its
//! own and perhaps more; a command has to be allowed by one of them alone.

use braid_base::glob::{literal_prefix, matches};
use braid_spec::keys::{self, KeyList};
use braid_spec::{Category, ChannelAccess, Command, CommandTable, Flags, KeyFlags};

use crate::denied::Denied;
use crate::terms::Terms;

/// What may be done with keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u8);

impl Access {
    pub const NONE: Access = Access(0);
    pub const READ: Access = Access(1);
    pub const WRITE: Access = Access(2);
    pub const BOTH: Access = Access(3);

    /// Both.
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// True if all of `other` is allowed.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// What a command needs that does this with a key. To ask whether there is something needs neither.
    #[inline]
    pub(crate) fn needed(flags: KeyFlags) -> Access {
        let read = if flags.has(KeyFlags::ACCESS) { Access::READ } else { Access::NONE };
        let changes = KeyFlags::INSERT | KeyFlags::DELETE | KeyFlags::UPDATE;
        if flags.any(changes) { read.and(Access::WRITE) } else { read }
    }

    /// As rules have it, in front of a pattern.
    const fn sign(self) -> &'static [u8] {
        match self {
            Access::READ => b"%R~",
            Access::WRITE => b"%W~",
            _ => b"~",
        }
    }
}

/// How a pattern goes on behind its literal beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Nothing,
    /// One star.
    Anything,
    Pattern,
}

/// Keys, and what may be done with them. Most patterns are names with a star behind them, which
/// need no matching.
#[derive(Clone, Debug)]
pub(crate) struct KeyPattern {
    pub access: Access,
    pub text: Box<[u8]>,
    /// So many bytes in front are literal.
    literal: usize,
    rest: Rest,
}

impl KeyPattern {
    pub fn new(access: Access, text: &[u8]) -> KeyPattern {
        let literal = literal_prefix(text).len();
        let rest = match &text[literal..] {
            [] => Rest::Nothing,
            [b'*'] => Rest::Anything,
            _ => Rest::Pattern,
        };
        KeyPattern { access, text: text.into(), literal, rest }
    }

    #[inline]
    pub fn matches(&self, key: &[u8]) -> bool {
        match self.rest {
            Rest::Nothing => *self.text == *key,
            // As with stock servers, a star alone does not match an empty key.
            Rest::Anything => key.starts_with(&self.text[..self.literal]) && !key.is_empty(),
            Rest::Pattern => key.starts_with(&self.text[..self.literal]) && matches(&self.text, key, false),
        }
    }
}

/// What of commands, keys and channels is allowed.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Nothing has been taken away since all commands were allowed.
    all_commands: bool,
    /// It began with all commands rather than with none.
    starts_from_all: bool,
    /// By command id, a bit each.
    commands: Box<[u64]>,
    /// Commands that are allowed with certain first arguments only.
    first_arguments: Vec<(u32, Vec<Box<[u8]>>)>,
    /// The rules that led from all or none to `commands`, without their signs.
    rules: Vec<(bool, Vec<u8>)>,
    pub(crate) all_keys: bool,
    pub(crate) patterns: Vec<KeyPattern>,
    pub(crate) all_channels: bool,
    pub(crate) channels: Vec<Box<[u8]>>,
}

/// The keys of a request, looked for once though several selectors ask.
#[derive(Default)]
pub(crate) struct FoundKeys(Option<KeyList>);

impl FoundKeys {
    fn of(&mut self, command: &Command, args: &[&[u8]]) -> &KeyList {
        self.0.get_or_insert_with(|| keys::find(command.spec, args).unwrap_or_default())
    }
}

impl Selector {
    /// Nothing is allowed, except channels if new selectors may use them.
    pub(crate) fn new(terms: Terms<'_>) -> Selector {
        Selector {
            all_commands: false,
            starts_from_all: false,
            commands: vec![0; terms.commands.all().len().div_ceil(64)].into(),
            first_arguments: Vec::new(),
            rules: Vec::new(),
            all_keys: false,
            patterns: Vec::new(),
            all_channels: terms.all_channels,
            channels: Vec::new(),
        }
    }

    /// True if everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// True if all keys may be read.
    pub fn reads_all_keys(&self) -> bool {
        self.all_keys
            || self.patterns.iter().any(|known| known.access.has(Access::READ) && *known.text == *b"*")
    }

    pub(crate) fn set_all_commands(&mut self, allowed: bool) {
        self.all_commands = allowed;
        self.starts_from_all = allowed;
        self.commands.fill(if allowed { u64::MAX } else { 0 });
        self.first_arguments.clear();
        self.rules.clear();
    }

    fn set_bit(&mut self, id: u32, allowed: bool) {
        let bit = 1 << (id % 64);
        let word = &mut self.commands[id as usize / 64];
        if allowed {
            *word |= bit;
        } else {
            *word &= !bit;
            self.all_commands = false;
        }
    }

    /// Allows or forbids a command with its subcommands.
    pub(crate) fn set_command(&mut self, command: &Command, allowed: bool) {
        self.set_bit(command.id, allowed);
        self.first_arguments.retain(|(id, _)| *id != command.id);
        for &sub in &command.subcommands {
            self.set_bit(sub, allowed);
        }
    }

    pub(crate) fn set_category(&mut self, category: Category, allowed: bool, commands: &CommandTable) {
        for command in commands.all().iter().filter(|command| command.spec.categories_all().has(category)) {
            self.set_command(command, allowed);
        }
    }

    pub(crate) fn add_first_argument(&mut self, id: u32, argument: &[u8]) {
        let arguments = match self.first_arguments.iter_mut().position(|(known, _)| *known == id) {
            Some(at) => &mut self.first_arguments[at].1,
            None => {
                self.first_arguments.push((id, Vec::new()));
                let last = self.first_arguments.len() - 1;
                &mut self.first_arguments[last].1
            }
        };
        if !arguments.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            arguments.push(argument.into());
        }
    }

    /// Notes a rule on commands; it replaces an earlier one about the same, or about a part of it.
    pub(crate) fn note_rule(&mut self, allowed: bool, name: Vec<u8>) {
        self.rules.retain(|(_, known)| match known.strip_prefix(&name[..]) {
            Some(rest) => !(rest.is_empty() || rest[0] == b'|'),
            None => true,
        });
        self.rules.push((allowed, name));
    }

    /// Whether a command on the one key is allowed without looking any closer.
    #[inline]
    pub(crate) fn allows_key(&self, command: &Command, key: &[u8], needed: Access) -> bool {
        let bit = self.commands[command.id as usize / 64] >> (command.id % 64) & 1;
        bit == 1 && (self.all_keys || self.may_touch(key, needed))
    }

    fn may_run(&self, command: &Command, args: &[&[u8]]) -> bool {
        let bit = self.commands[command.id as usize / 64] >> (command.id % 64) & 1;
        if bit == 1 || self.all_commands || command.spec.flags.has(Flags::NO_AUTH) {
            return true;
        }
        let place = if command.parent.is_some() { 2 } else { 1 };
        let Some(given) = args.get(place) else { return false };
        let mut allowed = self.first_arguments.iter().filter(|(id, _)| *id == command.id);
        allowed.any(|(_, known)| known.iter().any(|known| known.eq_ignore_ascii_case(given)))
    }

    fn may_touch(&self, key: &[u8], needed: Access) -> bool {
        self.patterns.iter().any(|known| known.access.has(needed) && known.matches(key))
    }

    /// Whether a channel may be used. A pattern to listen to has to be allowed in so many letters.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|allowed| {
                if is_pattern { **allowed == *channel } else { matches(allowed, channel, false) }
            })
    }

    /// Whether a request is allowed; if not, what is wrong with it first.
    pub(crate) fn check(
        &self,
        command: &Command,
        args: &[&[u8]],
        found: &mut FoundKeys,
    ) -> Result<(), Denied> {
        if !self.may_run(command, args) {
            return Err(Denied::Command);
        }
        if !self.all_keys && command.spec.has_keys() {
            for at in found.of(command, args) {
                let flags = match command.spec.exact_key_flags {
                    Some(exact) => exact(args),
                    None => at.flags,
                };
                if !self.may_touch(args[at.index], Access::needed(flags)) {
                    return Err(Denied::Key(at.index));
                }
            }
        }
        if !self.all_channels
            && let Some(channels) = command.spec.channels
            && channels.access != ChannelAccess::Unsubscribe
        {
            let denied = |name: &&[u8]| !self.may_use_channel(name, channels.patterns);
            if let Some(at) = channels.find(args).iter().position(denied) {
                return Err(Denied::Channel(channels.first + at));
            }
        }
        Ok(())
    }

    /// The rules on commands, as ACL SETUSER would take them.
    pub fn command_rules(&self) -> Vec<u8> {
        let mut text = if self.starts_from_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (allowed, name) in &self.rules {
            text.extend_from_slice(if *allowed { b" +" } else { b" -" });
            text.extend_from_slice(name);
        }
        text
    }

    /// The rules on keys, separated by spaces.
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules: Vec<_> =
            self.patterns.iter().map(|known| [known.access.sign(), &known.text].concat()).collect();
        rules.join(&b' ')
    }

    /// The rules on channels, separated by spaces.
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules: Vec<_> = self.channels.iter().map(|channel| [b"&", &**channel].concat()).collect();
        rules.join(&b' ')
    }

    /// All rules, from a new selector on.
    pub fn describe(&self) -> Vec<u8> {
        let (keys, channels) = (self.key_rules(), self.channel_rules());
        let mut parts = Vec::new();
        if !keys.is_empty() {
            parts.push(keys);
        }
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        if !channels.is_empty() {
            parts.push(channels);
        }
        parts.push(self.command_rules());
        parts.join(&b' ')
    }
}
