// SPDX-License-Identifier: BSD-3-Clause
//! Changes to Lua's own functions: `pcall`, `math.random`, locations in errors, undefined globals.

use std::ffi::c_int;

use mlua_sys as sys;

use crate::lua::{GLOBALS, Lua, LuaType, Raise, function, lua_State};
use crate::random::Random;
use crate::shared::Shared;

pub(crate) fn install(lua: Lua<'_>, shared: *mut Shared) {
    lua.push_function(pcall, shared);
    lua.raw_set_field(GLOBALS, "pcall");
    lua.raw_get_field(GLOBALS, "math");
    for (name, function) in [("random", function!(random)), ("randomseed", function!(random_seed))] {
        lua.push_function(function, shared);
        lua.raw_set_field(-3, name);
    }
    lua.pop(1);
    lua.push_table(0, 1);
    lua.push_function(function!(clock), shared);
    lua.raw_set_field(-3, "clock");
    lua.raw_set_field(GLOBALS, "os");
}

/// Like Lua's, but an error that is a table with a string field `err` is returned as that string:
/// scripts written before errors were tables expect it.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua. No Rust value with a destructor is here, so whatever jumps may.
    unsafe {
        if sys::lua_gettop(state) == 0 {
            return sys::luaL_argerror(state, 1, c"value expected".as_ptr());
        }
        let arguments = sys::lua_gettop(state) - 1;
        if sys::lua_pcall(state, arguments, sys::LUA_MULTRET, 0) == sys::LUA_OK {
            sys::lua_pushboolean(state, 1);
        } else {
            if sys::lua_type(state, -1) == sys::LUA_TTABLE {
                sys::lua_pushlstring_(state, c"err".as_ptr(), 3);
                sys::lua_rawget_(state, -2);
                if sys::lua_isstring(state, -1) != 0 {
                    sys::lua_replace(state, -2);
                } else {
                    sys::lua_settop(state, -2);
                }
            }
            sys::lua_pushboolean(state, 0);
        }
        sys::lua_insert(state, 1);
        sys::lua_gettop(state)
    }
}

fn random(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    const MAX: u32 = i32::MAX as u32;
    let unit = f64::from(shared.random.next() % MAX) / f64::from(MAX);
    let number = match lua.top() {
        0 => unit,
        1 => {
            let upper = lua.check_integer(1)? as i32;
            if upper < 1 {
                return Err(Raise::argument(1, "interval is empty"));
            }
            (unit * f64::from(upper)).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (lua.check_integer(1)? as i32, lua.check_integer(2)? as i32);
            if lower > upper {
                return Err(Raise::argument(2, "interval is empty"));
            }
            (unit * (f64::from(upper) - f64::from(lower) + 1.0)).floor() + f64::from(lower)
        }
        _ => return Err(Raise::text("wrong number of arguments")),
    };
    lua.push_number(number);
    Ok(1)
}

fn random_seed(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    shared.random = Random::new(lua.check_integer(1)? as u32);
    Ok(0)
}

/// `os.clock`: seconds of processor time.
fn clock(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the structure is written by the call, or stays zero.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    lua.push_number(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
    Ok(1)
}

/// Error handler of `lua_pcall`: makes the error a table and adds its location.
pub(crate) fn describe_error(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    lua.set_top(1);
    if !lua.has_room(6) {
        return Ok(1);
    }
    let place = match lua.position(1) {
        Some(place) if place.is_native => lua.position(2),
        place => place,
    };
    if lua.kind(1) != LuaType::Table {
        let text = match lua.kind(1) {
            LuaType::Nil | LuaType::None => b"nil".to_vec(),
            LuaType::Boolean => lua.boolean(1).to_string().into_bytes(),
            _ => match lua.text(1) {
                Some(text) => text.to_vec(),
                None => lua.kind_name(1).as_bytes().to_vec(),
            },
        };
        lua.set_top(0);
        lua.push_table(0, 3);
        lua.push_string(&[b"ERR ", &text[..]].concat());
        lua.raw_set_field(1, "err");
    }
    if let Some(place) = place.filter(|_| !lua.is_sealed(1)) {
        lua.push_string(place.source);
        lua.raw_set_field(1, "source");
        lua.push_number(f64::from(place.line));
        lua.raw_set_field(1, "line");
    }
    Ok(1)
}

/// The `__index` of tables whose missing fields are errors.
pub(crate) fn missing_global(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let name = match lua.top() {
        2 => lua.text(2),
        _ => return Err(Raise::text("Wrong number of arguments to luaProtectedTableError")),
    };
    match name {
        Some(name) => {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            Err(Raise::Text(
                [b"Script attempted to access nonexistent global variable '", name, b"'"].concat(),
            ))
        }
        None => Err(Raise::text("Second argument to luaProtectedTableError must be a string or number")),
    }
}
