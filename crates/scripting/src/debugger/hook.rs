// SPDX-License-Identifier: BSD-3-Clause
//! The hook that Lua calls before each line while a script is debugged, and the evaluation of the
//! developer's code.
//!
//! `unsafe`: the hook and the code that it evaluates use the VM's shared part. It is borrowed only
//! while Lua does not run.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mlua_sys as sys;

use super::commands::{self, Evaluated, Next};
use crate::host::Verdict;
use crate::interrupt;
use crate::lua::{Lua, braid_lua_unwind, lua_State};
use crate::shared::Shared;

/// Makes Lua call the debugger's hook.
///
/// # Safety
/// [`interrupt::register`] has been called for this state.
pub(crate) unsafe fn set_hook(lua: Lua<'_>) {
    let events = sys::LUA_MASKLINE | sys::LUA_MASKCOUNT;
    // SAFETY: the hook only uses the pointer in the registry, set by `register`.
    unsafe { sys::lua_sethook(lua.state(), Some(hook), events, interrupt::INSTRUCTIONS) };
}

unsafe extern "C-unwind" fn hook(state: *mut lua_State, event: *mut sys::lua_Debug) {
    // SAFETY: called by Lua between two instructions, with the event; `register` was called.
    let (shared, is_due) = unsafe { (interrupt::shared_of(state), (*event).event == sys::LUA_HOOKCOUNT) };
    // SAFETY: no function that Lua called is running, so nothing else borrows the shared part.
    let is_over = is_due && unsafe { interrupt::is_over(state, &mut *shared) };
    // SAFETY: as above.
    if is_over || unsafe { stops(state, shared, is_due) } {
        // SAFETY: no value with a destructor is in this frame; the error is on top.
        unsafe { braid_lua_unwind(state) };
    }
}

/// Lets the developer act if execution stops here. True if the script must end; the error is then
/// on top of the stack.
///
/// # Safety
/// The state is running, and nothing else borrows the shared part.
unsafe fn stops(state: *mut lua_State, shared: *mut Shared, is_due: bool) -> bool {
    // SAFETY: guaranteed by the caller.
    let (lua, limit) = unsafe { (Lua::new(state), (*shared).memory.lift()) };
    // SAFETY: guaranteed by the caller; no borrow is left when Lua runs in `evaluate`.
    let ended = unsafe {
        let mut next = commands::begin(lua, &mut *shared, is_due);
        while let Ok(Next::Evaluate(code, timeout)) = next {
            let evaluated = evaluate(lua, shared, &code, timeout);
            next = commands::go_on(lua, &mut *shared, evaluated);
        }
        next
    };
    // SAFETY: guaranteed by the caller.
    unsafe { (*shared).memory.restore(limit) };
    match ended {
        Ok(_) => false,
        // SAFETY: guaranteed by the caller.
        Err(error) => unsafe { interrupt::end_run_with(state, &mut *shared, error) },
    }
}

/// Compiles and runs code in a coroutine, for at most `timeout`. The hook is not called during
/// another hook, but is called in a coroutine: so the code can be interrupted.
///
/// # Safety
/// As [`stops`]; the memory limit is lifted.
unsafe fn evaluate(lua: Lua<'_>, shared: *mut Shared, code: &[u8], timeout: Duration) -> Evaluated {
    let load = |state: *mut lua_State, code: &[u8]| -> c_int {
        // SAFETY: loading is protected by Lua itself.
        unsafe { sys::luaL_loadbuffer(state, code.as_ptr().cast(), code.len(), c"@ldb_eval".as_ptr()) }
    };
    // SAFETY: a hook has room for some values; memory is not limited. The coroutine stays alive on
    // the stack until `pop`.
    let coroutine = unsafe { Lua::new(sys::lua_newthread(lua.state())) };
    // SAFETY: registered for the VM, whose registry the coroutine shares.
    unsafe { interrupt::set_hook(coroutine) };
    let mut status = load(coroutine.state(), &[b"return ", code].concat());
    if status != sys::LUA_OK {
        coroutine.set_top(0);
        status = load(coroutine.state(), code);
    }
    let deadline = Instant::now() + timeout;
    let mut is_late = false;
    if status == sys::LUA_OK {
        // SAFETY: a protected call of the function on top; the shared part is not borrowed
        // meanwhile.
        unsafe {
            (*shared).deadline = Some(deadline);
            let limit = (*shared).memory.run_limit();
            (*shared).memory.restore(limit);
            status = sys::lua_pcall(coroutine.state(), 0, 1, 0);
            (*shared).memory.lift();
            (*shared).deadline = None;
            is_late = (*shared).verdict == Verdict::Kill && Instant::now() >= deadline;
            if is_late {
                // Only the coroutine has been ended.
                (*shared).verdict = Verdict::Continue;
            }
        }
    }
    let evaluated = match is_late {
        true => Evaluated::Late,
        false => Evaluated::of(coroutine, status != sys::LUA_OK),
    };
    lua.pop(1);
    evaluated
}
