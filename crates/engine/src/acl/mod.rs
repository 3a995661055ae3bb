// SPDX-License-Identifier: BSD-3-Clause
//! Users and their rights.
//!
//! A session holds its [`User`], which is never changed but replaced: every change moves the generation that stands in the attention
//! word (`attention.rs`), and a session that finds another one than it knows looks its user up again before its next command. For a user
//! who may do everything that comparison is the whole check, and it is the one that asks for a pause or a memory limit anyway.
//!
//! Flow: rules (`rules.rs`) are applied to a copy of a user (`user.rs`) and its selectors (`selector.rs`); what is refused goes
//! into the log (`log.rs`); `file.rs` reads and writes users as text. The commands are in another crate.

pub mod file;
pub mod log;
pub mod rules;
pub mod selector;
pub mod user;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use braid_config::{AclPubsubDefault, Config};
use parking_lot::{Mutex, RwLock};

use crate::engine::Engine;
use crate::session::Session;
use braid_clients::client_flags;
use braid_clients::describe::describe;
use braid_spec::CommandError;
use braid_spec::{Command, CommandTable};
use log::{AclLog, Event, Origin, Reason};
use rules::{RuleError, Terms, has_spaces, merge_selectors};
use user::{Identity, User};

/// The user of connections that have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// What of a request is not allowed, in the order in which it is checked; with the index of the argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Denied {
    Command,
    Key(usize),
    Channel(usize),
}

impl Denied {
    /// What the user is told, without a code.
    pub fn text(self, user: &User, command: &Command) -> Vec<u8> {
        match self {
            Denied::Command => {
                let name = command.full_name.as_bytes();
                [b"User ", user.name(), b" has no permissions to run the '", name, b"' command"].concat()
            }
            Denied::Key(_) => b"No permissions to access a key".to_vec(),
            Denied::Channel(_) => b"No permissions to access a channel".to_vec(),
        }
    }

    /// The same for those who may know the key or channel.
    pub fn detailed_text(self, user: &User, command: &Command, args: &[&[u8]]) -> Vec<u8> {
        let (index, kind) = match self {
            Denied::Command => return self.text(user, command),
            Denied::Key(index) => (index, &b"' key"[..]),
            Denied::Channel(index) => (index, &b"' channel"[..]),
        };
        [b"User ", user.name(), b" has no permissions to access the '", args[index], kind].concat()
    }
}

/// All users.
pub struct Acl {
    users: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    /// Held while users change, so that no change is lost.
    changing: Mutex<()>,
    next_number: AtomicU64,
    pub log: AclLog,
    /// Wrong names or passwords that were not sent by a client of a loop, but by HTTP.
    denied_by_http: AtomicU64,
}

impl Acl {
    /// The default user, with the configured password.
    pub(crate) fn new(config: &Config, commands: &CommandTable) -> Acl {
        let mut user = User::default_user(Terms { commands, all_channels: true });
        user.set_password(config.requirepass().as_bytes());
        Acl {
            users: RwLock::new(BTreeMap::from([(DEFAULT_USER.into(), Arc::new(user))])),
            changing: Mutex::new(()),
            next_number: AtomicU64::new(1),
            log: AclLog::default(),
            denied_by_http: AtomicU64::new(0),
        }
    }

    /// A user by name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// The default user. There always is one.
    pub fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT_USER).expect("the default user cannot be deleted")
    }

    /// A user as it is now, if it still exists.
    pub fn current(&self, identity: &Identity) -> Option<Arc<User>> {
        self.user(&identity.name).filter(|user| *user.identity == *identity)
    }

    /// A user who is nobody in particular and may do everything.
    pub(crate) fn unrestricted_user(&self, engine: &Engine) -> Arc<User> {
        Arc::new(User::default_user(engine.acl_terms()))
    }

    /// All users in the order of their names.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    /// Counts a wrong password that came by HTTP.
    pub fn count_denied_by_http(&self, name: &[u8]) {
        self.denied_by_http.fetch_add(1, Relaxed);
        if let Some(user) = self.user(name) {
            user.identity.count_denied(Reason::Authentication);
        }
    }

    /// Sets all counters of refusals that are not a thread's to zero (CONFIG RESETSTAT).
    pub fn reset_statistics(&self) {
        self.denied_by_http.store(0, Relaxed);
        self.users().iter().for_each(|user| user.identity.reset_denied());
    }

    /// The user that a name and a password belong to.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // Whether there is such a user must not be told by the time it takes.
        let known = self.user(name);
        let user = known.clone().unwrap_or_else(|| self.default_user());
        let accepted = user.accepts(password);
        known.filter(|_| accepted)
    }

    fn identity(&self, name: &[u8]) -> Arc<Identity> {
        Arc::new(Identity::new(self.next_number.fetch_add(1, Relaxed), name))
    }
}

impl Engine {
    /// What rules are understood by at present.
    pub fn acl_terms(&self) -> Terms<'_> {
        let all_channels = self.config.acl_pubsub_default() == AclPubsubDefault::AllChannels;
        Terms { commands: &self.commands, all_channels }
    }

    /// Creates a user or changes one; all rules or, after an error, none. The error is the line to reply with.
    pub fn set_user(&self, name: &[u8], rules: &[impl AsRef<[u8]>]) -> Result<(), CommandError> {
        if has_spaces(name) {
            return Err(CommandError::text("ERR Usernames can't contain spaces or null characters"));
        }
        let rules = merge_selectors(rules).map_err(|open| {
            CommandError::quoting("ERR Unmatched parenthesis in acl selector starting at '", &open, "'.")
        })?;
        let _changing = self.acl.changing.lock();
        let mut user = match self.acl.user(name) {
            Some(user) => (*user).clone(),
            None => User::new(self.acl.identity(name), self.acl_terms()),
        };
        for rule in &rules {
            user.apply(rule, self.acl_terms()).map_err(|error| {
                let reason = format!("': {error}");
                CommandError::quoting("ERR Error in ACL SETUSER modifier '", rule, &reason)
            })?;
        }
        self.put_user(user);
        self.disconnect_listeners(name);
        Ok(())
    }

    /// Closes the connections of a user that listen to what it may not listen to any more.
    fn disconnect_listeners(&self, name: &[u8]) {
        let Some(user) = self.acl.user(name).filter(|user| !user.may_use_all_channels()) else { return };
        for record in self.clients.all().iter().filter(|record| record.has(client_flags::PUBSUB)) {
            let is_theirs = **record.user.lock() == *user.identity;
            let allowed = |name: &[u8], is_pattern| user.may_use_channel(name, is_pattern);
            if is_theirs && self.hub.listens_to_other(record.id, allowed) {
                self.disconnect(record);
            }
        }
    }

    /// Puts a changed user in force. The caller holds `changing`.
    fn put_user(&self, mut user: User) {
        user.settle();
        self.acl.users.write().insert(user.identity.name.clone(), Arc::new(user));
        self.attention.next_generation();
    }

    /// Gives the default user another password (`requirepass`).
    pub(crate) fn set_default_password(&self, password: &[u8]) {
        let _changing = self.acl.changing.lock();
        let mut user = (*self.acl.default_user()).clone();
        user.set_password(password);
        self.put_user(user);
    }

    /// Deletes users and closes the connections that have logged in as them; returns how many there were. The connection that asks is
    /// left for the caller to close: its next command finds it without a user.
    pub fn delete_users(&self, names: &[&[u8]], asking: u64) -> usize {
        let _changing = self.acl.changing.lock();
        let deleted: Vec<Arc<User>> = {
            let mut users = self.acl.users.write();
            names.iter().filter_map(|name| users.remove(*name)).collect()
        };
        self.attention.next_generation();
        self.disconnect_users(&deleted, asking);
        deleted.len()
    }

    /// Replaces all users by others, of whom the default user keeps its identity. Connections of all others are closed, but for the one
    /// that asks. The caller holds `changing`.
    fn replace_users(&self, mut users: BTreeMap<Box<[u8]>, Arc<User>>, asking: u64) {
        let mut default = match users.remove(DEFAULT_USER) {
            Some(user) => (*user).clone(),
            None => User::default_user(self.acl_terms()),
        };
        default.identity = Arc::clone(&self.acl.default_user().identity);
        users.insert(DEFAULT_USER.into(), Arc::new(default));
        let old = std::mem::replace(&mut *self.acl.users.write(), users);
        self.attention.next_generation();
        let gone: Vec<Arc<User>> = old.into_values().filter(|user| user.name() != DEFAULT_USER).collect();
        self.disconnect_users(&gone, asking);
    }

    fn disconnect_users(&self, users: &[Arc<User>], asking: u64) {
        if users.is_empty() {
            return;
        }
        for record in self.clients.all().iter().filter(|record| record.id != asking) {
            let identity = Arc::clone(&record.user.lock());
            if users.iter().any(|user| *user.identity == *identity) {
                self.disconnect(record);
            }
        }
    }

    /// Logs a session in, if name and password are right; notes it if not.
    pub fn log_in(
        &self,
        session: &mut Session,
        current: (&Command, &[&[u8]]),
        name: &[u8],
        password: &[u8],
    ) -> Result<(), CommandError> {
        let generation = self.attention.generation();
        match self.acl.authenticate(name, password) {
            Some(user) => {
                session.take_user(user, true, generation);
                Ok(())
            }
            None => {
                let origin = if session.in_multi() { Origin::Transaction } else { Origin::TopLevel };
                let object = current.1.first().map_or(&b""[..], |arg| arg).to_vec();
                self.note_refusal(session, current, origin, Reason::Authentication, object, name.to_vec());
                Err(CommandError::text("WRONGPASS invalid username-password pair or user is disabled."))
            }
        }
    }

    /// A session becomes what a new connection is.
    pub fn log_out(&self, session: &mut Session) {
        let generation = self.attention.generation();
        let user = self.acl.default_user();
        let authenticated = user.is_open();
        session.take_user(user, authenticated, generation);
    }

    /// Looks a session's user up again if users have changed. One that has been deleted leaves a session that may do nothing.
    #[inline]
    pub(crate) fn refresh_user(&self, session: &mut Session) {
        if self.attention.generation() != session.generation {
            self.refresh_user_now(session);
        }
    }

    #[cold]
    fn refresh_user_now(&self, session: &mut Session) {
        let generation = self.attention.generation();
        match self.acl.current(&session.user.identity) {
            Some(user) => session.take_user(user, session.authenticated, generation),
            None => {
                session.take_user(self.acl.default_user(), false, generation);
                session.close();
            }
        }
    }

    /// True if a session has to log in before it may do anything.
    #[inline]
    pub fn must_log_in(&self, session: &Session) -> bool {
        // The session's user is the default user then.
        !session.authenticated && !session.user.is_open()
    }

    /// Checks a request of a session; what is refused is noted. `current` is the command that the client has sent: a script's, if the
    /// request comes out of a script.
    #[inline]
    pub(crate) fn check_access(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        origin: Origin,
        current: (&Command, &[&[u8]]),
    ) -> Result<(), Denied> {
        self.allows(session, command, args)
            .inspect_err(|denied| self.note_denied(session, command, args, origin, current, *denied))
    }

    /// As [`Engine::check_access`], but nothing is noted.
    #[inline]
    pub(crate) fn allows(&self, session: &Session, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        if session.user.is_unrestricted() { Ok(()) } else { session.user.check(command, args) }
    }

    /// Notes what was refused. The arguments are those of [`Engine::check_access`].
    #[cold]
    pub(crate) fn note_denied(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        origin: Origin,
        current: (&Command, &[&[u8]]),
        denied: Denied,
    ) {
        let object = match denied {
            Denied::Command => command.full_name.clone().into_bytes(),
            Denied::Key(index) | Denied::Channel(index) => args[index].to_vec(),
        };
        let name = session.user.name().to_vec();
        self.note_refusal(session, current, origin, Reason::from(denied), object, name);
    }

    /// Counts and logs a refusal.
    #[cold]
    fn note_refusal(
        &self,
        session: &Session,
        current: (&Command, &[&[u8]]),
        origin: Origin,
        reason: Reason,
        object: Vec<u8>,
        user: Vec<u8>,
    ) {
        let stats = &self.threads[session.record.io_thread.load(Relaxed) as usize];
        match reason {
            Reason::Command => stats.denied_commands.add(1),
            Reason::Key => stats.denied_keys.add(1),
            Reason::Channel => stats.denied_channels.add(1),
            Reason::Authentication => stats.denied_logins.add(1),
        }
        if reason != Reason::Authentication {
            session.user.identity.count_denied(reason);
        } else if let Some(user) = self.acl.user(&user) {
            user.identity.count_denied(reason);
        }
        let now = braid_base::clock::unix_ms();
        let mut client = Vec::with_capacity(256);
        describe(&mut client, self, &session.record, now, Some(current));
        client.truncate(client.trim_ascii_end().len());
        let event = Event { reason, origin, object, user, client };
        self.acl.log.push(event, now, self.config.acllog_max_len());
    }
}

impl Engine {
    /// Wrong names or passwords so far, from wherever.
    pub fn denied_logins(&self) -> u64 {
        braid_telemetry::stats::total(&self.threads, |thread| thread.denied_logins.get())
            + self.acl.denied_by_http.load(Relaxed)
    }
}

/// The error for a request that is not allowed.
pub(crate) fn refusal(denied: Denied, user: &User, command: &Command) -> CommandError {
    CommandError::Bytes([b"NOPERM ", &denied.text(user, command)[..]].concat())
}

/// The error for a queued command that has been forbidden since.
pub(crate) fn refusal_in_transaction(denied: Denied) -> CommandError {
    let reason = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    CommandError::text(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
         no longer allowed for the following reason: {reason}"
    ))
}

/// A fault in a user's definition in a configuration file: the rule, and what is wrong with it.
pub type LineFault = (Vec<u8>, RuleError);

#[cfg(test)]
mod tests;
