// SPDX-License-Identifier: BSD-3-Clause
//! How this program was built, and what a build with assertions can be told to do wrong.

use std::sync::LazyLock;

/// The name of the cargo profile: `release` is built quickly, `dist` runs fastest, `dev` has
/// assertions.
pub const PROFILE: &str = env!("BRAID_PROFILE");

/// Whether the locks of keys do nothing, to prove that the linearizability and replica tests can
/// fail. Only in builds with assertions, if the environment has `BRAID_NO_LOCKS`.
#[inline]
pub fn are_locks_off() -> bool {
    static OFF: LazyLock<bool> = LazyLock::new(|| std::env::var_os("BRAID_NO_LOCKS").is_some());
    cfg!(debug_assertions) && *OFF
}
