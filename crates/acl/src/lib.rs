// SPDX-License-Identifier: BSD-3-Clause
//! Users and permissions (ACL).
//!
//! A session holds an immutable [`User`](user::User). Every change of users increments the
//! generation in the attention word, and a session that sees a new generation looks up its user
//! again before its next command. For a user with all permissions that comparison is the whole
//! check, and it also covers pauses and the memory limit.
//!
//! Flow: [`rules`] are applied to a copy of a [`user`] or a [`role`] with its [`selector`]s;
//! denials go to the [`log`]; [`mod@file`] reads and writes users as text. Sessions and commands
//! belong to higher crates.

#![forbid(unsafe_code)]

mod acl;
mod databases;
mod denied;
pub mod file;
pub mod limits;
pub mod log;
pub mod role;
mod role_changes;
pub mod rules;
pub mod selector;
mod terms;
pub mod user;

pub use acl::{Acl, Server};
pub use braid_clients::identity::DEFAULT_USER;
pub use denied::{Denied, refusal, refusal_in_transaction};
pub use terms::Terms;

#[cfg(test)]
mod tests;
