// SPDX-License-Identifier: BSD-3-Clause
//! CONFIG SET: several directives at once, all or nothing, with hooks that apply the new values.
//!
//! Order: names are checked, then each text is parsed and stored, then the hooks of the changed
//! directives run. The first failure restores all old values and reruns the hooks that had run.
//! Error texts are those of stock servers, including the error code.

use crate::config::{Config, Hook, REDACTED};
use crate::directive::{Directive, Mutability};
use crate::enums::ProtectedAction;
use crate::rows::{index, table};
use crate::text::NOT_UTF8;
use crate::value::{ParseContext, Value, format_value, lacks_effect, parse};
use std::fmt;
use std::sync::Arc;

/// Origin of a change; determines whether protected directives may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client on this machine (loopback or Unix socket).
    Local,
    /// Any other client.
    Remote,
}

/// A changed directive.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// The directive's main name.
    pub name: &'static str,
    /// The value before the change, as text.
    pub old: String,
    /// The value after the change, as text.
    pub new: String,
    /// The texts must not be printed; `Display` and `Debug` redact them.
    pub secret: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (old, new) = if self.secret { (REDACTED, REDACTED) } else { (&*self.old, &*self.new) };
        write!(formatter, "{} changed from '{old}' to '{new}'", self.name)
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A hook refused the new values.
struct HookFailure {
    /// The directive named in the error.
    name: &'static str,
    reason: String,
    /// The hooks that ran, ending with the failed one.
    ran: Vec<Arc<Hook>>,
}

/// A value to restore.
struct Undo {
    index: usize,
    old: Value,
}

impl Config {
    /// CONFIG SET for a client on this machine. See [`Config::set_from`].
    ///
    /// # Errors
    /// As [`Config::set_from`].
    pub fn set(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<Vec<Change>, String> {
        self.set_from(Origin::Local, pairs)
    }

    /// CONFIG SET: stores the values of all named directives, or none.
    ///
    /// Returns the changes.
    ///
    /// # Errors
    /// If a name is unknown, named twice, or may not be set by this client, a value is invalid, or
    /// a hook fails; no value is changed then. The error is the complete error reply without the
    /// leading hyphen, such as `ERR CONFIG SET failed (possibly related to argument 'port') - ...`.
    pub fn set_from(
        &self,
        origin: Origin,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Vec<Change>, String> {
        let _writing = self.writing.lock();
        let requests = self.check_names(origin, pairs)?;

        // Everything is parsed before any value is stored, so readers never see a refused
        // request.
        let mut parsed: Vec<(&Request, Value)> = Vec::with_capacity(requests.len());
        for (request, (_, text)) in requests.iter().zip(pairs) {
            let earlier = parsed.iter().rev().find(|(other, _)| other.index == request.index);
            let present = earlier.map_or_else(|| self.value(request.index), |(_, value)| value.clone());
            let directive = table().directives[request.index];
            let value = self
                .parse_set(directive, text.as_ref(), &present)
                .map_err(|reason| failed(request.name, &reason))?;
            parsed.push((request, value));
        }

        let mut undo: Vec<Undo> = Vec::with_capacity(parsed.len());
        let mut touched = Vec::new();
        for (request, new) in parsed {
            let old = self.value(request.index);
            if new != old || table().directives[request.index].always_applied {
                touched.push((request.index, request.name));
            }
            self.store(request.index, new);
            undo.push(Undo { index: request.index, old });
        }
        self.bump_version();

        if let Err(HookFailure { name, reason, ran }) = self.run_hooks(&touched) {
            log::warn!("Failed applying new configuration, related to {name}. Restoring previous settings.");
            self.put_back(undo);
            self.bump_version();
            for hook in ran {
                if let Err(reason) = (hook.run)(self) {
                    log::warn!("Failed applying restored configuration: {reason}");
                }
            }
            return Err(failed(name, &reason));
        }
        for Undo { index, .. } in &undo {
            let directive = table().directives[*index];
            if lacks_effect(directive, &self.value(*index)) {
                log::warn!("CONFIG SET {} has no effect in this version", directive.name);
            }
        }
        Ok(self.changes(undo))
    }

    /// Sets a directive on the server's own behalf (REPLICAOF, a lowered `maxclients`, ...):
    /// immutable and protected directives can be set, and no hook runs. `words` are the directive's
    /// arguments.
    ///
    /// # Errors
    /// If there is no such directive, or the value is invalid.
    pub fn assign(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let _writing = self.writing.lock();
        let index = table().find(name).ok_or_else(|| format!("unknown directive '{name}'"))?;
        let value = self.parse_words(index, words)?;
        self.store(index, value);
        self.bump_version();
        Ok(())
    }

    /// Parses a directive's arguments without storing anything.
    pub(crate) fn parse_words(&self, index: usize, words: &[&str]) -> Result<Value, String> {
        let directive = table().directives[index];
        let directory = self.text_at(index::DIR);
        parse(directive, words, &ParseContext { present: &self.value(index), directory: &directory })
    }

    /// Checks a request meant for all nodes of a cluster, as far as possible without changing
    /// anything. Returns the directives' main names and their texts.
    ///
    /// # Errors
    /// As [`Config::set_from`], and if a directive differs between nodes.
    pub fn check_for_cluster(
        &self,
        origin: Origin,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Vec<(&'static str, String)>, String> {
        let requests = self.check_names(origin, pairs)?;
        let one = |(request, (_, text)): (&Request, &(_, _))| {
            let (directive, text) = (table().directives[request.index], AsRef::<[u8]>::as_ref(text));
            if directive.of_one_node {
                return Err(failed(request.name, "it differs between nodes"));
            }
            self.parse_set(directive, text, &self.value(request.index))
                .map_err(|reason| failed(request.name, &reason))?;
            Ok((directive.name, String::from_utf8_lossy(text).into_owned()))
        };
        requests.iter().zip(pairs).map(one).collect()
    }

    /// Finds the rows and makes all checks that need no parsed value. Reports the first fault.
    fn check_names<'a>(
        &self,
        origin: Origin,
        pairs: &'a [(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Vec<Request>, String> {
        let mut requests: Vec<Request> = Vec::with_capacity(pairs.len());
        for (asked, text) in pairs {
            let asked: &'a [u8] = asked.as_ref();
            let asked_text = String::from_utf8_lossy(asked);
            let lower = asked_text.to_ascii_lowercase();
            let Some((&name, &index)) = table().by_name.get_key_value(lower.as_str()) else {
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{asked_text}'"
                ));
            };
            let directive = table().directives[index];
            // Redis 7 does not list the spelling of the processor lists with hyphens.
            let respelled = || name != directive.name && name.replace('-', "_") == directive.name;
            let unknown = directive.beyond_redis || respelled();
            let stays = || unknown && text.as_ref() == self.get_at(index).as_bytes();
            if directive.mutability == Mutability::Immutable && !stays() {
                return Err(failed(&asked_text, "can't set immutable config"));
            }
            if directive.protected && !self.allows_protected(origin) {
                return Err(failed(&asked_text, "can't set protected config"));
            }
            if directive.deny_loading && self.is_loading() {
                return Err("LOADING Redis is loading the dataset in memory".to_owned());
            }
            // As in stock servers, a directive and its alias may both occur; the later one wins.
            if requests.iter().any(|request| request.name == name) {
                return Err(failed(&asked_text, "duplicate parameter"));
            }
            requests.push(Request { name, index });
        }
        Ok(requests)
    }

    fn allows_protected(&self, origin: Origin) -> bool {
        match self.enable_protected_configs() {
            ProtectedAction::No => false,
            ProtectedAction::Yes => true,
            ProtectedAction::Local => origin == Origin::Local,
        }
    }

    /// Parses the single text of CONFIG SET; lists are split at blanks.
    fn parse_set(&self, directive: &Directive, text: &[u8], present: &Value) -> Result<Value, String> {
        let text = std::str::from_utf8(text).map_err(|_| NOT_UTF8)?;
        let words: Vec<&str> = match directive.takes_several() {
            true if text.is_empty() => Vec::new(),
            true => text.split(' ').collect(),
            false => vec![text],
        };
        let directory = self.text_at(index::DIR);
        parse(directive, &words, &ParseContext { present, directory: &directory })
    }

    fn put_back(&self, undo: Vec<Undo>) {
        // In reverse, because a directive may occur twice under two names.
        for step in undo.into_iter().rev() {
            self.store(step.index, step.old);
        }
    }

    /// Runs each hook of the changed rows once.
    fn run_hooks(&self, touched: &[(usize, &'static str)]) -> Result<(), HookFailure> {
        let hooks: Vec<Arc<Hook>> = self.hooks.lock().clone();
        let mut ran: Vec<Arc<Hook>> = Vec::new();
        for (index, name) in touched {
            for hook in hooks.iter().filter(|hook| hook.rows.contains(index)) {
                if ran.iter().any(|done| Arc::ptr_eq(done, hook)) {
                    continue;
                }
                ran.push(hook.clone());
                if let Err(reason) = (hook.run)(self) {
                    return Err(HookFailure { name, reason, ran });
                }
            }
        }
        Ok(())
    }

    fn changes(&self, undo: Vec<Undo>) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for Undo { index, old } in undo {
            let directive = table().directives[index];
            let (old, new) = (format_value(directive, &old), self.get_at(index));
            if old != new && !changes.iter().any(|change| change.name == directive.name) {
                changes.push(Change { name: directive.name, old, new, secret: directive.secret });
            }
        }
        changes
    }
}

/// A name in CONFIG SET.
struct Request {
    /// The main name or alias, as in the table.
    name: &'static str,
    index: usize,
}

fn failed(name: &str, reason: &str) -> String {
    if reason.is_empty() {
        return format!("ERR CONFIG SET failed (possibly related to argument '{name}')");
    }
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}
