// SPDX-License-Identifier: BSD-3-Clause
//! `cmsgpack`: MessagePack.

use std::ffi::c_int;

use super::{push_functions, set_texts};
use crate::lua::{Kind, Lua, Raise, function};
use crate::state::{self, Shared};

/// Tables nested deeper are packed as nil (they may be cyclic).
const PACK_DEPTH_MAX: usize = 16;
/// Deeper data are refused: each level takes room on Lua's stack and on the machine's.
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

/// Writes the value on top and takes it off the stack.
fn write_value(lua: Lua<'_>, shared: &mut Shared, out: &mut Vec<u8>, depth: usize) -> Result<(), Raise> {
    state::poll(lua, shared)?;
    lua.check_memory(out.len() + lua.string(-1).map_or(0, <[u8]>::len))?;
    match lua.kind(-1) {
        Kind::String => {
            let text = lua.string(-1).unwrap_or_default();
            let len = text.len();
            match len {
                0..32 => out.push(0xa0 | len as u8),
                32..=0xff => out.extend_from_slice(&[0xd9, len as u8]),
                0x100..=0xffff => push_tagged(out, 0xda, (len as u16).to_be_bytes()),
                _ => push_tagged(out, 0xdb, (len as u32).to_be_bytes()),
            }
            out.extend_from_slice(text);
        }
        Kind::Boolean => out.push(if lua.boolean(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => write_number(out, lua.number(-1).unwrap_or_default()),
        Kind::Table if depth < PACK_DEPTH_MAX => {
            if !lua.has_room(6) {
                return Err(Raise::text("stack overflow (in function mp_encode_lua_table)"));
            }
            match array_len(lua) {
                Some(len) => {
                    write_count(out, len, 0x90, 0xdc);
                    for index in 0..len {
                        lua.raw_get_index(-1, index as c_int + 1);
                        write_value(lua, shared, out, depth + 1)?;
                    }
                }
                None => write_map(lua, shared, out, depth)?,
            }
        }
        _ => out.push(0xc0),
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
    write_count(out, count, 0x80, 0xde);
    lua.push_nil();
    while lua.next(-2) {
        lua.push_copy(-2);
        write_value(lua, shared, out, depth + 1)?;
        write_value(lua, shared, out, depth + 1)?;
    }
    Ok(())
}

/// The number of elements if the table on top has exactly the keys from 1 on.
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

/// The header of an array or map: in one byte up to 15, else with 16 or 32 bits.
fn write_count(out: &mut Vec<u8>, count: usize, short: u8, long: u8) {
    match count {
        0..=15 => out.push(short | count as u8),
        16..=0xffff => push_tagged(out, long, (count as u16).to_be_bytes()),
        _ => push_tagged(out, long + 1, (count as u32).to_be_bytes()),
    }
}

fn push_tagged<const N: usize>(out: &mut Vec<u8>, tag: u8, bytes: [u8; N]) {
    out.push(tag);
    out.extend_from_slice(&bytes);
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    // The cast saturates, so the largest doubles below 2^63 are the last that come back the same.
    let integer = number as i64;
    if integer as f64 != number || integer == i64::MAX {
        let short = number as f32;
        return if f64::from(short) == number {
            push_tagged(out, 0xca, short.to_be_bytes());
        } else {
            push_tagged(out, 0xcb, number.to_be_bytes());
        };
    }
    match integer {
        0..=127 => out.push(integer as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, integer as u8]),
        0x100..=0xffff => push_tagged(out, 0xcd, (integer as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => push_tagged(out, 0xce, (integer as u32).to_be_bytes()),
        0x1_0000_0000.. => push_tagged(out, 0xcf, integer.to_be_bytes()),
        -32..0 => out.push(integer as u8),
        -128..-32 => out.extend_from_slice(&[0xd0, integer as u8]),
        -0x8000..-128 => push_tagged(out, 0xd1, (integer as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => push_tagged(out, 0xd2, (integer as i32).to_be_bytes()),
        _ => push_tagged(out, 0xd3, integer.to_be_bytes()),
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
    state::poll(lua, shared).map_err(|_| Bad::Ended)?;
    lua.check_memory(0).map_err(|_| Bad::Memory)?;
    let tag = input.len8()? as u8;
    match tag {
        0x00..=0x7f => lua.push_number(f64::from(tag)),
        0x80..=0x8f => return push_map(lua, shared, input, usize::from(tag & 0xf), depth),
        0x90..=0x9f => return push_array(lua, shared, input, usize::from(tag & 0xf), depth),
        0xa0..=0xbf => lua.push_string(input.take(usize::from(tag & 0x1f))?),
        0xc0 => lua.push_nil(),
        0xc2 | 0xc3 => lua.push_boolean(tag == 0xc3),
        0xca => lua.push_number(f64::from(f32::from_be_bytes(input.number()?))),
        0xcb => lua.push_number(f64::from_be_bytes(input.number()?)),
        0xcc => lua.push_number(f64::from(u8::from_be_bytes(input.number()?))),
        0xcd => lua.push_number(f64::from(u16::from_be_bytes(input.number()?))),
        0xce => lua.push_number(f64::from(u32::from_be_bytes(input.number()?))),
        0xcf => lua.push_number(u64::from_be_bytes(input.number()?) as f64),
        0xd0 => lua.push_number(f64::from(i8::from_be_bytes(input.number()?))),
        0xd1 => lua.push_number(f64::from(i16::from_be_bytes(input.number()?))),
        0xd2 => lua.push_number(f64::from(i32::from_be_bytes(input.number()?))),
        0xd3 => lua.push_number(i64::from_be_bytes(input.number()?) as f64),
        0xd9 => {
            let len = input.len8()?;
            lua.push_string(input.take(len)?);
        }
        0xda => {
            let len = input.len16()?;
            lua.push_string(input.take(len)?);
        }
        0xdb => {
            let len = input.len32()?;
            lua.push_string(input.take(len)?);
        }
        0xdc => {
            let count = input.len16()?;
            return push_array(lua, shared, input, count, depth);
        }
        0xdd => {
            let count = input.len32()?;
            return push_array(lua, shared, input, count, depth);
        }
        0xde => {
            let count = input.len16()?;
            return push_map(lua, shared, input, count, depth);
        }
        0xdf => {
            let count = input.len32()?;
            return push_map(lua, shared, input, count, depth);
        }
        0xe0..=0xff => lua.push_number(f64::from(tag as i8)),
        _ => return Err(Bad::Format),
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
    // An element takes at least a byte: an announcement alone allocates nothing.
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
        if lua.kind(-1) == Kind::Nil || lua.number(-1).is_some_and(f64::is_nan) {
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
        Kind::None | Kind::Nil => Ok(0),
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

/// Unpacks up to `limit` values from `offset` on, or all if both are 0. With a limit or an offset the first result says where to go
/// on, -1 at the end.
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
