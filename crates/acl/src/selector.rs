// SPDX-License-Identifier: BSD-3-Clause
//! Selector: permitted commands, keys, channels and databases. A user has a root selector and
//! optionally others; a command must be permitted by a single one of them.

use braid_base::glob::{literal_prefix, matches};
use braid_spec::keys::{self, KeyList};
use braid_spec::{Category, ChannelAccess, Command, CommandTable, Flags, KeyFlags};

use crate::databases::{Databases, InDatabase};
use crate::denied::Denied;
use crate::terms::Terms;

/// Access to keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u8);

impl Access {
    pub const NONE: Access = Access(0);
    pub const READ: Access = Access(1);
    pub const WRITE: Access = Access(2);
    pub const BOTH: Access = Access(3);

    /// Union.
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// True if it includes all of `other`.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// The access that a command with these key flags needs. Checking for existence needs none.
    #[inline]
    pub(crate) fn needed(flags: KeyFlags) -> Access {
        let read = if flags.has(KeyFlags::ACCESS) { Access::READ } else { Access::NONE };
        let changes = KeyFlags::INSERT | KeyFlags::DELETE | KeyFlags::UPDATE;
        if flags.any(changes) { read.and(Access::WRITE) } else { read }
    }

    /// The prefix of a pattern in rules.
    const fn sign(self) -> &'static [u8] {
        match self {
            Access::READ => b"%R~",
            Access::WRITE => b"%W~",
            _ => b"~",
        }
    }
}

/// The part of a pattern after its literal prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Nothing,
    /// A single star.
    Anything,
    Pattern,
}

/// A key pattern with its access. Most patterns are a prefix and a star, which needs no glob
/// matching.
#[derive(Clone, Debug)]
pub(crate) struct KeyPattern {
    pub access: Access,
    pub text: Box<[u8]>,
    /// Length of the literal prefix.
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
            // As in stock servers, a lone star does not match an empty key.
            Rest::Anything => key.starts_with(&self.text[..self.literal]) && !key.is_empty(),
            Rest::Pattern => key.starts_with(&self.text[..self.literal]) && matches(&self.text, key, false),
        }
    }
}

/// Permissions on commands, keys, channels and databases.
#[derive(Clone, Debug)]
pub struct Selector {
    /// All commands are allowed.
    all_commands: bool,
    /// The rules start from all commands rather than from none.
    starts_from_all: bool,
    /// One bit per command id.
    commands: Box<[u64]>,
    /// Commands allowed only with certain first arguments.
    first_arguments: Vec<(u32, Vec<Box<[u8]>>)>,
    /// The rules that produced `commands`, without their signs.
    rules: Vec<(bool, Vec<u8>)>,
    pub(crate) all_keys: bool,
    pub(crate) patterns: Vec<KeyPattern>,
    pub(crate) all_channels: bool,
    pub(crate) channels: Vec<Box<[u8]>>,
    pub(crate) databases: Databases,
}

/// The keys of a request, computed once for several selectors.
#[derive(Default)]
pub(crate) struct FoundKeys(Option<KeyList>);

impl FoundKeys {
    fn of(&mut self, command: &Command, args: &[&[u8]]) -> &KeyList {
        self.0.get_or_insert_with(|| keys::find(command.spec, args).unwrap_or_default())
    }
}

impl Selector {
    /// A selector without permissions, except for databases, and for channels if the defaults
    /// allow them.
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
            databases: Databases::All,
        }
    }

    /// True if everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases == Databases::All
    }

    /// True if some databases are not allowed.
    pub fn is_confined(&self) -> bool {
        self.databases != Databases::All
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

    /// Records a command rule; it replaces earlier rules for the same command or a part of it.
    pub(crate) fn note_rule(&mut self, allowed: bool, name: Vec<u8>) {
        self.rules.retain(|(_, known)| match known.strip_prefix(&name[..]) {
            Some(rest) => !(rest.is_empty() || rest[0] == b'|'),
            None => true,
        });
        self.rules.push((allowed, name));
    }

    /// Whether the command may use all keys that begin like this in a database.
    pub(crate) fn allows_prefix(&self, command: &Command, prefix: &[u8], database: u32) -> bool {
        let bit = self.commands[command.id as usize / 64] >> (command.id % 64) & 1;
        let needed = if command.spec.flags.has(Flags::WRITE) { Access::BOTH } else { Access::READ };
        let covers = |pattern: &KeyPattern| {
            pattern.access.has(needed)
                && pattern.rest == Rest::Anything
                && prefix.starts_with(&pattern.text[..pattern.literal])
        };
        let has_keys = self.all_keys || self.patterns.iter().any(covers);
        bit == 1 && has_keys && self.databases.allow(database)
    }

    /// True if some key may be changed by some command in a database.
    pub(crate) fn may_change(&self, key: &[u8], database: u32) -> bool {
        (self.all_keys || self.may_touch(key, Access::WRITE)) && self.databases.allow(database)
    }

    /// True if a command on this key is certainly allowed, by a quick check.
    #[inline]
    pub(crate) fn allows_key(&self, command: &Command, key: &[u8], needed: Access, database: u32) -> bool {
        let bit = self.commands[command.id as usize / 64] >> (command.id % 64) & 1;
        bit == 1 && (self.all_keys || self.may_touch(key, needed)) && self.databases.allow(database)
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

    /// True if a channel may be used. A pattern to subscribe to must be listed literally.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|allowed| {
                if is_pattern { **allowed == *channel } else { matches(allowed, channel, false) }
            })
    }

    /// Checks a request; the error is the first missing permission.
    pub(crate) fn check(
        &self,
        command: &Command,
        args: &[&[u8]],
        place: InDatabase,
        found: &mut FoundKeys,
    ) -> Result<(), Denied> {
        self.databases.check(command, args, place).map_err(Denied::Database)?;
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

    /// The command rules, as accepted by ACL SETUSER.
    pub fn command_rules(&self) -> Vec<u8> {
        let mut text = if self.starts_from_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (allowed, name) in &self.rules {
            text.extend_from_slice(if *allowed { b" +" } else { b" -" });
            text.extend_from_slice(name);
        }
        text
    }

    /// The key rules, separated by spaces.
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules: Vec<_> =
            self.patterns.iter().map(|known| [known.access.sign(), &known.text].concat()).collect();
        rules.join(&b' ')
    }

    /// The channel rules, separated by spaces.
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules: Vec<_> = self.channels.iter().map(|channel| [b"&", &**channel].concat()).collect();
        rules.join(&b' ')
    }

    /// The database rule, as in ACL GETUSER.
    pub fn database_rule(&self) -> Vec<u8> {
        self.databases.rule().into_bytes()
    }

    /// All rules, relative to a new selector.
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
        match self.databases.rule() {
            _ if self.databases == Databases::All => {}
            rule if rule.is_empty() => parts.push(b"resetdbs".to_vec()),
            rule => parts.push(rule.into_bytes()),
        }
        parts.push(self.command_rules());
        parts.join(&b' ')
    }
}

/// The rules of selectors of which the first is the root.
pub(crate) fn describe_selectors(selectors: &[Selector]) -> Vec<u8> {
    let mut text = selectors[0].describe();
    for selector in &selectors[1..] {
        let rules = selector.describe();
        let rules: Vec<Vec<u8>> = rules.split(|&byte| byte == b' ').map(quote_if_needed).collect();
        text.extend_from_slice(b" (");
        text.extend_from_slice(&rules.join(&b' '));
        text.push(b')');
    }
    text
}

/// Quotes a selector's rule if the reader would split it.
fn quote_if_needed(rule: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(rule) {
        Ok(text) => braid_config::quote_if_needed(text).into_bytes(),
        Err(_) => braid_config::quote(rule).into_bytes(),
    }
}
