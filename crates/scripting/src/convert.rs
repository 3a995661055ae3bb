// SPDX-License-Identifier: BSD-3-Clause
//! Conversions between replies and Lua values, as Redis 7.2 defines them.
//!
//! A reply becomes a number, a string or a table; statuses and errors become tables with one field,
//! `ok` or `err`; RESP3's types become tables with a field that names them (`map`, `set`, `double`,
//! `big_number`, `verbatim_string`). Null is `false` in RESP2 and `nil` in RESP3. The reverse
//! conversion is the same, except that numbers lose their fraction.

use std::ffi::c_int;

use braid_resp::reply::{Deferred, Protocol, ReplyBuffer};

use crate::lua::{Lua, LuaType, Raise};
use crate::outcome::{Ended, Returned};

/// The unread bytes of a reply.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == b'\r').unwrap_or(self.0.len());
        let line = &self.0[..end];
        self.0 = self.0.get(end + 2..).unwrap_or_default();
        line
    }

    fn count(&mut self) -> Option<usize> {
        let line = self.line();
        usize::try_from(braid_base::number::parse_i64(line)?).ok()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest.get(2..).unwrap_or_default();
        taken
    }
}

/// Pushes the value of the reply in `buffer`. True if it is an error. A value that exceeds the
/// run's memory is pushed only in part.
pub(crate) fn push_reply(lua: Lua<'_>, buffer: &ReplyBuffer) -> Result<bool, Raise> {
    push_bytes(lua, &buffer.to_bytes())
}

fn push_bytes(lua: Lua<'_>, bytes: &[u8]) -> Result<bool, Raise> {
    push_value(lua, &mut Input(bytes))?;
    Ok(bytes.first() == Some(&b'-'))
}

/// The error of a script that exceeds its memory limit.
pub(crate) fn no_memory() -> Raise {
    Raise::text("not enough memory")
}

/// Bytes of an array slot and of a hash node in a table.
const SLOT: usize = 16;
const NODE: usize = 40;

/// Pushes exactly one value. Its memory is counted as it grows, so the run never exceeds its limit
/// by much.
fn push_value(lua: Lua<'_>, input: &mut Input<'_>) -> Result<(), Raise> {
    if !lua.has_room(6) {
        // Replies never nest that deeply.
        input.0 = b"";
    }
    let Some((&kind, rest)) = input.0.split_first() else {
        lua.push_nil();
        return Ok(());
    };
    input.0 = rest;
    match kind {
        b'$' => match input.count() {
            Some(count) => {
                let text = input.take(count);
                lua.check_memory(text.len())?;
                lua.push_string(text);
            }
            None => lua.push_boolean(false),
        },
        b':' => {
            let number = braid_base::number::parse_i64(input.line()).unwrap_or(0);
            lua.push_number(number as f64);
        }
        b'+' => push_field(lua, "ok", |lua| lua.push_string(input.line())),
        b'-' => {
            push_error_line(lua, input.line());
            lua.push_boolean(true);
            lua.raw_set_field(-3, "ignore_error_stats_update");
        }
        b'*' | b'>' => match input.count() {
            Some(count) => {
                lua.check_memory(count.saturating_mul(SLOT))?;
                lua.push_table(count, 0);
                for index in 0..count {
                    push_value(lua, input)?;
                    lua.raw_set_index(-2, index as c_int + 1);
                }
                // A long reply may consist of short strings.
                lua.check_memory(0)?;
            }
            None => lua.push_boolean(false),
        },
        b'%' => {
            lua.push_table(0, 1);
            let count = input.count().unwrap_or(0);
            lua.check_memory(count.saturating_mul(NODE))?;
            lua.push_table(0, count);
            for _ in 0..count {
                push_value(lua, input)?;
                push_value(lua, input)?;
                set_pair(lua);
            }
            lua.raw_set_field(-3, "map");
        }
        b'~' => {
            lua.push_table(0, 1);
            let count = input.count().unwrap_or(0);
            lua.check_memory(count.saturating_mul(NODE))?;
            lua.push_table(0, count);
            for _ in 0..count {
                push_value(lua, input)?;
                lua.push_boolean(true);
                set_pair(lua);
            }
            lua.raw_set_field(-3, "set");
        }
        b'|' => {
            for _ in 0..2 * input.count().unwrap_or(0) {
                push_value(lua, input)?;
                lua.pop(1);
            }
            push_value(lua, input)?;
        }
        b'#' => lua.push_boolean(input.line() == b"t"),
        b',' => push_field(lua, "double", |lua| {
            lua.push_number(braid_base::number::parse_f64(input.line()).unwrap_or(f64::NAN));
        }),
        b'(' => push_field(lua, "big_number", |lua| lua.push_string(input.line())),
        b'=' => push_field(lua, "verbatim_string", |lua| {
            let count = input.count().unwrap_or(0);
            let text = input.take(count);
            lua.push_table(0, 2);
            lua.push_string(text.get(4..).unwrap_or_default());
            lua.raw_set_field(-3, "string");
            lua.push_string(text.get(..3).unwrap_or_default());
            lua.raw_set_field(-3, "format");
        }),
        _ => {
            input.line();
            lua.push_nil();
        }
    }
    Ok(())
}

/// Pushes a table with one field, whose value `push` pushes.
pub(crate) fn push_field(lua: Lua<'_>, name: &str, push: impl FnOnce(Lua<'_>)) {
    lua.push_table(0, 1);
    push(lua);
    lua.raw_set_field(-3, name);
}

/// Sets a pair of a table, if the key is valid.
fn set_pair(lua: Lua<'_>) {
    let is_nan = lua.number(-2).is_some_and(f64::is_nan);
    if lua.kind(-2) == LuaType::Nil || is_nan {
        lua.pop(2);
    } else {
        lua.raw_set(-3);
    }
}

/// Pushes the table for an error line of the protocol, without its `-`: the code is the first word,
/// or `ERR` if there is only one word.
pub(crate) fn push_error_line(lua: Lua<'_>, line: &[u8]) {
    // In Redis the line is a C string, which ends at the first NUL.
    let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let (code, message) = match line.iter().position(|&byte| byte == b' ') {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => (&b"ERR"[..], line),
    };
    push_error_text(lua, code, message);
}

/// Pushes the table for an error message without a code.
pub(crate) fn push_error(lua: Lua<'_>, message: &str) {
    push_error_text(lua, b"ERR", message.as_bytes());
}

fn push_error_text(lua: Lua<'_>, code: &[u8], message: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_end(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_end(byte)).map_or(start, |last| last + 1);
    let text = [code, b" ", &message[start..end]].concat();
    push_field(lua, "err", |lua| lua.push_string(&text));
}

/// Writes the value on top of the stack as a reply and pops it. `script` is the protocol that the
/// script has chosen.
pub(crate) fn reply(lua: Lua<'_>, reply: &mut ReplyBuffer, script: Protocol) -> Returned {
    let mut writer = Writer { lua, reply, script, open: Vec::new(), returned: Returned::default() };
    writer.run();
    writer.returned
}

/// Writes a value in a loop, not by recursion: scripts can nest tables thousands of levels deep,
/// and a thread's stack is small.
struct Writer<'l, 'r> {
    lua: Lua<'l>,
    reply: &'r mut ReplyBuffer,
    script: Protocol,
    /// Tables being written, the outermost first.
    open: Vec<Open>,
    returned: Returned,
}

/// A table with elements left to write. Each variant describes what it keeps on Lua's stack.
enum Open {
    /// The table.
    Array { header: Deferred, count: usize },
    /// The table, its field `set`, and the last key.
    Set { header: Deferred, count: usize },
    /// The table, its field `map`, and the last key; above them the key's value, if it is next.
    Map { header: Deferred, count: usize, is_value_due: bool },
}

impl Writer<'_, '_> {
    fn run(&mut self) {
        self.value();
        while let Some(mut open) = self.open.pop() {
            if self.push_next(&mut open) {
                self.open.push(open);
                self.value();
            } else {
                self.close(open);
            }
        }
    }

    /// True if the value on top is the whole reply.
    fn is_all(&self) -> bool {
        self.open.is_empty()
    }

    fn error(&mut self, line: Vec<u8>, counted: bool) {
        self.reply.error_bytes(&line);
        if self.is_all() {
            self.returned.failed = true;
            self.returned.line.clone_from(&line);
        }
        if !counted {
            self.returned.errors.push(line);
        }
    }

    /// Writes the value on top and pops it, or begins to write it if it has elements.
    fn value(&mut self) {
        let lua = self.lua;
        if !lua.has_room(4) {
            lua.pop(1);
            return self.error(b"ERR reached lua stack limit".to_vec(), false);
        }
        match lua.kind(-1) {
            LuaType::String => self.reply.bulk(lua.string(-1).unwrap_or_default()),
            LuaType::Number => self.reply.integer(integer(lua.number(-1).unwrap_or_default())),
            LuaType::Boolean => match (self.script, lua.boolean(-1)) {
                (Protocol::Resp2, true) => self.reply.integer(1),
                (Protocol::Resp2, false) => self.reply.null(),
                (Protocol::Resp3, value) => self.reply.boolean(value),
            },
            LuaType::Table => {
                if !self.table() {
                    return self.begin();
                }
            }
            _ => self.reply.null(),
        }
        lua.pop(1);
    }

    /// Pushes a field of the table on top; true if it is of this kind, otherwise it is popped.
    fn has(&self, name: &str, kind: LuaType) -> bool {
        let lua = self.lua;
        lua.raw_get_field(-2, name);
        let found = lua.kind(-1) == kind;
        if !found {
            lua.pop(1);
        }
        found
    }

    /// Writes the table on top, which stays there, if it represents a value without elements.
    fn table(&mut self) -> bool {
        let lua = self.lua;
        if self.has("err", LuaType::String) {
            let line = up_to_nul(lua.string(-1).unwrap_or_default()).to_vec();
            lua.pop(1);
            let counted = self.has("ignore_error_stats_update", LuaType::Boolean) && {
                let counted = lua.boolean(-1);
                lua.pop(1);
                counted
            };
            self.error(line, counted);
            return true;
        }
        if self.has("ok", LuaType::String) {
            let line = one_line(up_to_nul(lua.string(-1).unwrap_or_default()));
            self.reply.raw(&[b"+", &line[..], b"\r\n"].concat());
        } else if self.has("double", LuaType::Number) {
            self.reply.double(lua.number(-1).unwrap_or_default());
        } else if self.has("big_number", LuaType::String) {
            let digits = one_line(lua.string(-1).unwrap_or_default());
            self.reply.big_number(&String::from_utf8_lossy(&digits));
        } else if self.has("verbatim_string", LuaType::Table) {
            let is_written = self.verbatim();
            lua.pop(1);
            return is_written;
        } else {
            return false;
        }
        lua.pop(1);
        true
    }

    /// Writes the table on top as a verbatim string, if it is one.
    fn verbatim(&mut self) -> bool {
        let lua = self.lua;
        if !self.has("format", LuaType::String) {
            return false;
        }
        let format = String::from_utf8_lossy(lua.string(-1).unwrap_or_default()).into_owned();
        lua.pop(1);
        if !self.has("string", LuaType::String) {
            return false;
        }
        self.reply.verbatim(&format, lua.string(-1).unwrap_or_default());
        lua.pop(1);
        true
    }

    /// Starts to write the table on top as a map, a set or an array.
    fn begin(&mut self) {
        let open = if self.has("map", LuaType::Table) {
            self.lua.push_nil();
            Open::Map { header: self.reply.begin_map(), count: 0, is_value_due: false }
        } else if self.has("set", LuaType::Table) {
            self.lua.push_nil();
            Open::Set { header: self.reply.begin_set(), count: 0 }
        } else {
            Open::Array { header: self.reply.begin_array(), count: 0 }
        };
        self.open.push(open);
    }

    /// Pushes the next item of a table. False if there is none: then the stack holds only the
    /// table, and the field that contains it if there is one.
    fn push_next(&self, open: &mut Open) -> bool {
        let lua = self.lua;
        match open {
            Open::Array { count, .. } => {
                lua.raw_get_index(-1, *count as c_int + 1);
                if lua.kind(-1) == LuaType::Nil {
                    lua.pop(1);
                    return false;
                }
                *count += 1;
            }
            Open::Set { count, .. } => {
                if !lua.next(-2) {
                    return false;
                }
                lua.pop(1);
                lua.push_copy(-1);
                *count += 1;
            }
            // The value is already on top.
            Open::Map { is_value_due, .. } if *is_value_due => *is_value_due = false,
            Open::Map { count, is_value_due, .. } => {
                if !lua.next(-2) {
                    return false;
                }
                lua.push_copy(-2);
                *count += 1;
                *is_value_due = true;
            }
        }
        true
    }

    /// Ends a table and pops it.
    fn close(&mut self, open: Open) {
        match open {
            Open::Array { header, count } => {
                self.reply.end_array(header, count);
                self.lua.pop(1);
            }
            Open::Set { header, count } => {
                self.reply.end_set(header, count);
                self.lua.pop(2);
            }
            Open::Map { header, count, .. } => {
                self.reply.end_map(header, count);
                self.lua.pop(2);
            }
        }
    }
}

/// A number without its fraction. A number out of range becomes the smallest integer, as C does
/// on common machines.
fn integer(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn one_line(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// The error line for the error value on top of the stack.
pub(crate) fn failure(lua: Lua<'_>, name: &str) -> Ended {
    if lua.kind(-1) != LuaType::Table {
        let text = lua.text(-1).unwrap_or(b"execution failure");
        let shown = &up_to_nul(text)[..up_to_nul(text).len().min(100)];
        let line = [b"ERR Error running script ", name.as_bytes(), b", ", shown].concat();
        return Ended::Failed { line, counted: false };
    }
    let table = lua.top();
    let field = |field: &str| {
        lua.raw_get_field(table, field);
        let text = lua.text(-1).map(|text| up_to_nul(text).to_vec());
        lua.pop(1);
        text
    };
    let mut line = field("err").unwrap_or_else(|| b"ERR execution failure".to_vec());
    if let (Some(at), Some(source)) = (field("line"), field("source")) {
        line.extend_from_slice(
            &[b" script: ", name.as_bytes(), b", on ", &source[..], b":", &at[..], b"."].concat(),
        );
    }
    lua.raw_get_field(table, "ignore_error_stats_update");
    let counted = lua.boolean(-1);
    lua.pop(1);
    Ended::Failed { line, counted }
}

/// The text of the error on top of the stack, as reported when loading a library fails.
pub(crate) fn error_text(lua: Lua<'_>) -> Vec<u8> {
    if lua.kind(-1) == LuaType::Table {
        lua.raw_get_field(-2, "err");
        let text = lua.text(-1).unwrap_or_default().to_vec();
        lua.pop(1);
        return text;
    }
    [b"ERR ", lua.text(-1).unwrap_or(b"execution failure")].concat()
}
