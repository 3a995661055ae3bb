// SPDX-License-Identifier: BSD-3-Clause
//! `redis.register_function`: names the functions of a library.

use std::ffi::c_int;

use crate::convert::push_error;
use crate::flags::ScriptFlags;
use crate::function::{Function, Registered};
use crate::lua::{Lua, LuaType, Raise};
use crate::shared::Shared;

/// True for valid names of libraries and functions.
pub fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The error for invalid names.
pub const INVALID_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

pub(crate) fn register_function(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let outcome = if shared.registering.is_none() {
        Err("redis.register_function can only be called on FUNCTION LOAD command")
    } else {
        match lua.top() {
            1 => named(lua),
            2 => positional(lua),
            _ => Err("wrong number of arguments to redis.register_function"),
        }
    };
    let outcome = outcome.and_then(|registered| {
        let known = shared.registering.get_or_insert_default();
        let refused = if !is_valid_name(&registered.name) {
            INVALID_NAME
        } else if known.iter().any(|other| other.name == registered.name) {
            "Function already exists in the library"
        } else {
            known.push(registered);
            return Ok(());
        };
        lua.release(registered.function.0);
        Err(refused)
    });
    match outcome {
        Ok(()) => Ok(0),
        Err(message) => {
            push_error(lua, message);
            Err(Raise::Value)
        }
    }
}

fn positional(lua: Lua<'_>) -> Result<Registered, &'static str> {
    let Some(name) = lua.text(1) else {
        return Err("first argument to redis.register_function must be a string");
    };
    if lua.kind(2) != LuaType::Function {
        return Err("second argument to redis.register_function must be a function");
    }
    let function = Function(lua.keep());
    Ok(Registered { name: name.to_vec(), description: None, flags: ScriptFlags::NONE, function })
}

fn named(lua: Lua<'_>) -> Result<Registered, &'static str> {
    if lua.kind(1) != LuaType::Table {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table \
             (representing named arguments).",
        );
    }
    let (mut name, mut description, mut flags, mut function) = (None, None, ScriptFlags::NONE, None);
    let release = |function: Option<Function>| {
        if let Some(function) = function {
            lua.release(function.0);
        }
    };
    lua.push_nil();
    while lua.next(1) {
        let Some(key) = lua.string(2).map(<[u8]>::to_ascii_lowercase) else {
            release(function);
            return Err("named argument key given to redis.register_function is not a string");
        };
        // Copy values before reading them as text: that would turn a number into a string inside
        // the table being walked.
        let refused = match &key[..] {
            b"function_name" => match lua.text(3) {
                Some(text) => {
                    name = Some(text.to_vec());
                    None
                }
                None => Some("function_name argument given to redis.register_function must be a string"),
            },
            b"description" => match lua.text(3) {
                Some(text) => {
                    description = Some(text.to_vec());
                    None
                }
                None => Some("description argument given to redis.register_function must be a string"),
            },
            b"callback" if lua.kind(3) == LuaType::Function => {
                lua.push_copy(3);
                release(function.replace(Function(lua.keep())));
                None
            }
            b"callback" => Some("callback argument given to redis.register_function must be a function"),
            b"flags" if lua.kind(3) == LuaType::Table => match read_flags(lua) {
                Some(read) => {
                    flags = read;
                    None
                }
                None => Some("unknown flag given"),
            },
            b"flags" => {
                Some("flags argument to redis.register_function must be a table representing function flags")
            }
            _ => Some("unknown argument given to redis.register_function"),
        };
        if let Some(refused) = refused {
            release(function);
            return Err(refused);
        }
        lua.set_top(2);
    }
    let Some(name) = name else {
        release(function);
        return Err("redis.register_function must get a function name argument");
    };
    let Some(function) = function else { return Err("redis.register_function must get a callback argument") };
    Ok(Registered { name, description, flags, function })
}

/// The flags in the table on top.
fn read_flags(lua: Lua<'_>) -> Option<ScriptFlags> {
    let mut flags = ScriptFlags::NONE;
    for index in 1.. {
        lua.raw_get_index(3, index);
        if lua.kind(-1) == LuaType::Nil {
            lua.pop(1);
            break;
        }
        flags = flags.with(ScriptFlags::named(lua.text(-1)?, true)?);
        lua.pop(1);
    }
    Some(flags)
}
