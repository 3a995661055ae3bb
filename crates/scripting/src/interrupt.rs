// SPDX-License-Identifier: BSD-3-Clause
//! Interruption of a running script: the hook that periodically asks the host whether to continue,
//! and the error that ends the run.
//!
//! Lua calls the hook between instructions; native functions that can take long call [`poll`]. A
//! long single instruction is interrupted by the watch (`watch.rs`).

use std::ffi::c_int;
use std::time::Instant;

use mlua_sys as sys;

use crate::host::Verdict;
use crate::lua::{Lua, REGISTRY, Raise, braid_lua_unwind, lua_State};
use crate::shared::Shared;

/// Instructions between two calls of the host.
pub(crate) const INSTRUCTIONS: c_int = 100_000;
/// Registry key of the pointer to the shared part; Lua's own references start at 1.
const SHARED_AT: c_int = -1;
/// The error of a script that was killed.
pub(crate) const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// Makes the shared part available to the hook.
///
/// # Safety
/// The shared part outlives the state, and only functions that the state runs borrow it meanwhile.
pub(crate) unsafe fn register(lua: Lua<'_>, shared: *mut Shared) {
    // SAFETY: the state is alive while a `Lua` exists. A pointer is pushed, and taken off again.
    unsafe {
        sys::lua_pushlightuserdata(lua.state(), shared.cast());
        sys::lua_rawseti_(lua.state(), REGISTRY, SHARED_AT);
    }
}

/// Restores the usual interval of host calls.
///
/// # Safety
/// [`register`] has been called for this state.
pub(crate) unsafe fn set_hook(lua: Lua<'_>) {
    // SAFETY: the hook only uses the pointer in the registry, set by `register`.
    unsafe { sys::lua_sethook(lua.state(), Some(count_hook), sys::LUA_MASKCOUNT, INSTRUCTIONS) };
}

/// Asks the host whether to continue, and ends the script if it must not.
unsafe extern "C-unwind" fn count_hook(state: *mut lua_State, _: *mut sys::lua_Debug) {
    // SAFETY: called by Lua between two instructions, so no function borrows the shared part.
    let shared = unsafe { &mut *shared_of(state) };
    if is_over(state, shared) {
        // SAFETY: no value with a destructor is in this frame; the error is on top. No handler
        // runs: hooks are disabled during this one, so a looping handler could never be ended.
        unsafe { braid_lua_unwind(state) };
    }
}

/// The shared part.
///
/// # Safety
/// The state is running, and [`register`] has been called for it.
pub(crate) unsafe fn shared_of(state: *mut lua_State) -> *mut Shared {
    // SAFETY: the registry has held the pointer since `register`.
    unsafe {
        sys::lua_rawgeti_(state, REGISTRY, SHARED_AT);
        let shared = sys::lua_touserdata(state, -1).cast::<Shared>();
        sys::lua_settop(state, -2);
        shared
    }
}

/// Asks the host whether to continue. True if the script must end; the error is then on top of the
/// stack.
pub(crate) fn is_over(state: *mut lua_State, shared: &mut Shared) -> bool {
    shared.memory.watch.take();
    ends(state, shared)
}

/// Asks the host if a call is due, and ends the run if it must not continue. For native functions
/// that can take long.
#[inline]
pub(crate) fn poll(lua: Lua<'_>, shared: &mut Shared) -> Result<(), Raise> {
    if shared.memory.watch.take() && ends(lua.state(), shared) { Err(Raise::Unwind) } else { Ok(()) }
}

/// True if the script must end; the error value is then on top of the stack.
fn ends(state: *mut lua_State, shared: &mut Shared) -> bool {
    if shared.verdict == Verdict::Continue {
        let limit = shared.memory.lift();
        let late = shared.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        shared.verdict = match shared.host() {
            _ if late => Verdict::Kill,
            Some(host) => host.interrupt(),
            None => Verdict::Continue,
        };
        shared.memory.restore(limit);
    }
    if shared.verdict == Verdict::Continue {
        return false;
    }
    end_run(state, shared)
}

/// [`end_run`] for another reason than the host's verdict.
pub(crate) fn end_run_with(state: *mut lua_State, shared: &mut Shared, error: &'static str) -> bool {
    (shared.verdict, shared.ended_by) = (Verdict::Kill, Some(error));
    end_run(state, shared)
}

/// Pushes the error that ends a run, and makes sure that no `pcall` in the script can continue
/// it.
pub(crate) fn end_run(state: *mut lua_State, shared: &mut Shared) -> bool {
    let limit = shared.memory.lift();
    // SAFETY: the state is running. From now on the hook runs on every line, in this coroutine
    // and its creator's.
    let lua = unsafe {
        sys::lua_sethook(state, Some(count_hook), sys::LUA_MASKLINE | sys::LUA_MASKCOUNT, 1);
        Lua::new(state)
    };
    if !lua.has_room(6) {
        lua.set_top(0);
    }
    let timeout = shared.deadline.map(|_| "ERR FUNCTION LOAD timeout");
    let text = shared.ended_by.or(timeout).unwrap_or(KILLED);
    lua.push_table(0, 3);
    lua.push_string(text.as_bytes());
    lua.raw_set_field(-3, "err");
    if let Some(place) =
        lua.position(0).and_then(|place| if place.is_native { lua.position(1) } else { Some(place) })
    {
        lua.push_string(place.source);
        lua.raw_set_field(-3, "source");
        lua.push_number(f64::from(place.line));
        lua.raw_set_field(-3, "line");
    }
    shared.memory.restore(limit);
    true
}
