// SPDX-License-Identifier: BSD-3-Clause
//! A user: its credentials and permissions.
//!
//! Users are immutable once shared: a change creates a new [`User`] with the same [`Identity`].

use std::sync::Arc;

use braid_base::digest::{constant_time_eq, sha256_hex};

use braid_clients::identity::DEFAULT_USER;
use braid_spec::{Command, UsedDatabases};

use crate::databases::InDatabase;
use crate::denied::Denied;
use crate::limits::Limits;
use crate::role::Role;
use crate::selector::{Access, FoundKeys, Selector, describe_selectors};
use crate::terms::Terms;
pub use braid_clients::Identity;

/// SHA-256 of a password, in hexadecimal digits.
pub(crate) type Password = [u8; 64];

/// A version of a user.
#[derive(Clone, Debug)]
pub struct User {
    pub identity: Arc<Identity>,
    /// Log-in is allowed.
    pub enabled: bool,
    /// Any password is accepted.
    pub no_password: bool,
    /// RESTORE payloads of this user are checked deeply.
    pub sanitizes: bool,
    pub(crate) passwords: Vec<Password>,
    /// The root selector is first.
    pub(crate) selectors: Vec<Selector>,
    /// What these allow is allowed as well.
    roles: Vec<Arc<Role>>,
    pub(crate) limits: Limits,
    /// Everything is allowed.
    unrestricted: bool,
    /// Number of databases.
    databases: u32,
}

impl User {
    /// A new user without permissions and credentials.
    pub(crate) fn new(identity: Arc<Identity>, terms: Terms<'_>) -> User {
        User {
            identity,
            enabled: false,
            no_password: false,
            sanitizes: true,
            passwords: Vec::new(),
            selectors: vec![Selector::new(terms)],
            roles: Vec::new(),
            limits: Limits::default(),
            unrestricted: false,
            databases: terms.databases,
        }
    }

    /// The default user of a new server: all permissions and no password.
    pub(crate) fn default_user(terms: Terms<'_>) -> User {
        let identity = Identity::new(0, DEFAULT_USER);
        let mut user = User::new(Arc::new(identity), terms);
        let root = &mut user.selectors[0];
        root.set_all_commands(true);
        (root.all_keys, root.all_channels) = (true, true);
        (user.enabled, user.no_password) = (true, true);
        user.update_derived();
        user
    }

    /// Updates derived fields after rules were applied.
    pub(crate) fn update_derived(&mut self) {
        let unrestricted = self.granted().any(Selector::is_unrestricted);
        self.unrestricted = unrestricted;
    }

    /// All selectors that allow something: its own, then those of its roles.
    fn granted(&self) -> impl Iterator<Item = &Selector> {
        self.selectors.iter().chain(self.roles.iter().flat_map(|role| role.selectors()))
    }

    /// Replaces the roles; one that is named twice is held once.
    pub(crate) fn set_roles(&mut self, roles: Vec<&Arc<Role>>) {
        self.roles.clear();
        for role in roles {
            if !self.roles.iter().any(|held| held.name() == role.name()) {
                self.roles.push(Arc::clone(role));
            }
        }
    }

    /// Takes the new version of a role that it holds.
    pub(crate) fn renew_role(&mut self, role: &Arc<Role>) {
        for held in self.roles.iter_mut().filter(|held| held.name() == role.name()) {
            *held = Arc::clone(role);
        }
    }

    /// The roles that it holds.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = &Role> {
        self.roles.iter().map(|role| &**role)
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.identity.name
    }

    /// True if everything is allowed.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// True if everything is allowed, in any amount.
    pub fn is_unlimited(&self) -> bool {
        self.unrestricted && self.limits.is_none()
    }

    /// What its clients may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// True if unauthenticated connections run as this user.
    pub fn is_open(&self) -> bool {
        self.no_password && self.enabled
    }

    /// Replaces all passwords; an empty one means that no password is needed.
    pub(crate) fn set_password(&mut self, password: &[u8]) {
        self.no_password = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(sha256_hex(password));
        }
    }

    /// Checks a password. Takes the same time whichever password matches, or if none does.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        let digest = sha256_hex(password);
        let mut known = false;
        for password in &self.passwords {
            known |= constant_time_eq(password, &digest);
        }
        self.enabled && (self.no_password || known)
    }

    /// SHA-256 digests of the passwords.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.passwords.iter().map(|password| &password[..])
    }

    /// The root selector.
    pub fn root(&self) -> &Selector {
        &self.selectors[0]
    }

    /// All selectors, the root selector first.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Whether the command may use all keys of database 0 that begin like this: read them, and
    /// change them if it writes.
    pub fn may_use_prefix(&self, command: &Command, prefix: &[u8]) -> bool {
        self.granted().any(|selector| selector.allows_prefix(command, prefix, 0))
    }

    /// Whether a key of a database is one that the user may change, by whatever command.
    pub fn may_change(&self, key: &[u8], database: u32) -> bool {
        self.granted().any(|selector| selector.may_change(key, database))
    }

    /// Names of the flags.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.enabled, "on"),
            (!self.enabled, "off"),
            (self.no_password, "nopass"),
            (!self.sanitizes, "skip-sanitize-payload"),
            (self.sanitizes, "sanitize-payload"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word)
    }

    fn place(&self, database: u32) -> InDatabase {
        InDatabase { current: database, count: self.databases }
    }

    /// Checks a request of valid arity in a database.
    ///
    /// # Errors
    /// If no selector allows the command, all its keys and channels, and its databases. With
    /// several selectors, the error is the one that occurs latest in the order of checks.
    pub fn check(&self, command: &Command, args: &[&[u8]], database: u32) -> Result<(), Denied> {
        if self.unrestricted {
            return Ok(());
        }
        let mut found = FoundKeys::default();
        let mut reason = Denied::Database(0);
        for selector in self.granted() {
            match selector.check(command, args, self.place(database), &mut found) {
                Ok(()) => return Ok(()),
                Err(denied) => reason = reason.max(denied),
            }
        }
        Err(reason)
    }

    /// True if the request has a single key and is certainly allowed, by a quick check. Requests of
    /// users with limits never are: they have to be counted.
    #[inline]
    pub fn allows_quickly(&self, command: &Command, args: &[&[u8]], database: u32) -> bool {
        let spec = command.spec;
        let is_current = matches!(spec.databases, UsedDatabases::Current);
        let is_simple = command.simple_keys.is_single() && spec.exact_key_flags.is_none() && is_current;
        if !is_simple || !self.limits.is_none() {
            return false;
        }
        let (key, needed) = (args[1], Access::needed(spec.keys[0].flags));
        let allows = |selector: &Selector| selector.allows_key(command, key, needed, database);
        self.selectors.iter().any(allows) || self.roles.iter().any(|role| role.selectors().iter().any(allows))
    }

    /// Checks a request whose keys are not known in advance: a selector must allow reading all
    /// keys.
    pub fn check_reading_all(&self, command: &Command, args: &[&[u8]], database: u32) -> bool {
        let mut found = FoundKeys::default();
        self.unrestricted
            || self.granted().any(|selector| {
                selector.reads_all_keys()
                    && selector.check(command, args, self.place(database), &mut found).is_ok()
            })
    }

    /// True if a channel or a channel pattern may be used.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.granted().any(|selector| selector.may_use_channel(channel, is_pattern))
    }

    /// True if all channels may be used.
    pub(crate) fn may_use_all_channels(&self) -> bool {
        self.granted().any(|selector| selector.all_channels)
    }

    /// The name and all rules, as in ACL LIST.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = [b"user ", self.name()].concat();
        for flag in self.flags() {
            text.push(b' ');
            text.extend_from_slice(flag.as_bytes());
        }
        for password in &self.passwords {
            text.extend_from_slice(b" #");
            text.extend_from_slice(password);
        }
        for rule in self.limits.rules() {
            text.push(b' ');
            text.extend_from_slice(rule.as_bytes());
        }
        text.push(b' ');
        text.extend_from_slice(&describe_selectors(&self.selectors));
        if !self.roles.is_empty() {
            let names: Vec<&[u8]> = self.roles().map(Role::name).collect();
            text.extend_from_slice(b" role=");
            text.extend_from_slice(&names.join(&b','));
        }
        text
    }
}
