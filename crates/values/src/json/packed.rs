// SPDX-License-Identifier: BSD-3-Clause
//! The packed form of a document: one run of bytes in which every value begins with a tag.
//!
//! ```text
//! null, false, true        tag
//! integer                  tag (0 to 63), or tag and 1, 2, 4 or 8 bytes
//! floating-point number    tag, then f32 or f64 bits, or a scale and an integer of 1, 2 or 4 bytes
//!                          (the number is integer / 10^scale)
//! string                   tag (up to 127 bytes), or tag and length; then the text
//! object, array            tag, length of the content in bytes, number of members; the content
//! array of numbers         tag, number of elements, [scale]; then elements of one width
//! ```
//! A member of an object is its name (length and text) and its value. Lengths of containers have 1,
//! 2 or 4 bytes, all of a container's header alike, so every value can be skipped in one step.
//!
//! Packed bytes are made by [`Builder`](super::builder::Builder) alone, never read from a file or a
//! socket; readers therefore trust them. All integers are little-endian.

use super::doc::{Doc, Names};
use super::floats::{BF16, F16, widen};
use super::number::{Num, decimal};

pub const NULL: u8 = 0x00;
pub const FALSE: u8 = 0x01;
pub const TRUE: u8 = 0x02;
pub const I8: u8 = 0x03;
pub const I16: u8 = 0x04;
pub const I32: u8 = 0x05;
pub const I64: u8 = 0x06;
pub const U64: u8 = 0x07;
pub const F32: u8 = 0x08;
pub const F64: u8 = 0x09;
pub const DEC8: u8 = 0x0a;
pub const DEC16: u8 = 0x0b;
pub const DEC32: u8 = 0x0c;
/// Strings with a length of 1, 2 and 4 bytes: tags `STRING`, `STRING + 1` and `STRING + 2`.
pub const STRING: u8 = 0x0d;
/// Objects with headers of 1, 2 and 4 bytes a field.
pub const OBJECT: u8 = 0x10;
/// Arrays with headers of 1, 2 and 4 bytes a field.
pub const ARRAY: u8 = 0x14;
/// Arrays of numbers: `TYPED + 2 * kind`, one more if the count has 4 bytes instead of 1.
pub const TYPED: u8 = 0x20;
const TYPED_END: u8 = TYPED + 2 * Elements::COUNT;
/// Integers 0 to 63.
pub const SMALL: u8 = 0x40;
/// Strings of up to 127 bytes.
pub const SHORT: u8 = 0x80;

/// The element types of arrays of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Elements {
    I8,
    I16,
    I32,
    I64,
    Dec16,
    Dec32,
    F32,
    /// Floating-point numbers that are the nearest to the shortest decimal of an f32.
    F32Decimal,
    F64,
    /// As `F32Decimal`, for the types of 16 bits.
    F16Decimal,
    Bf16Decimal,
}

impl Elements {
    const COUNT: u8 = 11;
    const ALL: [Elements; Self::COUNT as usize] = [
        Elements::I8,
        Elements::I16,
        Elements::I32,
        Elements::I64,
        Elements::Dec16,
        Elements::Dec32,
        Elements::F32,
        Elements::F32Decimal,
        Elements::F64,
        Elements::F16Decimal,
        Elements::Bf16Decimal,
    ];

    pub fn width(self) -> usize {
        match self {
            Elements::I8 => 1,
            Elements::I16 | Elements::Dec16 | Elements::F16Decimal | Elements::Bf16Decimal => 2,
            Elements::I32 | Elements::Dec32 | Elements::F32 | Elements::F32Decimal => 4,
            Elements::I64 | Elements::F64 => 8,
        }
    }

    pub fn has_scale(self) -> bool {
        matches!(self, Elements::Dec16 | Elements::Dec32)
    }
}

/// Where a value is: its tag's offset, and for an element of an array of numbers its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub at: u32,
    /// [`WHOLE`], or the index of an element.
    pub element: u32,
}

/// A slot's `element` when it is a value with a tag of its own.
pub const WHOLE: u32 = u32::MAX;

/// In order of the document: an array comes before its elements.
impl Ord for Slot {
    fn cmp(&self, other: &Slot) -> std::cmp::Ordering {
        (self.at, self.element.wrapping_add(1)).cmp(&(other.at, other.element.wrapping_add(1)))
    }
}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Slot) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Slot {
    pub fn whole(at: usize) -> Slot {
        Slot { at: at as u32, element: WHOLE }
    }

    pub fn at(self) -> usize {
        self.at as usize
    }

    pub fn is_element(self) -> bool {
        self.element != WHOLE
    }
}

/// A value, as far as it can be seen without its members.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Num(Num),
    Str(&'a [u8]),
    Object(Container),
    Array(Container),
    Typed(Typed),
}

/// An object, or an array of any values: number of members, and where its content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    pub count: usize,
    pub start: usize,
    pub end: usize,
}

/// An array of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    pub elements: Elements,
    pub scale: u8,
    pub count: usize,
    /// Offset of the first element.
    pub start: usize,
    /// The count has four bytes.
    pub has_wide_count: bool,
}

impl Typed {
    pub fn end(&self) -> usize {
        self.start + self.count * self.elements.width()
    }

    /// The integer and the scale of an element, if it is kept so.
    #[inline]
    pub fn decimal(&self, doc: Doc<'_>, index: usize) -> Option<(i32, u8)> {
        let here = || doc.at(self.start + index * self.elements.width());
        let mantissa = match self.elements {
            Elements::Dec16 => i32::from(i16::from_le_bytes(take(here(), 0))),
            Elements::Dec32 => i32::from_le_bytes(take(here(), 0)),
            _ => return None,
        };
        Some((mantissa, self.scale))
    }

    pub fn get(&self, doc: Doc<'_>, index: usize) -> Num {
        let here = doc.at(self.start + index * self.elements.width());
        match self.elements {
            Elements::I8 => Num::Int(i64::from(here[0] as i8)),
            Elements::I16 => Num::Int(i64::from(i16::from_le_bytes(take(here, 0)))),
            Elements::I32 => Num::Int(i64::from(i32::from_le_bytes(take(here, 0)))),
            Elements::I64 => Num::Int(i64::from_le_bytes(take(here, 0))),
            Elements::Dec16 | Elements::Dec32 => {
                let (mantissa, scale) = self.decimal(doc, index).unwrap_or_default();
                Num::Float(decimal(mantissa, scale))
            }
            Elements::F32 => Num::Float(f64::from(f32::from_le_bytes(take(here, 0)))),
            Elements::F32Decimal => Num::Float(widen(f32::from_le_bytes(take(here, 0)))),
            Elements::F64 => Num::Float(f64::from_le_bytes(take(here, 0))),
            Elements::F16Decimal => Num::Float(F16.number(u16::from_le_bytes(take(here, 0)))),
            Elements::Bf16Decimal => Num::Float(BF16.number(u16::from_le_bytes(take(here, 0)))),
        }
    }
}

#[inline]
pub fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of that length")
}

/// A field of 1, 2 or 4 bytes, by its width code (0, 1, 2).
#[inline]
fn field(bytes: &[u8], at: usize, code: u8) -> usize {
    match code {
        0 => usize::from(bytes[at]),
        1 => usize::from(u16::from_le_bytes(take(bytes, at))),
        _ => u32::from_le_bytes(take(bytes, at)) as usize,
    }
}

/// The container whose tag is at the beginning of `here`, which is the offset `at`.
#[inline]
pub fn container(here: &[u8], at: usize, code: u8) -> Container {
    let width = 1 << code;
    let len = field(here, 1, code);
    let count = field(here, 1 + width, code);
    let start = at + 1 + 2 * width;
    Container { count, start, end: start + len }
}

#[inline]
pub fn typed(here: &[u8], at: usize) -> Typed {
    let code = here[0] - TYPED;
    let elements = Elements::ALL[usize::from(code / 2)];
    let (count, mut start) =
        if code.is_multiple_of(2) { (usize::from(here[1]), 2) } else { (field(here, 1, 2), 5) };
    let mut scale = 0;
    if elements.has_scale() {
        scale = here[start];
        start += 1;
    }
    Typed { elements, scale, count, start: at + start, has_wide_count: code % 2 == 1 }
}

/// The offset behind the value at `at`.
#[inline]
pub fn skip(doc: Doc<'_>, at: usize) -> usize {
    behind(doc.at(at), at)
}

/// The offset behind the value that is at the beginning of `here`, which is the offset `at`.
#[inline]
pub fn behind(here: &[u8], at: usize) -> usize {
    match here[0] {
        tag @ SHORT.. => at + 1 + usize::from(tag - SHORT),
        SMALL.. | NULL..=TRUE => at + 1,
        I8 => at + 2,
        I16 | DEC8 => at + 3,
        DEC16 => at + 4,
        I32 | F32 => at + 5,
        DEC32 => at + 6,
        I64 | U64 | F64 => at + 9,
        tag @ STRING..OBJECT => {
            let code = tag - STRING;
            at + 1 + (1 << code) + field(here, 1, code)
        }
        tag @ OBJECT..ARRAY => container(here, at, tag - OBJECT).end,
        tag @ ARRAY..TYPED => container(here, at, tag - ARRAY).end,
        TYPED..SMALL => typed(here, at).end(),
    }
}

/// The text of the string at the beginning of `here`.
#[inline]
pub fn text(here: &[u8]) -> &[u8] {
    let tag = here[0];
    let (start, len) = if tag >= SHORT {
        (1, usize::from(tag - SHORT))
    } else {
        let code = tag - STRING;
        (1 + (1 << code), field(here, 1, code))
    };
    &here[start..start + len]
}

/// The value in a slot.
#[inline]
pub fn value(doc: Doc<'_>, slot: Slot) -> Value<'_> {
    let at = slot.at();
    let here = doc.at(at);
    if slot.is_element() {
        return Value::Num(typed(here, at).get(doc, slot.element as usize));
    }
    match here[0] {
        SHORT.. | STRING..OBJECT => Value::Str(text(here)),
        NULL => Value::Null,
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        tag @ OBJECT..ARRAY => Value::Object(container(here, at, tag - OBJECT)),
        tag @ ARRAY..TYPED => Value::Array(container(here, at, tag - ARRAY)),
        TYPED..TYPED_END => Value::Typed(typed(here, at)),
        _ => Value::Num(number(here)),
    }
}

/// The integer and the scale of the decimal at the beginning of `here`.
#[inline]
pub fn decimal_parts(here: &[u8]) -> (i32, u8) {
    let mantissa = match here[0] {
        DEC8 => i32::from(here[2] as i8),
        DEC16 => i32::from(i16::from_le_bytes(take(here, 2))),
        _ => i32::from_le_bytes(take(here, 2)),
    };
    (mantissa, here[1])
}

/// The number at the beginning of `here`.
#[inline]
pub fn number(here: &[u8]) -> Num {
    match here[0] {
        tag @ SMALL..SHORT => Num::Int(i64::from(tag - SMALL)),
        I8 => Num::Int(i64::from(here[1] as i8)),
        I16 => Num::Int(i64::from(i16::from_le_bytes(take(here, 1)))),
        I32 => Num::Int(i64::from(i32::from_le_bytes(take(here, 1)))),
        I64 => Num::Int(i64::from_le_bytes(take(here, 1))),
        U64 => Num::Unsigned(u64::from_le_bytes(take(here, 1))),
        F32 => Num::Float(f64::from(f32::from_le_bytes(take(here, 1)))),
        DEC8..=DEC32 => {
            let (mantissa, scale) = decimal_parts(here);
            Num::Float(decimal(mantissa, scale))
        }
        _ => Num::Float(f64::from_le_bytes(take(here, 1))),
    }
}

/// Names of more bytes than this have a length of four bytes behind [`LONG_NAME`].
pub const NAME_MAX: usize = 254;
pub const LONG_NAME: u8 = 255;

/// The name at `at`, and the offset of the member's value.
#[inline]
pub fn name(doc: Doc<'_>, at: usize) -> (&[u8], usize) {
    let here = doc.at(at);
    let (start, len) = name_range(here);
    (&here[start..start + len], at + start + len)
}

#[inline]
fn name_range(here: &[u8]) -> (usize, usize) {
    match here[0] {
        LONG_NAME => (5, field(here, 1, 2)),
        len => (1, usize::from(len)),
    }
}

/// The offset of the value of an object's member.
pub fn member(doc: Doc<'_>, object: Container, wanted: &[u8]) -> Option<usize> {
    if doc.is_in_pieces() {
        return member_in_pieces(doc, object, wanted);
    }
    let mut at = object.start;
    if wanted.len() <= NAME_MAX {
        let len = wanted.len();
        while at < object.end {
            let here = doc.at(at);
            let value = if usize::from(here[0]) == len {
                if here[1..].starts_with(wanted) {
                    return Some(at + 1 + len);
                }
                1 + len
            } else {
                let (start, len) = name_range(here);
                start + len
            };
            at = behind(&here[value..], at + value);
        }
        return None;
    }
    while at < object.end {
        let (found, value) = name(doc, at);
        if found == wanted {
            return Some(value);
        }
        at = skip(doc, value);
    }
    None
}

/// Like [`member`]; passes by pieces that do not have the name.
fn member_in_pieces(doc: Doc<'_>, object: Container, wanted: &[u8]) -> Option<usize> {
    let hash = Names::hash(wanted);
    // The header, whose size follows from the length of the content.
    let owner = object.start - 1 - 2 * header_width(object.end - object.start);
    let mut at = object.start;
    while at < object.end {
        let piece_end = doc.piece_end(at);
        if (object.start < at || object.end > piece_end)
            && let Some(next) = doc.without_name(at, owner, object.end, hash)
        {
            at = next;
            continue;
        }
        while at < piece_end.min(object.end) {
            let (found, value) = name(doc, at);
            if found == wanted {
                return Some(value);
            }
            at = skip(doc, value);
        }
    }
    None
}

/// The size of a field in the header of a container with so many bytes of content.
fn header_width(len: usize) -> usize {
    match len {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// An object's members: name, and offset of the value.
pub fn members<'a>(doc: Doc<'a>, object: Container) -> impl Iterator<Item = (&'a [u8], usize)> {
    let mut at = object.start;
    std::iter::from_fn(move || {
        if at >= object.end {
            return None;
        }
        let (name, value) = name(doc, at);
        at = skip(doc, value);
        Some((name, value))
    })
}

/// The offset of the last member of an object (of its name) that has members.
pub fn last_member(doc: Doc<'_>, object: Slot, container: Container) -> usize {
    let content = container.start..container.end;
    let mut at = doc.nearest(object.at(), content, usize::MAX).map_or(container.start, |(at, _)| at);
    loop {
        let next = skip(doc, name(doc, at).1);
        if next >= container.end {
            return at;
        }
        at = next;
    }
}

/// The elements of an array, by the value in a slot. Nothing for other values.
pub enum Items<'a> {
    None,
    Any { doc: Doc<'a>, at: usize, end: usize },
    Typed { at: u32, next: u32, count: u32 },
}

impl Iterator for Items<'_> {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        match self {
            Items::None => None,
            Items::Any { doc, at, end } => {
                let here = *at;
                (here < *end).then(|| {
                    *at = skip(*doc, here);
                    Slot::whole(here)
                })
            }
            Items::Typed { at, next, count } => {
                let index = *next;
                (index < *count).then(|| {
                    *next += 1;
                    Slot { at: *at, element: index }
                })
            }
        }
    }
}

/// The elements of the array in a slot.
pub fn items(doc: Doc<'_>, slot: Slot) -> Items<'_> {
    match value(doc, slot) {
        Value::Array(array) => Items::Any { doc, at: array.start, end: array.end },
        Value::Typed(array) => Items::Typed { at: slot.at, next: 0, count: array.count as u32 },
        _ => Items::None,
    }
}

/// The elements of the array in a slot from an index on.
pub fn items_from(doc: Doc<'_>, slot: Slot, index: usize) -> Items<'_> {
    match value(doc, slot) {
        Value::Array(array) if index >= array.count => Items::None,
        Value::Array(array) => {
            let nearest = doc.nearest(slot.at(), array.start..array.end, index);
            let (mut at, mut next) = nearest.unwrap_or((array.start, 0));
            while next < index {
                at = skip(doc, at);
                next += 1;
            }
            Items::Any { doc, at, end: array.end }
        }
        Value::Typed(array) => {
            let next = index.min(array.count) as u32;
            Items::Typed { at: slot.at, next, count: array.count as u32 }
        }
        _ => Items::None,
    }
}

/// The element of the array in a slot at an index that is below its length.
pub fn item(doc: Doc<'_>, slot: Slot, index: usize) -> Option<Slot> {
    items_from(doc, slot, index).next()
}

/// Length of the array in a slot, if it is one.
pub fn array_len(doc: Doc<'_>, slot: Slot) -> Option<usize> {
    match value(doc, slot) {
        Value::Array(array) => Some(array.count),
        Value::Typed(array) => Some(array.count),
        _ => None,
    }
}

/// Size of the value in a slot, in bytes.
pub fn size(doc: Doc<'_>, slot: Slot) -> usize {
    if slot.is_element() {
        typed(doc.at(slot.at()), slot.at()).elements.width()
    } else {
        skip(doc, slot.at()) - slot.at()
    }
}

/// True if two values are equal: numbers with their kind (`1` is not `1.0`), objects in any order.
pub fn equal(one: Doc<'_>, a: Slot, other: Doc<'_>, b: Slot) -> bool {
    match (value(one, a), value(other, b)) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Num(a), Value::Num(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Object(x), Value::Object(y)) => {
            x.count == y.count
                && members(one, x).all(|(name, at)| {
                    member(other, y, name)
                        .is_some_and(|found| equal(one, Slot::whole(at), other, Slot::whole(found)))
                })
        }
        _ => match (array_len(one, a), array_len(other, b)) {
            (Some(x), Some(y)) => {
                x == y && items(one, a).zip(items(other, b)).all(|(a, b)| equal(one, a, other, b))
            }
            _ => false,
        },
    }
}
