// SPDX-License-Identifier: BSD-3-Clause
//! Roles: named permissions that any number of users hold (`role=NAME`), as in Valkey 9.2.
//!
//! A user who holds a role may do what its own selectors allow or those of the role. Users hold the
//! roles themselves, so a check looks nothing up; a change of a role puts it anew into its users.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::selector::{Selector, describe_selectors};
use crate::terms::Terms;

/// All roles, by name.
pub(crate) type Roles = BTreeMap<Box<[u8]>, Arc<Role>>;

/// A version of a role.
#[derive(Clone, Debug)]
pub struct Role {
    name: Box<[u8]>,
    /// The root selector is first.
    pub(crate) selectors: Vec<Selector>,
}

impl Role {
    /// A new role, which allows nothing but what a new user may.
    pub(crate) fn new(name: &[u8], terms: Terms<'_>) -> Role {
        Role { name: name.into(), selectors: vec![Selector::new(terms)] }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// All selectors, the root selector first.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The name and all rules, as in ACL LIST.
    pub fn describe(&self) -> Vec<u8> {
        [b"role ", &*self.name, b" ", &describe_selectors(&self.selectors)].concat()
    }
}

/// Checks that a role's name survives files and lists of names.
///
/// # Errors
/// Why it does not, without an error code.
pub(crate) fn check_name(name: &[u8]) -> Result<(), &'static str> {
    let has = |signs: &[u8]| name.iter().any(|byte| signs.contains(byte));
    if name.is_empty() {
        Err("Role names can't be empty")
    } else if !name.iter().all(u8::is_ascii_graphic) {
        Err("Role names must consist of printable ASCII characters without spaces")
    } else if has(b",") {
        Err("Role names can't contain commas")
    } else if has(b"\"'\\") {
        Err("Role names can't contain quotes or backslashes")
    } else {
        Ok(())
    }
}

/// The names in the rule `role=a,b`; `None` without a name or with an empty one.
pub(crate) fn names_in(list: &[u8]) -> Option<Vec<&[u8]>> {
    let names: Vec<&[u8]> = list.split(|&byte| byte == b',').collect();
    names.iter().all(|name| !name.is_empty()).then_some(names)
}
