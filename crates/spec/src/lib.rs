// SPDX-License-Identifier: BSD-3-Clause
//! Command specifications: the single place that states a command's properties.
//!
//! A row ([`Spec`]) states a command's arity, flags, keys and documentation. Key positions, lock
//! sets, ACL categories, COMMAND's replies and the compatibility page are derived from rows. The
//! type of a command's body is a parameter, so this crate knows neither the engine nor the
//! keyspace.

#![forbid(unsafe_code)]

pub mod absent;
pub mod error;
pub mod keys;
pub mod spec;
pub mod syntax;
pub mod table;

pub use error::{CommandError, CommandResult};
pub use spec::{
    Arity, Begin, Behavior, Category, ChannelAccess, ChannelSpec, Find, Flags, Group, KeyFlags, KeySpec,
    Scope, Spec, UsedDatabases,
};
pub use table::{Command, CommandTable, Reach};
