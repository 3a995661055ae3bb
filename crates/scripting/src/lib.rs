// SPDX-License-Identifier: BSD-3-Clause
//! Scripting: Lua 5.1 in a sandbox, as in Redis 7.2: VMs, the `redis` table, libraries,
//! conversions.
//!
//! Flow: a thread that executes commands owns up to two [`LuaVm`]s. A script is compiled by
//! [`LuaVm::compile`] and run by [`LuaVm::run`]; its commands go to the [`Host`], their replies
//! come back as Lua values, and the script's return value is written as a reply. The host decides
//! which commands exist, their permissions and locks.
//!
//! [`Scripts`] holds the state shared by all threads: the text of scripts (`cache.rs`), function
//! libraries (`function_libraries.rs`), the key analysis (`key_analysis.rs`), and each thread's
//! VMs (`thread_vms.rs`).
//!
//! A script can be run under a [`Debugger`].
//!
//! Only `lua.rs`, `lua_vm.rs`, `interrupt.rs` and `debugger/hook.rs` (and `pcall` in `base.rs`)
//! call Lua's C interface.

mod api;
mod base;
pub mod cache;
mod convert;
mod debugger;
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

pub use debugger::{Console, Debugger, Received};
pub use flags::{Library, ScriptFlags, parse_library, parse_shebang};
pub use function::{Function, Registered};
pub use host::{Called, Host, Level, Verdict};
pub use lua_vm::{LuaVm, Purpose};
pub use outcome::{Ended, Returned};
pub use register::{INVALID_NAME, is_valid_name};
pub use scripts::Scripts;
