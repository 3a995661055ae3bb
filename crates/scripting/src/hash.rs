// SPDX-License-Identifier: BSD-3-Clause
//! Hash of Lua's strings: SipHash-1-3 of all bytes, with a random key.
//!
//! Lua interns each string in a table by this hash, and tables use it for their keys. Scripts
//! process clients' data, so clients must not be able to construct collisions.

use std::ffi::c_char;
use std::sync::LazyLock;

use braid_base::hash::KeyHasher;

/// All VMs share one key. Strings do not move between VMs, but a key per VM would have to be
/// looked up for each string.
static HASHER: LazyLock<KeyHasher> = LazyLock::new(KeyHasher::random);

/// Called by the patched `luaS_newlstr`.
///
/// # Safety
/// `text` points to `len` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn braid_lua_hash(text: *const c_char, len: usize) -> u32 {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    HASHER.hash(text) as u32
}
