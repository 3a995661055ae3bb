// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents as parts: every object, and every other value that stands in no array, is a
//! part, named by the members that lead to it. So regions that change different members of a
//! document do not disturb each other.
//!
//! An array is one part, and so is each element that a client has appended since: concurrent
//! additions stay, in the same order everywhere, after the elements that are in the array's own
//! part. Any other change of an array writes it anew, without the appended parts that the client
//! saw; of two such versions the later one wins.
//!
//! A part with a value other than an object hides the parts below it, but for the elements of an
//! array: one region has replaced an object, and another one, which had not seen that, has changed
//! a member of it. An object needs no part of its own as long as it has members that show, and an
//! array none as long as it has elements.

use std::collections::BTreeMap;
use std::iter::Peekable;

use crate::lookup::Lookup;
use crate::part_change::PartChange;
use crate::stamp::Stamp;
use crate::{Bytes, Parts};

/// The value of the part that stands for an object.
pub const OBJECT: &[u8] = b"{}";

/// Ends a member's name in the name of a part.
const END: u8 = 0;
/// Stands before the replacement of a byte of a member's name.
const ESCAPE: u8 = 1;

/// Stands after an array's name in the name of an appended element, where members have an [`END`]
/// or another byte after the [`ESCAPE`].
const ELEMENT: [u8; 2] = [ESCAPE, ESCAPE + 2];
/// Bytes of the number in such a name: seven bits each, the highest bit set.
const DIGITS: usize = 9;

/// The name of the part for an element that is appended to an array by the effect with this stamp.
/// Names are in the order of stamps.
pub(crate) fn element_of(array: &[u8], stamp: Stamp) -> Bytes {
    let digits = (0..DIGITS).rev().map(|digit| 0x80 | (stamp.word() >> (7 * digit)) as u8 & 0x7f);
    array.iter().copied().chain(ELEMENT).chain(digits).chain([END]).collect()
}

/// The array of an appended element; `None` for any other part.
fn array_of(part: &[u8]) -> Option<&[u8]> {
    let (array, rest) = part.split_at_checked(part.len().checked_sub(ELEMENT.len() + DIGITS + 1)?)?;
    let is_element = rest.starts_with(&ELEMENT) && rest.ends_with(&[END]);
    (is_element && (array.is_empty() || array.ends_with(&[END]))).then_some(array)
}

fn is_array(value: &[u8]) -> bool {
    value.starts_with(b"[") && value.ends_with(b"]")
}

/// Appends an element to an array's text.
fn push_element(array: &mut Vec<u8>, element: &[u8]) {
    array.pop();
    if array.len() > 1 {
        array.push(b',');
    }
    array.extend_from_slice(element);
    array.push(b']');
}

/// The elements that an array has in addition to those of another one, with which it begins. `None`
/// if it does not begin with them.
fn appended<'t>(from: &[u8], to: &'t [u8]) -> Option<Vec<&'t [u8]>> {
    if !is_array(from) || !is_array(to) || to.len() <= from.len() {
        return None;
    }
    let rest = to.strip_prefix(&from[..from.len() - 1])?;
    let mut rest = if from.len() > 2 { rest.strip_prefix(b",")? } else { rest };
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (element, after) = rest.split_at_checked(element_len(rest)?)?;
        elements.push(element);
        // The comma, or the end of the array.
        rest = &after[1..];
    }
    Some(elements)
}

/// The length of the first element of what is left of an array. `None` if the text is none.
fn element_len(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b',' if depth == 0 => return (at > 0).then_some(at),
            b']' if depth == 0 => return (at > 0 && at + 1 == text.len()).then_some(at),
            b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

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
    let mut live = live.peekable();
    let mut shown = Parts::new();
    // The objects around the last part.
    let mut open: Vec<Bytes> = Vec::new();
    while let Some((mut name, mut value)) = live.next() {
        while open.pop_if(|object| !name.starts_with(object)).is_some() {}
        if let Some(array) = array_of(&name) {
            // It has no part of its own, or it is an object.
            let array = Bytes::from(array);
            let elements = take_elements(&mut live, &array, push_first(&value), false);
            let has_member = live.peek().is_some_and(|(next, _)| next.starts_with(&array));
            if has_member || open.last() == Some(&array) {
                continue;
            }
            (name, value) = (array, elements);
        } else if is_array(&value) {
            value = take_elements(&mut live, &name, value.into(), true);
        }
        for object in around(&name).skip(open.len()) {
            shown.push((object.into(), OBJECT.into()));
            open.push(object.into());
        }
        match &value[..] == OBJECT {
            true => open.push(name.clone()),
            // Nothing else shows below it.
            false => while live.next_if(|(next, _)| next.starts_with(&name)).is_some() {},
        }
        shown.push((name, value));
    }
    shown
}

/// True if the value that begins with a part is an array. `next_live` gives the first part from a
/// name on that is there.
pub(crate) fn has_array(part: &[u8], next_live: impl Fn(&[u8]) -> Option<(Bytes, Bytes)>) -> bool {
    let is_member = |name: &[u8]| name.starts_with(part) && array_of(name) != Some(part);
    match next_live(part) {
        Some((name, value)) if *name == *part => is_array(&value),
        Some((name, _)) if array_of(&name) == Some(part) => {
            let after_elements = [part, &[ESCAPE, ELEMENT[1] + 1]].concat();
            !next_live(&after_elements).is_some_and(|(name, _)| is_member(&name))
        }
        _ => false,
    }
}

fn push_first(element: &[u8]) -> Vec<u8> {
    let mut array = b"[]".to_vec();
    push_element(&mut array, element);
    array
}

/// An array with the appended elements that come next. Members below it are passed over, or end it.
fn take_elements(
    live: &mut Peekable<impl Iterator<Item = (Bytes, Bytes)>>,
    array: &[u8],
    mut text: Vec<u8>,
    passes_members: bool,
) -> Bytes {
    let is_inside = |part: &[u8]| array_of(part) == Some(array) || passes_members && part.starts_with(array);
    while let Some((part, value)) = live.next_if(|(part, _)| is_inside(part)) {
        if array_of(&part) == Some(array) {
            push_element(&mut text, &value);
        }
    }
    text.into()
}

/// The changes that bring live parts to the ones that a client sees. Parts that are hidden stay,
/// unless what hides them has been written by the client.
pub(crate) fn changes(live: &BTreeMap<Bytes, Bytes>, to: &[(Bytes, Bytes)]) -> Vec<PartChange> {
    let wanted = Lookup::new(to, |(name, _)| name);
    let now = visible(live.iter().map(|(name, value)| (name.clone(), value.clone())));
    let now = Lookup::new(&now, |(name, _)| name);
    let shown = |name: &[u8]| now.get(name).map(|(_, value)| &value[..]);
    let below = |name: &[u8]| {
        let name: Bytes = name.into();
        live.range(name.clone()..).skip_while(move |(one, _)| **one == name).map(|(one, _)| one)
    };
    let is_implied = |name: &[u8], value: &[u8]| {
        let mut inside = below(name).take_while(|one| one.starts_with(name));
        value == OBJECT && inside.any(|one| wanted.has(one))
    };
    // What shows of an array is not only its own part.
    let is_same = |name: &[u8], value: &[u8]| match is_array(value) {
        true => shown(name) == Some(value),
        false => live.get(name).is_some_and(|had| had[..] == *value),
    };
    let mut all = Vec::new();
    for (name, value) in to.iter().filter(|(name, value)| !is_same(name, value)) {
        match shown(name).and_then(|had| appended(had, value)) {
            Some(elements) => {
                all.extend(elements.into_iter().map(|one| PartChange::Append(name.clone(), one.into())));
            }
            None if !live.contains_key(name) && is_implied(name, value) => {}
            None => all.push(PartChange::Write(name.clone(), value.clone())),
        }
    }
    // True if what a client sees of a part has not been written anew.
    let stays = |name: &[u8], value: &[u8]| {
        is_same(name, value) || shown(name).is_some_and(|had| had == value || appended(had, value).is_some())
    };
    for name in live.keys().filter(|name| !wanted.has(name)) {
        let is_hidden = around(name).any(|object| {
            let kept = wanted.get(object).filter(|(_, value)| stays(object, value));
            // An object hides elements, and nothing else.
            kept.is_some_and(|(_, value)| **value != *OBJECT || array_of(name) == Some(object))
        });
        if !is_hidden {
            all.push(PartChange::Remove(name.clone()));
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
    /// Appends elements to the array that is this part.
    Append(&'p [u8], Vec<&'p [u8]>),
    Remove(&'p [u8]),
}

/// The steps from one document to another, each given by its visible parts.
pub(crate) fn steps<'p>(from: &'p [(Bytes, Bytes)], to: &'p [(Bytes, Bytes)]) -> Vec<Step<'p>> {
    let had = Lookup::new(from, |(name, _)| name);
    let mut steps = Vec::new();
    let mut replaced: Vec<&[u8]> = Vec::new();
    let mut rest = to;
    while let [(name, value), after @ ..] = rest {
        let before = had.get(name).map(|(_, had)| had);
        if before == Some(value) {
            rest = after;
            continue;
        }
        if let Some(elements) = before.and_then(|had| appended(had, value)) {
            steps.push(Step::Append(name, elements));
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
    use crate::stamp::Region;

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
        let gone = PartChange::Remove(part(&["c", "d", "e"]));
        let object = |members: &[&str]| PartChange::Write(part(members), OBJECT.into());
        let (made, root, c) = (object(&["c", "d"]), object(&[]), object(&["c"]));
        let all = changes(&live, &to);
        assert!(all.contains(&gone) && all.contains(&made), "{all:?}");
        assert!(!all.contains(&root), "{all:?}");
        assert!(all.contains(&c), "{all:?}");
        // What it replaces takes the hidden parts with it.
        let to = parts(&[(&[], "{}"), (&["a"], "6")]);
        assert!(changes(&live, &to).contains(&PartChange::Remove(part(&["a", "b"]))));
    }

    fn element(array: &[&str], position: u64, value: &str) -> (Bytes, Bytes) {
        let stamp = Stamp::of(Region::new(1).unwrap(), position).unwrap();
        (element_of(&part(array), stamp), value.as_bytes().into())
    }

    #[test]
    fn appended_elements_stand_after_an_array_in_the_order_of_stamps() {
        let (one, two) = (element(&["l"], 5, "\"x,]\""), element(&["l"], 1 << 40, "{\"m\":[2]}"));
        assert_eq!(array_of(&one.0), Some(&part(&["l"])[..]));
        assert_eq!(array_of(&element(&[], 9, "1").0), Some(&b""[..]));
        assert!(
            array_of(&part(&["l"])).is_none() && array_of(&part(&["\u{1}", "\u{3}", "aaaaaaaaa"])).is_none()
        );
        let shown = |mut live: Parts| {
            live.sort();
            String::from_utf8(text(&visible(live.into_iter()))).unwrap()
        };
        let with = |base: &[(&[&str], &str)], more: &[&(Bytes, Bytes)]| {
            let mut live = parts(base);
            live.extend(more.iter().map(|one| (*one).clone()));
            live
        };
        let both = [&one, &two];
        // After the array's own elements, in its place, below a member in its place; not where it
        // is hidden.
        assert_eq!(
            shown(with(&[(&["l"], "[1]"), (&["m"], "3")], &both)),
            r#"{"l":[1,"x,]",{"m":[2]}],"m":3}"#
        );
        assert_eq!(shown(with(&[(&["l"], "[]")], &both)), r#"{"l":["x,]",{"m":[2]}]}"#);
        assert_eq!(shown(with(&[], &both)), r#"{"l":["x,]",{"m":[2]}]}"#);
        assert_eq!(shown(with(&[(&["l"], "{}")], &both)), r#"{"l":{}}"#);
        assert_eq!(shown(with(&[(&["l"], "5")], &both)), r#"{"l":5}"#);
        assert_eq!(shown(with(&[(&["l", "a"], "5")], &both)), r#"{"l":{"a":5}}"#);
        assert_eq!(shown(with(&[(&["l", ""], "5")], &both)), r#"{"l":{"":5}}"#);
        assert_eq!(
            shown(with(&[(&["l"], "[1]"), (&["l", "a"], "5"), (&["l", ""], "6")], &both)),
            r#"{"l":[1,"x,]",{"m":[2]}]}"#
        );
        assert_eq!(shown(with(&[(&[], "7")], &both)), "7");
        assert_eq!(shown(vec![element(&[], 3, "1"), element(&[], 2, "0")]), "[0,1]");
    }

    #[test]
    fn what_a_client_appends_becomes_parts() {
        let array = part(&["l"]);
        let element = element(&["l"], 5, "2");
        let live: BTreeMap<Bytes, Bytes> =
            [(array.clone(), b"[1]"[..].into()), element.clone()].into_iter().collect();
        let to = |text: &str| vec![(part(&[]), OBJECT.into()), (array.clone(), Bytes::from(text.as_bytes()))];
        let append = |value: &str| PartChange::Append(array.clone(), value.as_bytes().into());
        assert_eq!(changes(&live, &to("[1,2]")), []);
        let more = r#"[1,2,[3,"]"],"\\\"",{"a":1}]"#;
        let all = [append(r#"[3,"]"]"#), append(r#""\\\"""#), append(r#"{"a":1}"#)];
        assert_eq!(changes(&live, &to(more)), all);
        for other in ["[1]", "[2]", "[1,23]", "[]", "[1,3]", "5", "{}"] {
            let value = other.as_bytes().into();
            let all = [PartChange::Write(array.clone(), value), PartChange::Remove(element.0.clone())];
            assert_eq!(changes(&live, &to(other)), all, "{other}");
        }
        let root = PartChange::Write(part(&[]), OBJECT.into());
        let gone = [root, PartChange::Remove(array.clone()), PartChange::Remove(element.0)];
        assert_eq!(changes(&live, &to("")[..1]), gone);
        let (from, to) = (to("[1,2]"), to("[1,2,3,[]]"));
        assert_eq!(steps(&from, &to), [Step::Append(&array, vec![b"3", b"[]"])]);
        assert_eq!(steps(&to, &from).len(), 1);
        // What is no array, or ends within an element.
        let none = [
            ("[1]", "[12]"),
            ("[]", "[,]"),
            ("[1]", "[1,]"),
            ("[1]", "[1,2"),
            ("[1]", "[1],2]"),
            ("{}", "[1]"),
        ];
        assert!(none.into_iter().all(|(from, to)| appended(from.as_bytes(), to.as_bytes()).is_none()));
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
                Step::Append(..) => panic!("there are no arrays"),
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
