// SPDX-License-Identifier: BSD-3-Clause
//! `struct`: packs values like C structures, by a format.

use std::ffi::c_int;

use super::push_functions;
use crate::lua::{Lua, Raise, function};
use crate::shared::Shared;

pub(crate) fn push(lua: Lua<'_>, shared: *mut Shared) {
    let functions = [
        ("pack", function!(pack) as super::Native),
        ("unpack", function!(unpack)),
        ("size", function!(size)),
    ];
    push_functions(lua, shared, &functions);
}

/// Largest integer, in bytes.
const INTEGER_MAX: usize = 32;
/// The largest alignment that `!` selects.
const ALIGN_MAX: usize = 8;

/// A format string, read option by option.
struct Format<'a> {
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

/// A format option that describes data.
struct Item {
    option: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        // Format strings end at the first NUL, as in C.
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        Format { rest: text, big_endian: cfg!(target_endian = "big"), align: 1 }
    }

    /// A number in the format; `default` if there is none.
    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number = 0i32;
        for digit in &self.rest[..digits] {
            number = number
                .checked_mul(10)
                .and_then(|number| number.checked_add(i32::from(digit - b'0')))
                .ok_or_else(|| Raise::text("integral size overflow"))?;
        }
        self.rest = &self.rest[digits..];
        Ok(number as usize)
    }

    /// The next option that describes data; options before it that change settings are applied.
    fn next(&mut self) -> Result<Option<Item>, Raise> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(1)?,
                b's' => 0,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER_MAX {
                        return Err(Raise::text(format!(
                            "integral size {size} is larger than limit of {INTEGER_MAX}"
                        )));
                    }
                    size
                }
                b' ' => continue,
                b'>' => {
                    self.big_endian = true;
                    continue;
                }
                b'<' => {
                    self.big_endian = false;
                    continue;
                }
                b'!' => {
                    let align = self.number(ALIGN_MAX)?;
                    if !align.is_power_of_two() {
                        return Err(Raise::text(format!("alignment {align} is not a power of 2")));
                    }
                    self.align = align;
                    continue;
                }
                _ => {
                    let text = [b"invalid format option '", &[option][..], b"'"].concat();
                    return Err(Raise::argument(1, text));
                }
            };
            return Ok(Some(Item { option, size }));
        }
        Ok(None)
    }

    /// Padding bytes before an item at position `at`.
    fn padding(&self, item: &Item, at: usize) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        // As in C, sizes that are not a power of two are used as masks.
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }
}

fn pack(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let mut format = Format::new(lua.check_text(1)?);
    let mut out = Vec::new();
    let mut argument = 2;
    while let Some(item) = format.next()? {
        out.resize(out.len() + format.padding(&item, out.len()), 0);
        match item.option {
            b'x' => out.push(0),
            b'f' => {
                let bytes = (lua.check_number(argument)? as f32).to_le_bytes();
                push_bytes(&mut out, bytes, format.big_endian);
                argument += 1;
            }
            b'd' => {
                push_bytes(&mut out, lua.check_number(argument)?.to_le_bytes(), format.big_endian);
                argument += 1;
            }
            b'c' | b's' => {
                let text = lua.check_text(argument)?;
                argument += 1;
                let size = if item.size == 0 { text.len() } else { item.size };
                let text = text.get(..size).ok_or_else(|| Raise::argument(argument, "string too short"))?;
                out.extend_from_slice(text);
                if item.option == b's' {
                    out.push(0);
                }
            }
            _ => {
                let number = lua.check_number(argument)?;
                argument += 1;
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                // Bytes beyond eight are zero, even for negative numbers.
                let mut bytes = [0; INTEGER_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                let bytes = &mut bytes[..item.size];
                if format.big_endian {
                    bytes.reverse();
                }
                out.extend_from_slice(bytes);
            }
        }
    }
    lua.push_string(&out);
    Ok(1)
}

fn push_bytes<const N: usize>(out: &mut Vec<u8>, mut little: [u8; N], big_endian: bool) {
    if big_endian {
        little.reverse();
    }
    out.extend_from_slice(&little);
}

fn unpack(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let mut format = Format::new(lua.check_text(1)?);
    let data = lua.check_text(2)?;
    let start = match lua.kind(3) {
        crate::lua::LuaType::None | crate::lua::LuaType::Nil => 1,
        _ => lua.check_integer(3)?,
    };
    if start <= 0 {
        return Err(Raise::argument(3, "offset must be 1 or greater"));
    }
    let mut at = (start - 1) as usize;
    let too_short = || Raise::argument(2, "data string too short");
    let mut results = 0;
    while let Some(item) = format.next()? {
        at = at.checked_add(format.padding(&item, at)).ok_or_else(too_short)?;
        let end = at.checked_add(item.size).filter(|&end| end <= data.len()).ok_or_else(too_short)?;
        let bytes = &data[at..end];
        if !lua.has_room(3) {
            return Err(Raise::text("stack overflow (too many results)"));
        }
        at = end;
        match item.option {
            b'x' => continue,
            b'f' => lua.push_number(f64::from(f32::from_le_bytes(little(bytes, format.big_endian)))),
            b'd' => lua.push_number(f64::from_le_bytes(little(bytes, format.big_endian))),
            b'c' if item.size == 0 => {
                let size = if results == 0 { None } else { lua.convertible_number(-1) };
                let Some(size) = size else { return Err(Raise::text("format 'c0' needs a previous size")) };
                lua.pop(1);
                results -= 1;
                let size = if size >= 0.0 { size as usize } else { usize::MAX };
                let end = at.checked_add(size).filter(|&end| end <= data.len()).ok_or_else(too_short)?;
                lua.push_string(&data[at..end]);
                at = end;
            }
            b'c' => lua.push_string(bytes),
            b's' => {
                let rest = &data[at..];
                let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                    return Err(Raise::text("unfinished string in data"));
                };
                lua.push_string(&rest[..len]);
                at += len + 1;
            }
            option => lua.push_number(read_integer(bytes, format.big_endian, option.is_ascii_lowercase())),
        }
        results += 1;
    }
    lua.push_number(at as f64 + 1.0);
    Ok(results + 1)
}

fn little<const N: usize>(bytes: &[u8], big_endian: bool) -> [u8; N] {
    let mut little = [0; N];
    little.copy_from_slice(bytes);
    if big_endian {
        little.reverse();
    }
    little
}

/// An integer of any size; only its eight least significant bytes count.
fn read_integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let shift = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big_endian { bytes.iter().fold(0, shift) } else { bytes.iter().rev().fold(0, shift) };
    if !signed {
        return value as f64;
    }
    match bytes.len() {
        0 => 0.0,
        len @ 1..8 => {
            let unused = 64 - 8 * len;
            ((value << unused) as i64 >> unused) as f64
        }
        _ => value as i64 as f64,
    }
}

fn size(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let mut format = Format::new(lua.check_text(1)?);
    let mut at = 0usize;
    while let Some(item) = format.next()? {
        match item.option {
            b's' => return Err(Raise::argument(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(Raise::argument(1, "option 'c0' has no fixed size")),
            _ => {}
        }
        at = at.saturating_add(format.padding(&item, at)).saturating_add(item.size);
    }
    lua.push_number(at as f64);
    Ok(1)
}
