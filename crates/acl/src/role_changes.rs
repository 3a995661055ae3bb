// SPDX-License-Identifier: BSD-3-Clause
//! Changes of roles, and what is asked about them.

use std::sync::Arc;

use braid_base::digest::sha256;
use braid_spec::CommandError;

use crate::acl::{Acl, Server};
use crate::role::{Role, check_name};
use crate::rules::{RuleError, merge_selectors};
use crate::selector::describe_selectors;
use crate::user::User;

impl Acl {
    /// All roles, by name.
    pub fn roles(&self) -> Vec<Arc<Role>> {
        self.roles.read().values().cloned().collect()
    }

    /// A role by name.
    pub fn role(&self, name: &[u8]) -> Option<Arc<Role>> {
        self.roles.read().get(name).cloned()
    }

    /// The users who hold a role, by name.
    pub fn holders(&self, name: &[u8]) -> Vec<Arc<User>> {
        self.users().into_iter().filter(|user| user.roles().any(|role| role.name() == name)).collect()
    }

    /// Creates or changes a role: applies all rules or, after an error, none. Its users have the
    /// new permissions from their next command on.
    ///
    /// # Errors
    /// If the name or one of the rules is invalid. The error is the line to reply with.
    pub fn set_role(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<(), CommandError> {
        let _changing = self.changing.lock();
        let role = self.changed_role(server, name, rules, false)?;
        self.put_role(server, role);
        Ok(())
    }

    /// Replaces a role, or creates it, by rules that apply to a new one.
    ///
    /// # Errors
    /// As [`Acl::set_role`].
    pub fn replace_role(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<(), CommandError> {
        let _changing = self.changing.lock();
        let role = self.changed_role(server, name, rules, true)?;
        self.put_role(server, role);
        Ok(())
    }

    /// The rules of a role as they would be after [`Acl::set_role`]. Changes nothing.
    ///
    /// # Errors
    /// As [`Acl::set_role`].
    pub fn role_rules_after(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<Vec<u8>, CommandError> {
        self.changed_role(server, name, rules, false).map(|role| describe_selectors(&role.selectors))
    }

    fn changed_role(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
        anew: bool,
    ) -> Result<Role, CommandError> {
        check_name(name).map_err(|why| CommandError::text(format!("ERR {why}")))?;
        let rules = merge_selectors(rules).map_err(RuleError::unmatched)?;
        let mut role = match self.role(name).filter(|_| !anew) {
            Some(role) => (*role).clone(),
            None => Role::new(name, server.terms()),
        };
        for rule in &rules {
            role.apply(rule, server.terms()).map_err(|error| error.in_modifier("SETROLE", rule))?;
        }
        Ok(role)
    }

    /// Activates a changed role. The caller holds `changing`.
    pub(crate) fn put_role(&self, server: Server<'_>, role: Role) {
        let role = Arc::new(role);
        let holders = self.holders(role.name());
        self.roles.write().insert(role.name().into(), Arc::clone(&role));
        for user in &holders {
            let mut user = (**user).clone();
            user.renew_role(&role);
            self.put_user(server, user);
        }
        holders.iter().for_each(|user| self.disconnect_listeners(server, user.name()));
    }

    /// Deletes roles, and returns the number deleted.
    ///
    /// # Errors
    /// If a user holds one of them; none is deleted then.
    pub fn delete_roles(&self, names: &[&[u8]]) -> Result<usize, CommandError> {
        let _changing = self.changing.lock();
        for name in names {
            if !self.holders(name).is_empty() {
                return Err(CommandError::quoting(
                    "ERR Role '",
                    name,
                    "' is assigned to one or more users. Remove it from them first.",
                ));
            }
        }
        let mut roles = self.roles.write();
        Ok(names.iter().filter(|name| roles.remove(**name).is_some()).count())
    }

    /// A fingerprint of all users and roles, whatever their order.
    pub fn digest(&self) -> [u8; 32] {
        let mut all = [0; 32];
        let mut mix = |line: &[u8]| {
            all.iter_mut().zip(sha256(line)).for_each(|(all, one)| *all ^= one);
        };
        // As Valkey 9.2 does it: a user's line without the first word.
        self.users().iter().for_each(|user| mix(&user.describe()[b"user ".len()..]));
        self.roles().iter().for_each(|role| mix(&role.describe()));
        all
    }
}
