// SPDX-License-Identifier: BSD-3-Clause
//! Users and their rights.
//!
//! A session holds its [`User`](user::User), which is never changed but replaced: every change
//! moves the generation in the attention word, and a session that finds another generation than it
//! knows looks its user up again before its next command. For a user who may do everything that
//! comparison is the whole check, and it is the one that asks for a pause or a memory limit anyway.
//!
//! Flow: [`rules`] are applied to a copy of a [`user`] and its [`selector`]s; refusals go into the
//! [`log`]; [`file`] reads and writes users as text. Sessions and commands are above this crate.

#![forbid(unsafe_code)]

mod acl;
mod denied;
pub mod file;
pub mod log;
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
