// SPDX-License-Identifier: BSD-3-Clause
//! Builds packed bytes (`packed.rs`) from values in document order.
//!
//! A container's header is written when it ends, once its length is known: three bytes are kept
//! free for it, and the content moves only if that is too little. An array of which all elements
//! are integers, or all floating-point numbers, becomes an array of the narrowest type that holds
//! them exactly. Duplicate names of an object are reduced to the last value, in the first one's
//! place.

use std::collections::HashMap;

use super::doc::Doc;
use super::floats::{BF16, F16, FloatType, widen};
use super::number::{Num, SCALE_MAX, as_decimal, at_scale};
use super::packed::{self, Elements, Slot, Value};

/// Bytes kept free for the header of a container.
const HEADER: usize = 3;
/// From this many members on, names are compared through a table.
const MANY: usize = 16;

#[derive(Default)]
struct Frame {
    /// Offset of the tag.
    start: usize,
    count: u32,
    integers: u32,
    floats: u32,
    /// A bit for each hash of a name so far.
    names: u64,
    is_object: bool,
    /// Two names had the same hash.
    may_repeat: bool,
}

/// See above.
#[derive(Default)]
pub struct Builder {
    out: Vec<u8>,
    frames: Vec<Frame>,
}

impl Builder {
    pub fn with_capacity(bytes: usize) -> Builder {
        Builder { out: Vec::with_capacity(bytes), frames: Vec::new() }
    }

    /// The finished bytes.
    pub fn finish(self) -> Vec<u8> {
        debug_assert!(self.frames.is_empty());
        self.out
    }

    #[inline]
    fn count(&mut self) {
        if let Some(frame) = self.frames.last_mut()
            && !frame.is_object
        {
            frame.count += 1;
        }
    }

    pub fn null(&mut self) {
        self.count();
        self.out.push(packed::NULL);
    }

    pub fn boolean(&mut self, value: bool) {
        self.count();
        self.out.push(if value { packed::TRUE } else { packed::FALSE });
    }

    #[inline]
    pub fn number(&mut self, value: Num) {
        if let Some(frame) = self.frames.last_mut()
            && !frame.is_object
        {
            frame.count += 1;
            frame.integers += u32::from(matches!(value, Num::Int(_)));
            frame.floats += u32::from(value.is_float());
        }
        push_number(&mut self.out, value);
    }

    #[inline]
    pub fn string(&mut self, text: &[u8]) {
        self.count();
        push_string_head(&mut self.out, text.len());
        self.out.extend_from_slice(text);
    }

    /// The name of the next member of the object.
    #[inline]
    pub fn name(&mut self, name: &[u8]) {
        let frame = self.frames.last_mut().expect("an object has begun");
        frame.count += 1;
        let hash = name_hash(name);
        frame.may_repeat |= frame.names >> hash & 1 == 1;
        frame.names |= 1 << hash;
        push_name(&mut self.out, name);
    }

    pub fn begin_object(&mut self) {
        self.begin(true);
    }

    pub fn begin_array(&mut self) {
        self.begin(false);
    }

    fn begin(&mut self, is_object: bool) {
        self.count();
        self.frames.push(Frame { start: self.out.len(), is_object, ..Frame::default() });
        self.out.extend_from_slice(&[0; HEADER]);
    }

    /// Ends an array; if it consists of numbers, they become ones of this type.
    ///
    /// # Errors
    /// The position of a number that is too large for the type.
    pub fn end_array_of(&mut self, kind: FloatType) -> Result<(), usize> {
        let frame = self.frames.last_mut().expect("an array has begun");
        let content = &self.out[frame.start + HEADER..];
        let (mut numbers, mut at) = (Vec::with_capacity(frame.count as usize), 0);
        while at < content.len()
            && let Value::Num(number) = packed::value(Doc::flat(content), Slot::whole(at))
        {
            numbers.push(number.as_f64());
            at = packed::skip(Doc::flat(content), at);
        }
        if at == content.len() {
            self.out.truncate(frame.start + HEADER);
            (frame.integers, frame.floats) = (0, frame.count);
            for (index, &number) in numbers.iter().enumerate() {
                push_number(&mut self.out, Num::Float(kind.fit(number).ok_or(index)?));
            }
        }
        self.end();
        Ok(())
    }

    pub fn end(&mut self) {
        let frame = self.frames.pop().expect("a container has begun");
        if frame.may_repeat {
            self.remove_repeated(frame.start, frame.count as usize);
            return;
        }
        if !frame.is_object
            && frame.count > 1
            && (frame.integers == frame.count || frame.floats == frame.count)
        {
            self.make_typed(&frame);
            return;
        }
        finish_header(&mut self.out, frame.start, frame.count as usize, frame.is_object);
    }

    /// Appends a value of other packed bytes.
    pub fn copy(&mut self, doc: Doc<'_>, slot: Slot) {
        if let Value::Num(value) = packed::value(doc, slot) {
            self.number(value);
        } else {
            self.count();
            doc.copy(slot.at()..packed::skip(doc, slot.at()), &mut self.out);
        }
    }

    /// Replaces an object of which names may repeat by one in which they do not.
    #[cold]
    fn remove_repeated(&mut self, start: usize, count: usize) {
        let content = self.out.split_off(start + HEADER);
        let object = packed::Container { count, start: 0, end: content.len() };
        let kept = last_of_each(&content, object);
        for &(name, at) in &kept {
            push_name(&mut self.out, name);
            self.out.extend_from_slice(&content[at..packed::skip(Doc::flat(&content), at)]);
        }
        finish_header(&mut self.out, start, kept.len(), true);
    }

    fn make_typed(&mut self, frame: &Frame) {
        let content = self.out.split_off(frame.start + HEADER);
        self.out.truncate(frame.start);
        let mut numbers = Vec::with_capacity(frame.count as usize);
        let mut at = 0;
        while at < content.len() {
            numbers.push(packed::number(&content[at..]));
            at = packed::skip(Doc::flat(&content), at);
        }
        push_typed(&mut self.out, &numbers);
    }
}

#[inline]
fn name_hash(name: &[u8]) -> u32 {
    let (first, last) = (name.first().copied().unwrap_or(0), name.last().copied().unwrap_or(0));
    let middle = name.get(name.len() / 2).copied().unwrap_or(0);
    let mix = u32::from(first)
        .wrapping_mul(31)
        .wrapping_add(u32::from(last).wrapping_mul(7))
        .wrapping_add(u32::from(middle).wrapping_mul(131))
        .wrapping_add(name.len() as u32 * 17);
    mix % 64
}

/// The members in order of their first names, each with its last value.
fn last_of_each(content: &[u8], object: packed::Container) -> Vec<(&[u8], usize)> {
    let mut kept: Vec<(&[u8], usize)> = Vec::with_capacity(object.count);
    if object.count < MANY {
        for (name, at) in packed::members(Doc::flat(content), object) {
            match kept.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = at,
                None => kept.push((name, at)),
            }
        }
        return kept;
    }
    let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(object.count);
    for (name, at) in packed::members(Doc::flat(content), object) {
        match places.entry(name) {
            std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()].1 = at,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push((name, at));
            }
        }
    }
    kept
}

/// Appends a name.
pub fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    if name.len() <= packed::NAME_MAX {
        out.push(name.len() as u8);
    } else {
        out.push(packed::LONG_NAME);
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(name);
}

fn push_string_head(out: &mut Vec<u8>, len: usize) {
    if len < 128 {
        out.push(packed::SHORT + len as u8);
    } else if len <= 0xff {
        out.extend_from_slice(&[packed::STRING, len as u8]);
    } else if len <= 0xffff {
        out.push(packed::STRING + 1);
        out.extend_from_slice(&(len as u16).to_le_bytes());
    } else {
        out.push(packed::STRING + 2);
        out.extend_from_slice(&(len as u32).to_le_bytes());
    }
}

/// Appends a number in its shortest form.
pub fn push_number(out: &mut Vec<u8>, value: Num) {
    match value {
        Num::Int(value @ 0..=63) => out.push(packed::SMALL + value as u8),
        Num::Int(value) => {
            if let Ok(value) = i8::try_from(value) {
                out.extend_from_slice(&[packed::I8, value as u8]);
            } else if let Ok(value) = i16::try_from(value) {
                out.push(packed::I16);
                out.extend_from_slice(&value.to_le_bytes());
            } else if let Ok(value) = i32::try_from(value) {
                out.push(packed::I32);
                out.extend_from_slice(&value.to_le_bytes());
            } else {
                out.push(packed::I64);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        Num::Unsigned(value) => {
            out.push(packed::U64);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Num::Float(value) => push_float(out, value),
    }
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    if let Some((mantissa, scale)) = as_decimal(value) {
        if let Ok(mantissa) = i8::try_from(mantissa) {
            out.extend_from_slice(&[packed::DEC8, scale, mantissa as u8]);
        } else if let Ok(mantissa) = i16::try_from(mantissa) {
            out.extend_from_slice(&[packed::DEC16, scale]);
            out.extend_from_slice(&mantissa.to_le_bytes());
        } else {
            out.extend_from_slice(&[packed::DEC32, scale]);
            out.extend_from_slice(&mantissa.to_le_bytes());
        }
        return;
    }
    let narrow = value as f32;
    if f64::from(narrow).to_bits() == value.to_bits() {
        out.push(packed::F32);
        out.extend_from_slice(&narrow.to_le_bytes());
    } else {
        out.push(packed::F64);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends an array of numbers that are all integers (`Num::Int`) or all floating-point numbers.
fn push_typed(out: &mut Vec<u8>, numbers: &[Num]) {
    let (elements, scale) = narrowest(numbers);
    let code = packed::TYPED + 2 * elements as u8;
    match u8::try_from(numbers.len()) {
        Ok(count) => out.extend_from_slice(&[code, count]),
        Err(_) => {
            out.push(code + 1);
            out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
        }
    }
    if elements.has_scale() {
        out.push(scale);
    }
    numbers.iter().for_each(|&number| push_element(out, elements, scale, number));
}

/// Appends an element, which its type holds exactly.
fn push_element(out: &mut Vec<u8>, elements: Elements, scale: u8, number: Num) {
    let integer = if let Num::Int(value) = number { value } else { 0 };
    let float = number.as_f64();
    match elements {
        Elements::I8 => out.push(integer as u8),
        Elements::I16 => out.extend_from_slice(&(integer as i16).to_le_bytes()),
        Elements::I32 => out.extend_from_slice(&(integer as i32).to_le_bytes()),
        Elements::I64 => out.extend_from_slice(&integer.to_le_bytes()),
        Elements::Dec16 => {
            out.extend_from_slice(&(at_scale(float, scale).unwrap_or(0) as i16).to_le_bytes());
        }
        Elements::Dec32 => out.extend_from_slice(&at_scale(float, scale).unwrap_or(0).to_le_bytes()),
        Elements::F32 | Elements::F32Decimal => out.extend_from_slice(&(float as f32).to_le_bytes()),
        Elements::F64 => out.extend_from_slice(&float.to_le_bytes()),
        Elements::F16Decimal => out.extend_from_slice(&F16.bits(float).to_le_bytes()),
        Elements::Bf16Decimal => out.extend_from_slice(&BF16.bits(float).to_le_bytes()),
    }
}

/// The bytes of an element, if an array of this type holds the number exactly.
pub fn element(elements: Elements, scale: u8, number: Num) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(8);
    add_element(&mut out, elements, scale, number).then_some(out)
}

/// Adds the bytes of [`element`]; false if there are none.
pub fn add_element(out: &mut Vec<u8>, elements: Elements, scale: u8, number: Num) -> bool {
    let fits = match (elements, number) {
        (Elements::I8, Num::Int(value)) => i8::try_from(value).is_ok(),
        (Elements::I16, Num::Int(value)) => i16::try_from(value).is_ok(),
        (Elements::I32, Num::Int(value)) => i32::try_from(value).is_ok(),
        (Elements::I64, Num::Int(_)) | (Elements::F64, Num::Float(_)) => true,
        (Elements::Dec16, Num::Float(value)) => {
            at_scale(value, scale).is_some_and(|mantissa| i16::try_from(mantissa).is_ok())
        }
        (Elements::Dec32, Num::Float(value)) => at_scale(value, scale).is_some(),
        (Elements::F32, Num::Float(value)) => f64::from(value as f32).to_bits() == value.to_bits(),
        (Elements::F32Decimal, Num::Float(value)) => is_f32_decimal(value),
        (Elements::F16Decimal, Num::Float(value)) => F16.is_decimal(value),
        (Elements::Bf16Decimal, Num::Float(value)) => BF16.is_decimal(value),
        _ => false,
    };
    if fits {
        push_element(out, elements, scale, number);
    }
    fits
}

fn is_f32_decimal(value: f64) -> bool {
    let narrow = value as f32;
    narrow.is_finite() && widen(narrow).to_bits() == value.to_bits()
}

fn narrowest(numbers: &[Num]) -> (Elements, u8) {
    if numbers.iter().all(|number| !number.is_float()) {
        let (mut least, mut most) = (0, 0);
        for number in numbers {
            if let Num::Int(value) = *number {
                (least, most) = (value.min(least), value.max(most));
            }
        }
        let holds = |min: i64, max: i64| least >= min && most <= max;
        let elements = if holds(i64::from(i8::MIN), i64::from(i8::MAX)) {
            Elements::I8
        } else if holds(i64::from(i16::MIN), i64::from(i16::MAX)) {
            Elements::I16
        } else if holds(i64::from(i32::MIN), i64::from(i32::MAX)) {
            Elements::I32
        } else {
            Elements::I64
        };
        return (elements, 0);
    }
    let floats = || numbers.iter().map(|number| number.as_f64());
    // The largest scale among the numbers must hold them all.
    let (mut scale, mut holds_all) = (0, false);
    let is_decimal = floats().all(|value| {
        let found = if scale == 0 { as_decimal(value).map(|(_, scale)| scale) } else { wider(value, scale) };
        found.map(|found| scale = scale.max(found)).is_some()
    });
    if is_decimal {
        let mut widest = 0_u32;
        let fits = floats().all(|value| {
            let mantissa = at_scale(value, scale);
            widest = widest.max(mantissa.map_or(0, i32::unsigned_abs));
            mantissa.is_some()
        });
        if fits && widest <= i16::MAX as u32 {
            return (Elements::Dec16, scale);
        }
        holds_all = fits;
    }
    for (elements, short) in [(Elements::F16Decimal, F16), (Elements::Bf16Decimal, BF16)] {
        if floats().all(|value| short.is_decimal(value)) {
            return (elements, 0);
        }
    }
    if holds_all {
        return (Elements::Dec32, scale);
    }
    if floats().all(|value| f64::from(value as f32).to_bits() == value.to_bits()) {
        (Elements::F32, 0)
    } else if floats().all(is_f32_decimal) {
        (Elements::F32Decimal, 0)
    } else {
        (Elements::F64, 0)
    }
}

/// The scale at which a number is a decimal: the given one if possible, which is the usual case.
fn wider(value: f64, scale: u8) -> Option<u8> {
    debug_assert!(scale <= SCALE_MAX);
    match at_scale(value, scale) {
        Some(_) => Some(scale),
        None => as_decimal(value).map(|(_, scale)| scale),
    }
}

/// The header of a container whose content has this many bytes and members.
pub fn header(len: usize, count: usize, is_object: bool) -> ([u8; 9], usize) {
    let base = if is_object { packed::OBJECT } else { packed::ARRAY };
    let mut head = [0; 9];
    let width = if len <= 0xff {
        (head[1], head[2]) = (len as u8, count as u8);
        1
    } else if len <= 0xffff {
        head[1..3].copy_from_slice(&(len as u16).to_le_bytes());
        head[3..5].copy_from_slice(&(count as u16).to_le_bytes());
        2
    } else {
        head[1..5].copy_from_slice(&(len as u32).to_le_bytes());
        head[5..9].copy_from_slice(&(count as u32).to_le_bytes());
        4
    };
    head[0] = base + (width as u8).trailing_zeros() as u8;
    (head, 1 + 2 * width)
}

/// Writes the header of the container that begins at `start` and whose content ends the bytes.
fn finish_header(out: &mut Vec<u8>, start: usize, count: usize, is_object: bool) {
    let len = out.len() - start - HEADER;
    let (head, size) = header(len, count, is_object);
    if size > HEADER {
        let more = size - HEADER;
        out.resize(out.len() + more, 0);
        let end = out.len() - more;
        out.copy_within(start + HEADER..end, start + size);
    }
    out[start..start + size].copy_from_slice(&head[..size]);
}
