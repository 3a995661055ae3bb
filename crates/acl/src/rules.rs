// SPDX-License-Identifier: BSD-3-Clause
//! Rules of ACL SETUSER, applied one by one to a user or a selector.
//!
//! Rules are applied to a copy, which [`Acl`](crate::Acl) activates if all of them are valid.

use braid_base::number::parse_i64;
use braid_resp::inline::split_words;
use braid_spec::{Category, Command, CommandError, CommandTable};

use crate::databases::Databases;
use crate::limits::Limits;
use crate::role::{Role, Roles, names_in};
use crate::selector::{Access, KeyPattern, Selector};
use crate::terms::Terms;
use crate::user::{Password, User};

/// A fault in a `user` line of the configuration: the rule and its error.
pub type LineFault = (Vec<u8>, RuleError);

/// Why a rule is invalid, in Redis's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    #[error("Unknown command or category name in ACL")]
    Unknown,
    #[error("Syntax error")]
    Syntax,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AfterAllKeys,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AfterAllChannels,
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NoHash,
    #[error("Duplicate user found. A user can only be defined once in config files")]
    Duplicate,
    #[error("The provided database ID is out of range")]
    DatabaseRange,
    #[error("Allowing first-arg of a subcommand is not supported")]
    ArgumentOfSubcommand,
    #[error("Duplicate role found. A role can only be defined once in config files")]
    DuplicateRole,
    #[error("The role does not exist")]
    NoSuchRole,
    #[error("A limit must be a number, 0 for none")]
    Limit,
}

impl RuleError {
    /// The reply to a selector that is not closed.
    pub(crate) fn unmatched(open: Vec<u8>) -> CommandError {
        CommandError::quoting("ERR Unmatched parenthesis in acl selector starting at '", &open, "'.")
    }

    /// The reply of a subcommand to a rule with this error.
    pub(crate) fn in_modifier(self, subcommand: &str, rule: &[u8]) -> CommandError {
        let before = format!("ERR Error in ACL {subcommand} modifier '");
        CommandError::quoting(&before, rule, &format!("': {self}"))
    }
}

/// True if the text has spaces, so that it cannot be written to a file.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte == 0 || byte.is_ascii_whitespace() || byte == 0x0b)
}

/// Joins selectors that span several arguments.
///
/// # Errors
/// The argument that opens an unclosed selector.
pub fn merge_selectors(rules: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut merged = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        let rule = rule.as_ref();
        match &mut open {
            Some((_, text)) => {
                text.push(b' ');
                text.extend_from_slice(rule);
                if rule.ends_with(b")") {
                    merged.extend(open.take().map(|(_, text)| text));
                }
            }
            None if rule.starts_with(b"(") && !rule.ends_with(b")") => open = Some((rule, rule.to_vec())),
            None => merged.push(rule.to_vec()),
        }
    }
    match open {
        Some((first, _)) => Err(first.to_vec()),
        None => Ok(merged),
    }
}

impl User {
    /// Applies a rule.
    pub(crate) fn apply(&mut self, rule: &[u8], terms: Terms<'_>, roles: &Roles) -> Result<(), RuleError> {
        let lower = rule.to_ascii_lowercase();
        if let Some(is_valid) = self.limits.apply(&lower) {
            return if is_valid { Ok(()) } else { Err(RuleError::Limit) };
        }
        match lower.as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"skip-sanitize-payload" => self.sanitizes = false,
            b"sanitize-payload" => self.sanitizes = true,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"resetroles" => self.set_roles(Vec::new()),
            [b'r', b'o', b'l', b'e', b'=', ..] => {
                let find = |name| roles.get(name).ok_or(RuleError::NoSuchRole);
                let names = names_in(&rule[5..]).ok_or(RuleError::Syntax)?;
                self.set_roles(names.into_iter().map(find).collect::<Result<_, _>>()?);
            }
            b"reset" => {
                self.no_password = false;
                self.passwords.clear();
                self.enabled = false;
                self.sanitizes = true;
                self.selectors = vec![Selector::new(terms)];
                self.set_roles(Vec::new());
                self.limits = Limits::default();
            }
            _ => match rule[0] {
                b'>' | b'#' => {
                    let password = parse_password(rule, b'>')?;
                    if !self.passwords.contains(&password) {
                        self.passwords.push(password);
                    }
                    self.no_password = false;
                }
                b'<' | b'!' => {
                    let password = parse_password(rule, b'<')?;
                    let known = self.passwords.iter().position(|known| *known == password);
                    self.passwords.remove(known.ok_or(RuleError::NoSuchPassword)?);
                }
                _ => apply_to_selectors(&mut self.selectors, rule, terms)?,
            },
        }
        Ok(())
    }
}

impl Role {
    /// Applies a rule: those of users' permissions, none of their credentials, roles and limits.
    pub(crate) fn apply(&mut self, rule: &[u8], terms: Terms<'_>) -> Result<(), RuleError> {
        apply_to_selectors(&mut self.selectors, rule, terms)
    }
}

/// Applies a rule about permissions to selectors of which the first is the root.
fn apply_to_selectors(selectors: &mut Vec<Selector>, rule: &[u8], terms: Terms<'_>) -> Result<(), RuleError> {
    match rule {
        b"" => {}
        [b'(', .., b')'] => selectors.push(parse_selector(rule, terms)?),
        _ if rule.eq_ignore_ascii_case(b"clearselectors") => selectors.truncate(1),
        _ => selectors[0].apply(rule, terms)?,
    }
    Ok(())
}

/// A password in plain text (after the sign `plain`), or its digest (after another sign).
fn parse_password(rule: &[u8], plain: u8) -> Result<Password, RuleError> {
    let text = &rule[1..];
    if rule[0] == plain {
        return Ok(braid_base::digest::sha256_hex(text));
    }
    let digits = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    Password::try_from(text).ok().filter(|digest| digest.iter().all(digits)).ok_or(RuleError::NoHash)
}

fn parse_selector(rule: &[u8], terms: Terms<'_>) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(terms);
    let inner = rule.get(1..rule.len() - 1).unwrap_or_default();
    for word in split_words(inner).map_err(|_| RuleError::Syntax)? {
        selector.apply(&word, terms)?;
    }
    Ok(selector)
}

impl Selector {
    /// Applies a rule.
    pub(crate) fn apply(&mut self, rule: &[u8], terms: Terms<'_>) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.patterns.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.patterns.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"alldbs" => self.databases = Databases::All,
            b"resetdbs" => self.databases = Databases::only(Vec::new()),
            [b'd', b'b', b'=', list @ ..] => self.databases = parse_databases(list)?,
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            _ => match rule {
                [b'~', pattern @ ..] => self.add_pattern(Access::BOTH, pattern)?,
                [b'%', ..] if self.all_keys => return Err(RuleError::AfterAllKeys),
                [b'%', rest @ ..] => {
                    let (access, pattern) = parse_access(rest)?;
                    self.add_pattern(access, pattern)?;
                }
                [b'&', channel @ ..] => self.add_channel(channel)?,
                [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                    let name = name.to_ascii_lowercase();
                    let (category, name) = *Category::ALL
                        .iter()
                        .find(|(_, known)| known.as_bytes() == name)
                        .ok_or(RuleError::Unknown)?;
                    self.note_rule(*sign == b'+', format!("@{name}").into_bytes());
                    self.set_category(category, *sign == b'+', terms.commands);
                }
                [b'-', name @ ..] => {
                    let command = find(terms.commands, name).ok_or(RuleError::Unknown)?;
                    self.set_command(command, false);
                    self.note_rule(false, command.full_name.clone().into_bytes());
                }
                [b'+', name @ ..] => self.allow(name, terms.commands)?,
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    fn allow(&mut self, name: &[u8], commands: &CommandTable) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let command = find(commands, name).ok_or(RuleError::Unknown)?;
            self.set_command(command, true);
            self.note_rule(true, command.full_name.clone().into_bytes());
            return Ok(());
        };
        let (container, argument) = (&name[..bar], &name[bar + 1..]);
        let command = find(commands, container).ok_or(RuleError::Unknown)?;
        if command.parent.is_some() {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.subcommands.is_empty() {
            log::warn!(
                "Deprecation warning: Allowing a first arg of an otherwise blocked command is a misuse of ACL and may get \
                 disabled in the future (offender: +{})",
                String::from_utf8_lossy(name)
            );
            self.add_first_argument(command.id, argument);
        } else {
            self.set_command(find(commands, name).ok_or(RuleError::Unknown)?, true);
        }
        self.note_rule(true, name.to_ascii_lowercase());
        Ok(())
    }

    fn add_pattern(&mut self, access: Access, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AfterAllKeys);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.patterns.iter_mut().find(|known| *known.text == *pattern) {
            Some(known) => known.access = known.access.and(access),
            None => self.patterns.push(KeyPattern::new(access, pattern)),
        }
        Ok(())
    }

    fn add_channel(&mut self, channel: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AfterAllChannels);
        }
        if has_spaces(channel) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| **known == *channel) {
            self.channels.push(channel.into());
        }
        Ok(())
    }
}

/// Parses `R~`, `W~` or `RW~` before a pattern, case-insensitively. As in stock servers, an empty
/// pattern may omit the `~`.
fn parse_access(text: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let mut access = Access::NONE;
    for (at, byte) in text.iter().enumerate() {
        let added = match byte.to_ascii_uppercase() {
            b'R' => Access::READ,
            b'W' => Access::WRITE,
            b'~' if access != Access::NONE => return Ok((access, &text[at + 1..])),
            _ => return Err(RuleError::Syntax),
        };
        if access.has(added) {
            return Err(RuleError::Syntax);
        }
        access = access.and(added);
    }
    if access == Access::NONE { Err(RuleError::Syntax) } else { Ok((access, b"")) }
}

/// The list of a `db=` rule.
fn parse_databases(list: &[u8]) -> Result<Databases, RuleError> {
    let number = |text: &[u8]| {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(RuleError::Syntax);
        }
        let number = parse_i64(text).and_then(|number| i32::try_from(number).ok());
        number.and_then(|number| u32::try_from(number).ok()).ok_or(RuleError::DatabaseRange)
    };
    list.split(|&byte| byte == b',').map(number).collect::<Result<_, _>>().map(Databases::only)
}

/// Finds a command or subcommand by its original name: renaming does not change permissions.
fn find<'c>(commands: &'c CommandTable, name: &[u8]) -> Option<&'c Command> {
    commands.all().iter().find(|command| command.full_name.as_bytes().eq_ignore_ascii_case(name))
}
