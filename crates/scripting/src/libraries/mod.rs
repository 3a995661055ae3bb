// SPDX-License-Identifier: BSD-3-Clause
//! The libraries that Redis adds to Lua's own: `cjson`, `cmsgpack`, `struct` and `bit`.
//!
//! They are written in safe code, because each of the C versions has had security holes: lengths
//! are checked before any allocation, nesting is bounded, and decoding never allocates more than
//! a small multiple of the input's size.

pub(crate) mod bit;
pub(crate) mod json;
mod msgpack;
mod number;
mod pack;

use std::ffi::c_int;

use crate::lua::{GLOBALS, Lua, lua_State};
use crate::shared::Shared;

type Native = unsafe extern "C-unwind" fn(*mut lua_State) -> c_int;

/// Makes the libraries globals.
pub(crate) fn install(lua: Lua<'_>, shared: *mut Shared) {
    for (name, push) in [
        ("cjson", json::push as fn(Lua<'_>, *mut Shared)),
        ("cmsgpack", msgpack::push),
        ("struct", pack::push),
        ("bit", bit::push),
    ] {
        push(lua, shared);
        lua.raw_set_field(GLOBALS, name);
    }
}

/// Pushes a table of functions.
fn push_functions(lua: Lua<'_>, shared: *mut Shared, functions: &[(&str, Native)]) {
    lua.push_table(0, functions.len() + 4);
    for (name, function) in functions {
        lua.push_function(*function, shared);
        lua.raw_set_field(-3, name);
    }
}

/// Sets text fields of the table on top.
fn set_texts(lua: Lua<'_>, texts: &[(&str, &str)]) {
    for (name, text) in texts {
        lua.push_string(text.as_bytes());
        lua.raw_set_field(-3, name);
    }
}
