// SPDX-License-Identifier: BSD-3-Clause
//! `cmsgpack`: MessagePack. Crate `rmp` has the format's tags; their mapping to Lua values is here.

use std::ffi::c_int;

use rmp::{Marker, encode};

use super::{push_functions, set_texts};
use crate::interrupt::poll;
use crate::lua::{Lua, LuaType, Raise, function};
use crate::shared::Shared;

/// Tables nested deeper are packed as nil (they may be cyclic).
const PACK_DEPTH_MAX: usize = 16;
/// Data nested deeper is refused: each level takes space on Lua's stack and on the thread's.
const UNPACK_DEPTH_MAX: usize = 1000;

pub(crate) fn push(lua: Lua<'_>, shared: *mut Shared) {
    push_functions(
        lua,
        shared,
        &[
            ("pack", function!(pack)),
            ("unpack", function!(unpack)),
            ("unpack_one", function!(unpack_one)),
            ("unpack_limit", function!(unpack_limit)),
        ],
    );
    set_texts(
        lua,
        &[
            ("_NAME", "cmsgpack"),
            ("_VERSION", "lua-cmsgpack 0.4.0"),
            ("_COPYRIGHT", "MessagePack for Lua scripts"),
            ("_DESCRIPTION", "MessagePack C implementation for Lua"),
        ],
    );
}

fn pack(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let count = lua.top();
    if count == 0 {
        return Err(Raise::argument(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for index in 1..=count {
        if !lua.has_room(2) {
            return Err(Raise::argument(0, "Too many arguments for MessagePack pack."));
        }
        lua.push_copy(index);
        write_value(lua, shared, &mut out, 0)?;
    }
    lua.push_string(&out);
    Ok(1)
}

/// Writes the value on top and pops it.
fn write_value(lua: Lua<'_>, shared: &mut Shared, out: &mut Vec<u8>, depth: usize) -> Result<(), Raise> {
    poll(lua, shared)?;
    lua.check_memory(out.len() + lua.string(-1).map_or(0, <[u8]>::len))?;
    match lua.kind(-1) {
        LuaType::String => {
            let text = lua.string(-1).unwrap_or_default();
            written(encode::write_str_len(out, count_of(text.len())));
            out.extend_from_slice(text);
        }
        LuaType::Boolean => written(encode::write_bool(out, lua.boolean(-1))),
        LuaType::Number => write_number(out, lua.number(-1).unwrap_or_default()),
        LuaType::Table if depth < PACK_DEPTH_MAX => {
            if !lua.has_room(6) {
                return Err(Raise::text("stack overflow (in function mp_encode_lua_table)"));
            }
            match array_len(lua) {
                Some(len) => {
                    written(encode::write_array_len(out, count_of(len)));
                    for index in 0..len {
                        lua.raw_get_index(-1, index as c_int + 1);
                        write_value(lua, shared, out, depth + 1)?;
                    }
                }
                None => write_map(lua, shared, out, depth)?,
            }
        }
        _ => written(encode::write_nil(out)),
    }
    lua.pop(1);
    Ok(())
}

fn write_map(lua: Lua<'_>, shared: &mut Shared, out: &mut Vec<u8>, depth: usize) -> Result<(), Raise> {
    let mut count = 0;
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        count += 1;
    }
    written(encode::write_map_len(out, count_of(count)));
    lua.push_nil();
    while lua.next(-2) {
        lua.push_copy(-2);
        write_value(lua, shared, out, depth + 1)?;
        write_value(lua, shared, out, depth + 1)?;
    }
    Ok(())
}

/// The number of elements if the keys of the table on top are exactly 1 to n.
fn array_len(lua: Lua<'_>) -> Option<usize> {
    let (mut count, mut max) = (0usize, 0f64);
    let top = lua.top();
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        match lua
            .number(-1)
            .filter(|&number| number > 0.0 && number <= f64::from(i32::MAX) && number.trunc() == number)
        {
            Some(number) => max = max.max(number),
            None => {
                lua.set_top(top);
                return None;
            }
        }
        count += 1;
    }
    (max == count as f64).then_some(count)
}

/// Lengths are 32-bit; Lua's memory limit is lower.
fn count_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Writing to memory cannot fail.
fn written<T, E>(result: Result<T, E>) {
    debug_assert!(result.is_ok());
}

/// Writes integers in the fewest bytes, other numbers as a float if that is exact, else as a
/// double.
fn write_number(out: &mut Vec<u8>, number: f64) {
    // The cast saturates: doubles below 2^63 convert back to the same value.
    let integer = number as i64;
    let short = number as f32;
    if integer as f64 == number && integer != i64::MAX {
        written(encode::write_sint(out, integer));
    } else if f64::from(short) == number {
        written(encode::write_f32(out, short));
    } else {
        written(encode::write_f64(out, number));
    }
}

/// Why data cannot be unpacked.
enum Bad {
    Short,
    Format,
    Depth,
    Memory,
    /// The run is being ended.
    Ended,
}

impl From<Bad> for Raise {
    fn from(bad: Bad) -> Raise {
        Raise::text(match bad {
            Bad::Ended => return Raise::Unwind,
            Bad::Short => "Missing bytes in input.",
            Bad::Format => "Bad data format in input.",
            Bad::Memory => "not enough memory",
            Bad::Depth => "too many return values at once; use unpack_one or unpack_limit instead.",
        })
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Bad::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Bad::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn len8(&mut self) -> Result<usize, Bad> {
        Ok(usize::from(self.number::<1>()?[0]))
    }

    fn len16(&mut self) -> Result<usize, Bad> {
        Ok(usize::from(u16::from_be_bytes(self.number()?)))
    }

    fn len32(&mut self) -> Result<usize, Bad> {
        Ok(u32::from_be_bytes(self.number()?) as usize)
    }
}

/// Pushes the next value.
fn push_value(lua: Lua<'_>, shared: &mut Shared, input: &mut Input<'_>, depth: usize) -> Result<(), Bad> {
    if depth > UNPACK_DEPTH_MAX || !lua.has_room(4) {
        return Err(Bad::Depth);
    }
    poll(lua, shared).map_err(|_| Bad::Ended)?;
    lua.check_memory(0).map_err(|_| Bad::Memory)?;
    let [tag] = input.number()?;
    match Marker::from_u8(tag) {
        Marker::Null => lua.push_nil(),
        Marker::True => lua.push_boolean(true),
        Marker::False => lua.push_boolean(false),
        Marker::FixPos(number) => lua.push_number(f64::from(number)),
        Marker::FixNeg(number) => lua.push_number(f64::from(number)),
        Marker::U8 => lua.push_number(f64::from(u8::from_be_bytes(input.number()?))),
        Marker::U16 => lua.push_number(f64::from(u16::from_be_bytes(input.number()?))),
        Marker::U32 => lua.push_number(f64::from(u32::from_be_bytes(input.number()?))),
        Marker::U64 => lua.push_number(u64::from_be_bytes(input.number()?) as f64),
        Marker::I8 => lua.push_number(f64::from(i8::from_be_bytes(input.number()?))),
        Marker::I16 => lua.push_number(f64::from(i16::from_be_bytes(input.number()?))),
        Marker::I32 => lua.push_number(f64::from(i32::from_be_bytes(input.number()?))),
        Marker::I64 => lua.push_number(i64::from_be_bytes(input.number()?) as f64),
        Marker::F32 => lua.push_number(f64::from(f32::from_be_bytes(input.number()?))),
        Marker::F64 => lua.push_number(f64::from_be_bytes(input.number()?)),
        marker => {
            let len = match marker {
                Marker::FixStr(len) | Marker::FixArray(len) | Marker::FixMap(len) => usize::from(len),
                Marker::Str8 => input.len8()?,
                Marker::Str16 | Marker::Array16 | Marker::Map16 => input.len16()?,
                Marker::Str32 | Marker::Array32 | Marker::Map32 => input.len32()?,
                // Binary data and extensions, which lua-cmsgpack does not support.
                _ => return Err(Bad::Format),
            };
            match marker {
                Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                    return push_array(lua, shared, input, len, depth);
                }
                Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                    return push_map(lua, shared, input, len, depth);
                }
                _ => lua.push_string(input.take(len)?),
            }
        }
    }
    Ok(())
}

fn push_array(
    lua: Lua<'_>,
    shared: &mut Shared,
    input: &mut Input<'_>,
    count: usize,
    depth: usize,
) -> Result<(), Bad> {
    // An element takes at least one byte, so a false length cannot cause a large allocation.
    lua.push_table(count.min(input.0.len()), 0);
    for index in 0..count {
        push_value(lua, shared, input, depth + 1)?;
        lua.raw_set_index(-2, index as c_int + 1);
    }
    Ok(())
}

fn push_map(
    lua: Lua<'_>,
    shared: &mut Shared,
    input: &mut Input<'_>,
    count: usize,
    depth: usize,
) -> Result<(), Bad> {
    lua.push_table(0, count.min(input.0.len() / 2));
    for _ in 0..count {
        push_value(lua, shared, input, depth + 1)?;
        if lua.kind(-1) == LuaType::Nil || lua.number(-1).is_some_and(f64::is_nan) {
            return Err(Bad::Format);
        }
        push_value(lua, shared, input, depth + 1)?;
        lua.raw_set(-3);
    }
    Ok(())
}

fn unpack(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    unpack_some(lua, shared, 0, 0)
}

fn optional_integer(lua: Lua<'_>, index: c_int) -> Result<i64, Raise> {
    match lua.kind(index) {
        LuaType::None | LuaType::Nil => Ok(0),
        _ => lua.check_integer(index),
    }
}

fn unpack_one(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let offset = optional_integer(lua, 2)?;
    unpack_some(lua, shared, 1, offset)
}

fn unpack_limit(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let (limit, offset) = (lua.check_integer(2)?, optional_integer(lua, 3)?);
    unpack_some(lua, shared, limit, offset)
}

/// Unpacks up to `limit` values from `offset` on, or all if both are 0. With a limit or an offset
/// the first result is the next offset, -1 at the end.
fn unpack_some(lua: Lua<'_>, shared: &mut Shared, limit: i64, offset: i64) -> Result<c_int, Raise> {
    let data = lua.check_text(1)?;
    lua.set_top(1);
    if offset < 0 || limit < 0 {
        return Err(Raise::text(format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            data.len()
        )));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)) else {
        return Err(Raise::text(format!("Start offset {offset} greater than input length {}.", data.len())));
    };
    let all = limit == 0 && offset == 0;
    let mut input = Input(rest);
    let mut count = 0;
    while !input.0.is_empty() && (all || i64::from(count) < limit) {
        push_value(lua, shared, &mut input, 0)?;
        count += 1;
    }
    if all {
        return Ok(count);
    }
    let next = if input.0.is_empty() { -1.0 } else { (data.len() - input.0.len()) as f64 };
    if !lua.has_room(1) {
        return Err(Bad::Depth.into());
    }
    lua.push_number(next);
    lua.insert(2);
    Ok(count + 1)
}
