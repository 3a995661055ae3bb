// SPDX-License-Identifier: BSD-3-Clause
//! Thin wrapper of Lua's raw interface. Only this file, `lua_vm.rs` and `interrupt.rs` call it.
//!
//! Lua reports errors by jumping out of the C function that it called, past all stack frames
//! above it. No Rust value with a destructor may be in between. This is ensured as follows:
//! - Bodies of functions for Lua ([`Body`]) are Rust functions that return a [`Raise`] instead of
//!   jumping. [`enter`] runs one, and jumps only once all of its values are dropped, from a frame
//!   without values.
//! - Calls that bodies make here do not jump: table access is raw (no metamethods), stack space
//!   is requested and checked, and memory cannot run out while a body runs, because [`enter`]
//!   lifts the limit (`memory.rs`).
//!
//! A string read from the stack is borrowed from Lua: it stays valid while it is reachable (on the
//! stack, for example); Lua does not move strings.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;

use mlua_sys as sys;
pub(crate) use mlua_sys::lua_State;

use crate::memory::Memory;
use crate::shared::Shared;

unsafe extern "C-unwind" {
    // Added to Lua by `build/patches.rs`.
    fn braid_lua_seal(l: *mut lua_State, index: c_int, sealed: c_int);
    fn braid_lua_is_sealed(l: *mut lua_State, index: c_int) -> c_int;
    /// Raises the value on top as an error, without calling a handler: a looping handler could
    /// not be ended.
    pub(crate) fn braid_lua_unwind(l: *mut lua_State) -> !;
}

/// The registry.
pub(crate) const REGISTRY: c_int = sys::LUA_REGISTRYINDEX;
/// The table of globals.
pub(crate) const GLOBALS: c_int = sys::LUA_GLOBALSINDEX;

/// Types of Lua values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LuaType {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Other,
}

/// Calls a Lua function that cannot jump under the conditions at the head of this file.
macro_rules! raw {
    ($call:expr) => {
        // SAFETY: the state is alive while a `Lua` exists, and the call cannot jump; see the head
        // of this file.
        unsafe { $call }
    };
}

/// A Lua state or coroutine, during a call.
#[derive(Clone, Copy)]
pub(crate) struct Lua<'l>(*mut lua_State, PhantomData<&'l lua_State>);

impl<'l> Lua<'l> {
    /// # Safety
    /// The state lives as long as the result is used, on this thread only.
    pub(crate) unsafe fn new(state: *mut lua_State) -> Lua<'l> {
        Lua(state, PhantomData)
    }

    pub(crate) fn state(self) -> *mut lua_State {
        self.0
    }

    pub(crate) fn top(self) -> c_int {
        raw!(sys::lua_gettop(self.0))
    }

    pub(crate) fn set_top(self, top: c_int) {
        raw!(sys::lua_settop(self.0, top));
    }

    pub(crate) fn pop(self, count: c_int) {
        self.set_top(-count - 1);
    }

    /// Fails if the run's memory limit leaves fewer than this many bytes. Memory that a function
    /// allocates outside Lua is not counted; data that it passes to Lua is counted, but not
    /// limited.
    #[inline]
    pub(crate) fn check_memory(self, bytes: usize) -> Result<(), Raise> {
        let mut memory = std::ptr::null_mut();
        raw!(sys::lua_getallocf(self.0, &mut memory));
        // SAFETY: the allocator's data is the VM's memory counter (`LuaVm::new`), which
        // outlives the state.
        let memory = unsafe { &*memory.cast::<Memory>() };
        if memory.has_room(bytes) { Ok(()) } else { Err(Raise::text("not enough memory")) }
    }

    /// Makes room for `count` more values. False if that fails: the stack is limited to several
    /// thousand.
    #[must_use]
    pub(crate) fn has_room(self, count: c_int) -> bool {
        raw!(sys::lua_checkstack(self.0, count)) != 0
    }

    pub(crate) fn kind(self, index: c_int) -> LuaType {
        match raw!(sys::lua_type(self.0, index)) {
            sys::LUA_TNONE => LuaType::None,
            sys::LUA_TNIL => LuaType::Nil,
            sys::LUA_TBOOLEAN => LuaType::Boolean,
            sys::LUA_TLIGHTUSERDATA => LuaType::LightUserdata,
            sys::LUA_TNUMBER => LuaType::Number,
            sys::LUA_TSTRING => LuaType::String,
            sys::LUA_TTABLE => LuaType::Table,
            sys::LUA_TFUNCTION => LuaType::Function,
            _ => LuaType::Other,
        }
    }

    /// The name of a value's type.
    pub(crate) fn kind_name(self, index: c_int) -> &'static str {
        let name = raw!(CStr::from_ptr(sys::lua_typename(self.0, sys::lua_type(self.0, index))));
        name.to_str().unwrap_or("value")
    }

    /// The bytes of a string; `None` for other values, including numbers.
    pub(crate) fn string(self, index: c_int) -> Option<&'l [u8]> {
        if self.kind(index) != LuaType::String {
            return None;
        }
        let mut len = 0;
        raw!({
            let text = sys::lua_tolstring(self.0, index, &mut len);
            Some(std::slice::from_raw_parts(text.cast::<u8>(), len))
        })
    }

    /// The bytes of a string or number. Converts a number on the stack to a string, so it must not
    /// be used on a key of a table that is being walked.
    pub(crate) fn text(self, index: c_int) -> Option<&'l [u8]> {
        if self.kind(index) == LuaType::Number {
            let mut len = 0;
            raw!(sys::lua_tolstring(self.0, index, &mut len));
        }
        self.string(index)
    }

    /// A number; `None` for other values.
    pub(crate) fn number(self, index: c_int) -> Option<f64> {
        (self.kind(index) == LuaType::Number).then(|| raw!(sys::lua_tonumber(self.0, index)))
    }

    /// A number, or a string that Lua can convert to one.
    pub(crate) fn convertible_number(self, index: c_int) -> Option<f64> {
        (raw!(sys::lua_isnumber(self.0, index)) != 0).then(|| raw!(sys::lua_tonumber(self.0, index)))
    }

    pub(crate) fn boolean(self, index: c_int) -> bool {
        raw!(sys::lua_toboolean(self.0, index)) != 0
    }

    pub(crate) fn light_userdata(self, index: c_int) -> *mut c_void {
        raw!(sys::lua_touserdata(self.0, index))
    }

    pub(crate) fn push_nil(self) {
        raw!(sys::lua_pushnil(self.0));
    }

    pub(crate) fn push_number(self, number: f64) {
        raw!(sys::lua_pushnumber(self.0, number));
    }

    pub(crate) fn push_boolean(self, value: bool) {
        raw!(sys::lua_pushboolean(self.0, c_int::from(value)));
    }

    pub(crate) fn push_string(self, bytes: &[u8]) {
        raw!(sys::lua_pushlstring_(self.0, bytes.as_ptr().cast(), bytes.len()));
    }

    pub(crate) fn push_null(self) {
        raw!(sys::lua_pushlightuserdata(self.0, std::ptr::null_mut()));
    }

    pub(crate) fn push_copy(self, index: c_int) {
        raw!(sys::lua_pushvalue(self.0, index));
    }

    /// Moves the top value to `index`, shifting up the values from there on.
    pub(crate) fn insert(self, index: c_int) {
        raw!(sys::lua_insert(self.0, index));
    }

    pub(crate) fn push_table(self, array: usize, fields: usize) {
        let bounded = |count: usize| count.min(1 << 20) as c_int;
        raw!(sys::lua_createtable(self.0, bounded(array), bounded(fields)));
    }

    /// Replaces the key on top with `table[key]`; no metamethods.
    pub(crate) fn raw_get(self, index: c_int) {
        raw!(sys::lua_rawget_(self.0, index));
    }

    pub(crate) fn raw_get_index(self, index: c_int, n: c_int) {
        raw!(sys::lua_rawgeti_(self.0, index, n));
    }

    /// Pushes `table[name]`; no metamethods. `index` must be absolute or a pseudo-index.
    pub(crate) fn raw_get_field(self, index: c_int, name: &str) {
        self.push_string(name.as_bytes());
        self.raw_get(index);
    }

    /// Sets `table[key] = value` for the value on top and the key below it, and pops both. The
    /// table must not be sealed, and the key must be neither nil nor NaN.
    pub(crate) fn raw_set(self, index: c_int) {
        raw!(sys::lua_rawset(self.0, index));
    }

    pub(crate) fn raw_set_index(self, index: c_int, n: c_int) {
        raw!(sys::lua_rawseti_(self.0, index, n));
    }

    /// Sets `table[name] = value` for the value on top, and pops it. `index` must be absolute or
    /// a pseudo-index, and the table must not be sealed.
    pub(crate) fn raw_set_field(self, index: c_int, name: &str) {
        self.push_string(name.as_bytes());
        self.insert(-2);
        self.raw_set(index);
    }

    /// Replaces the key on top with the next pair of a table. The key must come from a previous
    /// call, and no field may have been added since.
    pub(crate) fn next(self, index: c_int) -> bool {
        raw!(sys::lua_next(self.0, index)) != 0
    }

    /// Makes a table read-only, or writable again.
    pub(crate) fn seal(self, index: c_int, sealed: bool) {
        raw!(braid_lua_seal(self.0, index, c_int::from(sealed)));
    }

    pub(crate) fn is_sealed(self, index: c_int) -> bool {
        raw!(braid_lua_is_sealed(self.0, index)) != 0
    }

    pub(crate) fn set_metatable(self, index: c_int) {
        raw!(sys::lua_setmetatable(self.0, index));
    }

    pub(crate) fn push_metatable(self, index: c_int) -> bool {
        raw!(sys::lua_getmetatable(self.0, index)) != 0
    }

    /// Pushes `code:line: ` of the caller of the running C function.
    pub(crate) fn push_where(self) {
        raw!(sys::luaL_where(self.0, 1));
    }

    pub(crate) fn concat(self, count: c_int) {
        raw!(sys::lua_concat(self.0, count));
    }

    /// Pushes a function for Lua; the pointer to the VM's shared part is its only upvalue.
    pub(crate) fn push_function(self, function: sys::lua_CFunction, shared: *mut Shared) {
        raw!({
            sys::lua_pushlightuserdata(self.0, shared.cast());
            sys::lua_pushcclosure(self.0, function, 1);
        });
    }

    /// Stores the value on top in the registry and pops it.
    pub(crate) fn keep(self) -> c_int {
        raw!(sys::luaL_ref(self.0, REGISTRY))
    }

    pub(crate) fn release(self, kept: c_int) {
        raw!(sys::luaL_unref(self.0, REGISTRY, kept));
    }

    /// Source and line of the running function `level` calls up. C functions have none.
    pub(crate) fn position(self, level: c_int) -> Option<Position<'l>> {
        raw!({
            let mut debug = std::mem::zeroed::<sys::lua_Debug>();
            if sys::lua_getstack(self.0, level, &mut debug) == 0 {
                return None;
            }
            sys::lua_getinfo(self.0, c"nSl".as_ptr(), &mut debug);
            Some(Position {
                is_native: *debug.what.cast::<u8>() == b'C',
                name: (!debug.name.is_null()).then(|| CStr::from_ptr(debug.name).to_bytes()),
                source: CStr::from_ptr(debug.source).to_bytes(),
                line: debug.currentline,
            })
        })
    }

    /// Pushes local variable `index` (from 1) of the Lua function `level` calls up, and returns its
    /// name.
    pub(crate) fn push_local(self, level: c_int, index: c_int) -> Option<&'l [u8]> {
        raw!({
            let mut debug = std::mem::zeroed::<sys::lua_Debug>();
            if sys::lua_getstack(self.0, level, &mut debug) == 0 {
                return None;
            }
            let name = sys::lua_getlocal(self.0, &debug, index);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes())
        })
    }

    /// The address of a table, function or the like.
    pub(crate) fn address(self, index: c_int) -> *const c_void {
        raw!(sys::lua_topointer(self.0, index))
    }

    /// An argument that must be a number.
    pub(crate) fn check_number(self, index: c_int) -> Result<f64, Raise> {
        self.convertible_number(index).ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// An argument that must be an integer; truncated as in C.
    pub(crate) fn check_integer(self, index: c_int) -> Result<i64, Raise> {
        self.check_number(index).map(|number| number as i64)
    }

    /// An argument that must be a string or a number.
    pub(crate) fn check_text(self, index: c_int) -> Result<&'l [u8], Raise> {
        self.text(index).ok_or_else(|| self.wrong_type(index, "string"))
    }

    pub(crate) fn wrong_type(self, index: c_int, expected: &str) -> Raise {
        let found = if self.kind(index) == LuaType::None { "no value" } else { self.kind_name(index) };
        Raise::argument(index, format!("{expected} expected, got {found}"))
    }
}

/// See [`Lua::position`].
pub(crate) struct Position<'l> {
    pub is_native: bool,
    /// The function's name at its call, if there is one.
    pub name: Option<&'l [u8]>,
    pub source: &'l [u8],
    pub line: c_int,
}

impl Position<'_> {
    /// True in a script's own code.
    pub(crate) fn is_script(&self) -> bool {
        self.source == b"@user_script"
    }
}

/// Why a function for Lua raises an error.
#[derive(Debug)]
pub(crate) enum Raise {
    /// A text; the caller's position is put before it, as in Lua's own errors.
    Text(Vec<u8>),
    /// A wrong argument; the function's name is added to the text.
    Argument(c_int, Vec<u8>),
    /// The value on top of the stack.
    Value,
    /// The value on top of the stack, bypassing all handlers of the script.
    Unwind,
}

impl Raise {
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Raise {
        Raise::Text(text.into())
    }

    pub(crate) fn argument(index: c_int, text: impl Into<Vec<u8>>) -> Raise {
        Raise::Argument(index, text.into())
    }
}

/// The body of a function for Lua: takes arguments from the stack, pushes results and returns
/// their number.
pub(crate) type Body = for<'l> fn(Lua<'l>, &mut Shared) -> Result<c_int, Raise>;

/// Outcome of a body, after its values are dropped.
enum Ended {
    Returned(c_int),
    Raised,
    Unwound,
    WrongArgument(c_int),
}

/// Runs a body, and jumps if it raises an error.
///
/// # Safety
/// Called by Lua, with the VM's shared part as the first upvalue and not otherwise borrowed.
#[inline]
pub(crate) unsafe fn enter(state: *mut lua_State, body: Body) -> c_int {
    // SAFETY: guaranteed by the caller: `push_function` put the pointer there, and the VM outlives
    // its state.
    let shared = unsafe { &mut *sys::lua_touserdata(state, sys::lua_upvalueindex(1)).cast::<Shared>() };
    let limit = shared.memory.lift();
    let ended = run(state, shared, body);
    shared.memory.restore(limit);
    match ended {
        Ended::Returned(count) => count,
        // SAFETY: no value with a destructor is left in this frame or its callers up to Lua.
        Ended::Raised => unsafe { sys::lua_error(state) },
        // SAFETY: as above.
        Ended::Unwound => unsafe { braid_lua_unwind(state) },
        // SAFETY: as above; the text is on the stack.
        Ended::WrongArgument(index) => unsafe {
            sys::luaL_argerror(state, index, sys::lua_tolstring(state, -1, std::ptr::null_mut()))
        },
    }
}

#[inline]
fn run(state: *mut lua_State, shared: &mut Shared, body: Body) -> Ended {
    // SAFETY: the state is executing this call.
    let lua = unsafe { Lua::new(state) };
    match body(lua, shared) {
        Ok(count) => Ended::Returned(count),
        Err(raise) => prepare(lua, raise),
    }
}

#[cold]
fn prepare(lua: Lua<'_>, raise: Raise) -> Ended {
    match raise {
        Raise::Value => return Ended::Raised,
        Raise::Unwind => return Ended::Unwound,
        _ => {}
    }
    if !lua.has_room(4) {
        // The arguments are no longer needed.
        lua.set_top(0);
    }
    match raise {
        Raise::Text(text) => {
            lua.push_where();
            lua.push_string(&text);
            lua.concat(2);
            Ended::Raised
        }
        Raise::Argument(index, text) => {
            lua.push_string(&text);
            Ended::WrongArgument(index)
        }
        Raise::Value | Raise::Unwind => Ended::Raised,
    }
}

/// Wraps a [`Body`] as a function that Lua can call.
macro_rules! function {
    ($body:path) => {{
        unsafe extern "C-unwind" fn function(state: *mut $crate::lua::lua_State) -> std::ffi::c_int {
            // SAFETY: called by Lua; functions are only pushed with the shared part as their
            // upvalue.
            unsafe { $crate::lua::enter(state, $body) }
        }
        function as unsafe extern "C-unwind" fn(*mut $crate::lua::lua_State) -> std::ffi::c_int
    }};
}
pub(crate) use function;
