// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents as parts: every object, and every other value that stands in no array, is a
//! part, named by the members that lead to it. So regions that change different members of a
//! document do not disturb each other. An array is one part: of two versions of it the later one
//! wins.
//!
//! A part with a value other than an object hides the parts below it: one region has replaced an
//! object, and another one, which had not seen that, has changed a member of it. An object needs
//! no part of its own as long as it has members that show.

use std::collections::BTreeMap;

use crate::lookup::Lookup;
use crate::{Bytes, Parts};

/// The value of the part that stands for an object.
pub const OBJECT: &[u8] = b"{}";

/// Ends a member's name in the name of a part.
const END: u8 = 0;
/// Stands before the replacement of a byte of a member's name.
const ESCAPE: u8 = 1;

/// Extends the name of an object's part to that of a member.
pub fn push_member(part: &mut Vec<u8>, member: &[u8]) {
    for byte in member {
        match *byte {
            END | ESCAPE => part.extend([ESCAPE, byte + 1]),
            byte => part.push(byte),
        }
    }
    part.push(END);
}

/// The names of the members that lead to a part.
fn members(part: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let escaped = part.split_inclusive(|byte| *byte == END).map(|one| &one[..one.len() - 1]);
    escaped.map(|escaped| {
        let mut bytes = escaped.iter();
        let mut member = Vec::with_capacity(escaped.len());
        while let Some(&byte) = bytes.next() {
            member.push(if byte == ESCAPE { bytes.next().map_or(byte, |next| next - 1) } else { byte });
        }
        member
    })
}

/// The parts of the objects around a part, from outside inwards.
fn around(part: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inside = part.len().saturating_sub(1);
    let ends = part.iter().enumerate().filter(move |(at, byte)| **byte == END && *at < inside);
    (!part.is_empty()).then_some(&part[..0]).into_iter().chain(ends.map(|(at, _)| &part[..=at]))
}

/// The part of the object that has a part as a member.
pub(crate) fn object_of(part: &[u8]) -> Option<&[u8]> {
    around(part).last()
}

/// The parts that show, with those of all objects.
pub(crate) fn visible(live: impl Iterator<Item = (Bytes, Bytes)>) -> Parts {
    let mut shown = Parts::new();
    // The last part that hides those below it, and the innermost object.
    let mut hides: Option<Bytes> = None;
    let mut open: Vec<Bytes> = Vec::new();
    for (name, value) in live {
        if hides.as_ref().is_some_and(|above| name.starts_with(above)) {
            continue;
        }
        while open.pop_if(|object| !name.starts_with(object)).is_some() {}
        for object in around(&name).skip(open.len()) {
            shown.push((object.into(), OBJECT.into()));
            open.push(object.into());
        }
        match &value[..] == OBJECT {
            true => open.push(name.clone()),
            false => hides = Some(name.clone()),
        }
        shown.push((name, value));
    }
    shown
}

/// The changes that bring live parts to the ones that a client sees: `None` removes a part. Parts
/// that are hidden stay, unless what hides them has been written by the client.
pub(crate) fn changes(live: &BTreeMap<Bytes, Bytes>, to: &[(Bytes, Bytes)]) -> Vec<(Bytes, Option<Bytes>)> {
    let wanted = Lookup::new(to, |(name, _)| name);
    let below = |name: &[u8]| {
        let name: Bytes = name.into();
        live.range(name.clone()..).skip_while(move |(one, _)| **one == name).map(|(one, _)| one)
    };
    let is_implied = |name: &[u8], value: &[u8]| {
        let mut inside = below(name).take_while(|one| one.starts_with(name));
        value == OBJECT && inside.any(|one| wanted.has(one))
    };
    let is_same = |name: &[u8], value: &[u8]| live.get(name).is_some_and(|had| had[..] == *value);
    let written = to.iter().filter(|(name, value)| match live.contains_key(name) {
        true => !is_same(name, value),
        false => !is_implied(name, value),
    });
    let mut all: Vec<(Bytes, Option<Bytes>)> =
        written.map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    for name in live.keys().filter(|name| !wanted.has(name)) {
        let is_hidden = around(name).any(|object| {
            wanted.get(object).is_some_and(|(_, value)| **value != *OBJECT && is_same(object, value))
        });
        if !is_hidden {
            all.push((name.clone(), None));
        }
    }
    all
}

/// Appends a JSON string.
fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match *byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            byte @ 0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

/// The text of the value that begins with the first of these visible parts, which has all others
/// inside it.
pub(crate) fn text(parts: &[(Bytes, Bytes)]) -> Vec<u8> {
    let (mut out, mut open) = (Vec::new(), Vec::<&[u8]>::new());
    for (name, value) in parts {
        while open.pop_if(|object| !name.starts_with(object)).is_some() {
            out.push(b'}');
        }
        if let Some(object) = open.last() {
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            push_string(&members(&name[object.len()..]).next().unwrap_or_default(), &mut out);
            out.push(b':');
        }
        if &value[..] == OBJECT {
            out.push(b'{');
            open.push(name);
        } else {
            out.extend_from_slice(value);
        }
    }
    out.resize(out.len() + open.len(), b'}');
    out
}

/// The JSONPath of a part.
pub(crate) fn path(part: &[u8]) -> Vec<u8> {
    let mut out = vec![b'$'];
    for member in members(part) {
        out.push(b'[');
        push_string(&member, &mut out);
        out.push(b']');
    }
    out
}

/// A change of a document at one path.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step<'p> {
    /// Writes the value that begins with the first of these parts.
    Set(&'p [(Bytes, Bytes)]),
    Remove(&'p [u8]),
}

/// The steps from one document to another, each given by its visible parts.
pub(crate) fn steps<'p>(from: &'p [(Bytes, Bytes)], to: &'p [(Bytes, Bytes)]) -> Vec<Step<'p>> {
    let had = Lookup::new(from, |(name, _)| name);
    let mut steps = Vec::new();
    let mut replaced: Vec<&[u8]> = Vec::new();
    let mut rest = to;
    while let [(name, value), after @ ..] = rest {
        if had.get(name).is_some_and(|(_, had)| had == value) {
            rest = after;
            continue;
        }
        let inside = 1 + after.iter().take_while(|(one, _)| one.starts_with(name)).count();
        steps.push(Step::Set(&rest[..inside]));
        replaced.push(name);
        rest = &rest[inside..];
    }
    let kept = Lookup::new(to, |(name, _)| name);
    let mut gone: Option<&[u8]> = None;
    for (name, _) in from.iter().filter(|(name, _)| !kept.has(name)) {
        let is_inside = |object: &[u8]| name.starts_with(object);
        if gone.is_some_and(is_inside) || around(name).any(|object| replaced.binary_search(&object).is_ok()) {
            continue;
        }
        steps.push(Step::Remove(name));
        gone = Some(name);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(members: &[&str]) -> Bytes {
        let mut name = Vec::new();
        members.iter().for_each(|member| push_member(&mut name, member.as_bytes()));
        name.into()
    }

    fn parts(all: &[(&[&str], &str)]) -> Parts {
        let mut parts: Parts =
            all.iter().map(|(members, value)| (part(members), value.as_bytes().into())).collect();
        parts.sort();
        parts
    }

    #[test]
    fn names_lead_back_to_members() {
        let names = ["a", "", "\u{0}\u{1}\u{2}", "é\""];
        let part = part(&names);
        assert!(members(&part).eq(names.map(|name| name.as_bytes().to_vec())));
        assert_eq!(around(&part).count(), names.len());
        assert_eq!(path(&part), "$[\"a\"][\"\"][\"\\u0000\\u0001\\u0002\"][\"é\\\"\"]".as_bytes());
        assert_eq!(around(b"").count(), 0);
    }

    #[test]
    fn a_value_hides_what_is_below_it() {
        let live = parts(&[(&["a"], "5"), (&["a", "b"], "1"), (&["ab"], "2"), (&["c", "d", "e"], "[1]")]);
        let shown = visible(live.clone().into_iter());
        assert_eq!(text(&shown), br#"{"a":5,"ab":2,"c":{"d":{"e":[1]}}}"#);
        // A client that sees this changes nothing.
        let live: BTreeMap<Bytes, Bytes> = live.into_iter().collect();
        assert_eq!(changes(&live, &shown), []);
        // It gives the object the last member of which it removes a part of its own.
        let to = parts(&[(&[], "{}"), (&["a"], "5"), (&["ab"], "2"), (&["c"], "{}"), (&["c", "d"], "{}")]);
        let gone = part(&["c", "d", "e"]);
        let made = (part(&["c", "d"]), Some(OBJECT.into()));
        let all = changes(&live, &to);
        let root = (part(&[]), Some(OBJECT.into()));
        let c = (part(&["c"]), Some(OBJECT.into()));
        assert!(all.contains(&(gone, None)) && all.contains(&made), "{all:?}");
        assert!(!all.contains(&root), "{all:?}");
        assert!(all.contains(&c), "{all:?}");
        // What it replaces takes the hidden parts with it.
        let to = parts(&[(&[], "{}"), (&["a"], "6")]);
        assert!(changes(&live, &to).contains(&(part(&["a", "b"]), None)));
    }

    #[test]
    fn steps_are_as_few_as_paths_change() {
        let from =
            parts(&[(&[], "{}"), (&["a"], "{}"), (&["a", "b"], "1"), (&["a", "c"], "2"), (&["x"], "3")]);
        let to =
            parts(&[(&[], "{}"), (&["a"], "{}"), (&["a", "b"], "7"), (&["y"], "{}"), (&["y", "z"], "null")]);
        let texts: Vec<String> = steps(&from, &to)
            .into_iter()
            .map(|step| match step {
                Step::Set(parts) => {
                    format!("{} {}", path(&parts[0].0).escape_ascii(), text(parts).escape_ascii())
                }
                Step::Remove(name) => format!("{}", path(name).escape_ascii()),
            })
            .collect();
        let expected =
            [r#"$[\"a\"][\"b\"] 7"#, r#"$[\"y\"] {\"z\":null}"#, r#"$[\"a\"][\"c\"]"#, r#"$[\"x\"]"#];
        assert_eq!(texts, expected);
        // An object in place of a value, and the other way round.
        let value = parts(&[(&[], "{}"), (&["a"], "5"), (&["x"], "3")]);
        assert_eq!(steps(&from, &value).len(), 1);
        assert_eq!(steps(&value, &from).len(), 1);
        assert_eq!(steps(&from, &parts(&[(&[], "[1]")])).len(), 1);
    }
}
