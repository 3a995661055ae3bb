// SPDX-License-Identifier: BSD-3-Clause
//! Prints packed values as JSON text: compact, or with JSON.GET's INDENT, NEWLINE and SPACE.

use super::doc::Doc;
use super::number::print_decimal;
use super::packed::{
    self, ARRAY, DEC8, DEC32, FALSE, NULL, OBJECT, SHORT, SMALL, STRING, Slot, TRUE, TYPED, Value,
};
use super::parse::plain_len;

/// Texts inserted between the parts of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format<'a> {
    pub indent: &'a [u8],
    pub newline: &'a [u8],
    pub space: &'a [u8],
}

impl Format<'_> {
    pub fn is_compact(&self) -> bool {
        self.indent.is_empty() && self.newline.is_empty() && self.space.is_empty()
    }
}

/// Appends a value as compact text.
pub fn compact(bytes: Doc<'_>, slot: Slot, out: &mut Vec<u8>) {
    match packed::value(bytes, slot) {
        Value::Num(number) if slot.is_element() => number.print(out),
        _ => _ = compact_at(bytes, slot.at(), out),
    }
}

/// Appends the value at an offset. Returns the offset behind it: printing passes all of a value, so
/// nothing need be skipped besides.
fn compact_at(bytes: Doc<'_>, at: usize, out: &mut Vec<u8>) -> usize {
    let here = bytes.at(at);
    match here[0] {
        SHORT.. | STRING..OBJECT => string(packed::text(here), out),
        tag @ OBJECT..ARRAY => {
            let object = packed::container(here, at, tag - OBJECT);
            let mut next = object.start;
            out.push(b'{');
            while next < object.end {
                if next > object.start {
                    out.push(b',');
                }
                let (name, value) = packed::name(bytes, next);
                string(name, out);
                out.push(b':');
                next = compact_at(bytes, value, out);
            }
            out.push(b'}');
            return object.end;
        }
        tag @ ARRAY..TYPED => {
            let array = packed::container(here, at, tag - ARRAY);
            let mut next = array.start;
            out.push(b'[');
            while next < array.end {
                if next > array.start {
                    out.push(b',');
                }
                next = compact_at(bytes, next, out);
            }
            out.push(b']');
            return array.end;
        }
        TYPED..SMALL => {
            let array = packed::typed(here, at);
            out.push(b'[');
            for index in 0..array.count {
                if index > 0 {
                    out.push(b',');
                }
                match array.decimal(bytes, index) {
                    Some((mantissa, scale)) => print_decimal(mantissa, scale, out),
                    None => array.get(bytes, index).print(out),
                }
            }
            out.push(b']');
            return array.end();
        }
        DEC8..=DEC32 => {
            let (mantissa, scale) = packed::decimal_parts(here);
            print_decimal(mantissa, scale, out);
        }
        NULL => out.extend_from_slice(b"null"),
        FALSE => out.extend_from_slice(b"false"),
        TRUE => out.extend_from_slice(b"true"),
        _ => packed::number(here).print(out),
    }
    packed::behind(here, at)
}

fn print_scalar(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Num(number) => number.print(out),
        Value::Str(text) => string(text, out),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Appends a value at a depth of indentation.
pub fn formatted(bytes: Doc<'_>, slot: Slot, format: Format<'_>, depth: usize, out: &mut Vec<u8>) {
    match packed::value(bytes, slot) {
        Value::Object(object) => {
            begin(b'{', out);
            for (index, (name, at)) in packed::members(bytes, object).enumerate() {
                break_line(index > 0, format, depth + 1, out);
                string(name, out);
                out.push(b':');
                out.extend_from_slice(format.space);
                formatted(bytes, Slot::whole(at), format, depth + 1, out);
            }
            end(b'}', object.count > 0, format, depth, out);
        }
        Value::Array(_) | Value::Typed(_) => {
            list(packed::items(bytes, slot), format, depth, out, |item, out| {
                formatted(bytes, item, format, depth + 1, out);
            });
        }
        scalar => print_scalar(scalar, out),
    }
}

/// Appends an array of parts.
pub fn list<T>(
    parts: impl Iterator<Item = T>,
    format: Format<'_>,
    depth: usize,
    out: &mut Vec<u8>,
    mut print: impl FnMut(T, &mut Vec<u8>),
) {
    begin(b'[', out);
    let mut count = 0;
    for part in parts {
        break_line(count > 0, format, depth + 1, out);
        print(part, out);
        count += 1;
    }
    end(b']', count > 0, format, depth, out);
}

fn begin(bracket: u8, out: &mut Vec<u8>) {
    out.push(bracket);
}

/// The comma, line break and indentation before a member.
pub fn break_line(has_comma: bool, format: Format<'_>, depth: usize, out: &mut Vec<u8>) {
    if has_comma {
        out.push(b',');
    }
    out.extend_from_slice(format.newline);
    for _ in 0..depth {
        out.extend_from_slice(format.indent);
    }
}

/// The closing bracket, on a line of its own behind members.
pub fn end(bracket: u8, has_members: bool, format: Format<'_>, depth: usize, out: &mut Vec<u8>) {
    if has_members {
        break_line(false, format, depth, out);
    }
    out.push(bracket);
}

/// Appends a string with quotes and escapes.
pub fn string(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text;
    loop {
        let (plain, behind) = rest.split_at(plain_len(rest));
        out.extend_from_slice(plain);
        let Some((&byte, next)) = behind.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = next;
    }
    out.push(b'"');
}
