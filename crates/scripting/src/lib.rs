// SPDX-License-Identifier: BSD-3-Clause
//! Lua 5.1 in a sandbox, as Redis 7.2 gives it to scripts: states, the `redis` table, libraries, conversions.
//!
//! Flow: a thread that executes commands owns a [`LuaVm`] or two. A script is compiled by
//! [`LuaVm::compile`] and run by [`LuaVm::run`]; the commands that it calls go to the [`Host`],
//! their replies come back as Lua values, and what the script returns is written as a reply. Which
//! commands there are, who may run them and under which locks is the host's business.
//!
//! [`Scripts`] has what all threads know: the text of scripts (`cache.rs`), libraries of functions
//! (`function_libraries.rs`), what a script's text proves of its keys (`key_analysis.rs`), and each
//! thread's VMs (`thread_vms.rs`).
//!
//! Lua's C interface is only touched in `lua.rs`, `lua_vm.rs` and `interrupt.rs` (and by `pcall` in
//! `base.rs`); everything else is safe code.

mod api;
mod base;
pub mod cache;
mod convert;
mod flags;
mod function;
pub mod function_libraries;
mod hash;
mod host;
mod interrupt;
pub mod key_analysis;
mod libraries;
mod lua;
mod lua_vm;
mod memory;
mod outcome;
mod random;
mod register;
pub mod scripts;
mod shared;
pub mod speculation;
#[cfg(test)]
mod tests;
pub mod thread_vms;
mod watch;

pub use flags::{Library, ScriptFlags, parse_library, parse_shebang};
pub use function::{Function, Registered};
pub use host::{Called, Host, Level, Verdict};
pub use lua_vm::{LuaVm, Purpose};
pub use outcome::{Ended, Returned};
pub use register::{INVALID_NAME, is_valid_name};
pub use scripts::Scripts;
