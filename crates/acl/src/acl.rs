// SPDX-License-Identifier: BSD-3-Clause
//! All users, and changes to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::Attention;
use braid_clients::identity::DEFAULT_USER;
use braid_clients::{Identity, Reason, Registry, client_flags};
use braid_config::{AclPubsubDefault, Config};
use braid_notify::Hub;
use braid_spec::{CommandError, CommandTable};
use parking_lot::{Mutex, RwLock};

use crate::log::AclLog;
use crate::role::Roles;
use crate::rules::{RuleError, has_spaces, merge_selectors};
use crate::terms::Terms;
use crate::user::User;

/// The parts of the server that are affected by a change of users.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    pub commands: &'a CommandTable,
    pub config: &'a Config,
    pub attention: &'a Attention,
    pub clients: &'a Registry,
    pub hub: &'a Hub,
}

impl<'a> Server<'a> {
    /// The current context of rules.
    pub fn terms(self) -> Terms<'a> {
        let all_channels = self.config.acl_pubsub_default() == AclPubsubDefault::AllChannels;
        Terms { commands: self.commands, databases: databases(self.config), all_channels }
    }
}

fn databases(config: &Config) -> u32 {
    if config.cluster_enabled() { config.cluster_databases() } else { config.databases() }
}

/// All users.
pub struct Acl {
    users: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    pub(crate) roles: RwLock<Roles>,
    /// Serializes changes of users and roles.
    pub(crate) changing: Mutex<()>,
    next_number: AtomicU64,
    pub log: AclLog,
    /// Failed log-ins by HTTP, which event loops do not count.
    denied_by_http: AtomicU64,
}

impl Acl {
    /// An ACL with only the default user, who has the configured password.
    pub fn new(config: &Config, commands: &CommandTable) -> Acl {
        let terms = Terms { commands, databases: databases(config), all_channels: true };
        let mut user = User::default_user(terms);
        user.set_password(config.requirepass().as_bytes());
        Acl {
            users: RwLock::new(BTreeMap::from([(DEFAULT_USER.into(), Arc::new(user))])),
            roles: RwLock::default(),
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

    /// The default user, who always exists.
    pub fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT_USER).expect("the default user cannot be deleted")
    }

    /// The current version of a user, if it still exists.
    pub fn current(&self, identity: &Identity) -> Option<Arc<User>> {
        self.user(&identity.name).filter(|user| *user.identity == *identity)
    }

    /// An anonymous user with all permissions.
    pub fn unrestricted_user(&self, terms: Terms<'_>) -> Arc<User> {
        Arc::new(User::default_user(terms))
    }

    /// All users, by name.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    /// Counts a failed log-in by HTTP.
    pub fn count_denied_by_http(&self, name: &[u8]) {
        self.denied_by_http.fetch_add(1, Relaxed);
        if let Some(user) = self.user(name) {
            user.identity.count_denied(Reason::Authentication);
        }
    }

    /// Resets the counters of denials that are not per thread (CONFIG RESETSTAT).
    pub fn reset_statistics(&self) {
        self.denied_by_http.store(0, Relaxed);
        self.users().iter().for_each(|user| user.identity.reset_denied());
    }

    /// Failed log-ins by HTTP.
    pub fn denied_by_http(&self) -> u64 {
        self.denied_by_http.load(Relaxed)
    }

    /// Authenticates by name and password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // The time taken must not reveal whether the user exists.
        let known = self.user(name);
        let user = known.clone().unwrap_or_else(|| self.default_user());
        let accepted = user.accepts(password);
        known.filter(|_| accepted)
    }

    pub(crate) fn identity(&self, name: &[u8]) -> Arc<Identity> {
        Arc::new(Identity::new(self.next_number.fetch_add(1, Relaxed), name))
    }
}

impl Acl {
    /// Creates or changes a user: applies all rules or, after an error, none.
    ///
    /// # Errors
    /// If the name has spaces or one of the rules is invalid. The error is the line to reply with.
    pub fn set_user(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<(), CommandError> {
        let _changing = self.changing.lock();
        let user = self.changed_user(server, name, rules)?;
        self.put_user(server, user);
        self.disconnect_listeners(server, name);
        Ok(())
    }

    /// The rules of a user as they would be after [`Acl::set_user`]. Changes nothing.
    ///
    /// # Errors
    /// As [`Acl::set_user`].
    pub fn rules_after(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<Vec<u8>, CommandError> {
        let mut user = self.changed_user(server, name, rules)?;
        user.update_derived();
        // Skips `user NAME `.
        Ok(user.describe().split_off(name.len() + 6))
    }

    fn changed_user(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<User, CommandError> {
        if has_spaces(name) {
            return Err(CommandError::text("ERR Usernames can't contain spaces or null characters"));
        }
        let rules = merge_selectors(rules).map_err(RuleError::unmatched)?;
        let mut user = match self.user(name) {
            Some(user) => (*user).clone(),
            None => User::new(self.identity(name), server.terms()),
        };
        let roles = self.roles.read();
        for rule in &rules {
            user.apply(rule, server.terms(), &roles).map_err(|error| error.in_modifier("SETUSER", rule))?;
        }
        Ok(user)
    }

    /// Closes a user's connections that are subscribed to channels the user may no longer use.
    pub(crate) fn disconnect_listeners(&self, server: Server<'_>, name: &[u8]) {
        let Some(user) = self.user(name).filter(|user| !user.may_use_all_channels()) else { return };
        for record in server.clients.all().iter().filter(|record| record.has(client_flags::PUBSUB)) {
            let is_theirs = **record.user.lock() == *user.identity;
            let allowed = |name: &[u8], is_pattern| user.may_use_channel(name, is_pattern);
            if is_theirs && server.hub.listens_to_other(record.id, allowed) {
                server.clients.disconnect(record);
                // Requests of the client that are already received are not executed.
                server.attention.next_generation();
            }
        }
    }

    /// Activates a changed user. The caller holds `changing`.
    pub(crate) fn put_user(&self, server: Server<'_>, mut user: User) {
        user.update_derived();
        user.identity.count_work(user.limits().has_time());
        self.users.write().insert(user.identity.name.clone(), Arc::new(user));
        server.attention.next_generation();
    }

    /// Sets the default user's password (`requirepass`).
    pub fn set_default_password(&self, server: Server<'_>, password: &[u8]) {
        let _changing = self.changing.lock();
        let mut user = (*self.default_user()).clone();
        user.set_password(password);
        self.put_user(server, user);
    }

    /// Deletes users, closes their connections and returns the number deleted. The caller closes
    /// the asking connection, whose next command finds no user for it.
    pub fn delete_users(&self, server: Server<'_>, names: &[&[u8]], asking: u64) -> usize {
        let _changing = self.changing.lock();
        let deleted: Vec<Arc<User>> = {
            let mut users = self.users.write();
            names.iter().filter_map(|name| users.remove(*name)).collect()
        };
        server.attention.next_generation();
        disconnect_users(server, &deleted, asking);
        deleted.len()
    }

    /// Replaces all users and roles. Users that existed before keep their identity, so their
    /// connections continue with the new rules; those of other users are closed, except the asking
    /// one, and so are subscriptions to channels that are no longer allowed. The caller holds
    /// `changing`.
    pub(crate) fn replace_users(
        &self,
        server: Server<'_>,
        mut users: BTreeMap<Box<[u8]>, Arc<User>>,
        roles: Roles,
        asking: u64,
    ) {
        users.entry(DEFAULT_USER.into()).or_insert_with(|| Arc::new(User::default_user(server.terms())));
        let mut gone = Vec::new();
        for old in self.users() {
            match users.get_mut(old.name()) {
                Some(new) => Arc::make_mut(new).identity = Arc::clone(&old.identity),
                None => gone.push(old),
            }
        }
        let names: Vec<Box<[u8]>> = users.keys().cloned().collect();
        users.values().for_each(|user| user.identity.count_work(user.limits().has_time()));
        *self.roles.write() = roles;
        *self.users.write() = users;
        server.attention.next_generation();
        disconnect_users(server, &gone, asking);
        names.iter().for_each(|name| self.disconnect_listeners(server, name));
    }
}

fn disconnect_users(server: Server<'_>, users: &[Arc<User>], asking: u64) {
    if users.is_empty() {
        return;
    }
    for record in server.clients.all().iter().filter(|record| record.id != asking) {
        let identity = Arc::clone(&record.user.lock());
        if users.iter().any(|user| *user.identity == *identity) {
            server.clients.disconnect(record);
        }
    }
}
