// SPDX-License-Identifier: BSD-3-Clause
//! Any text is either refused or a JSON document that prints as an equal one; any path is either
//! refused or finds values that can be replaced and removed, and the document stays sound. Numbers
//! that have become ones of a type of FPHA stay as they are when they become ones of it again.
//!
//! The first byte is the length of the path, which follows; the rest is the text.

#![no_main]

use braid_values::json::doc::Doc;
use braid_values::json::floats::FloatType;
use braid_values::json::packed::Slot;
use braid_values::json::parse::parse_with;
use braid_values::json::print;
use libfuzzer_sys::fuzz_target;

fn check_floats(text: &str, kind: FloatType) {
    let Ok(bytes) = parse_with(text, Some(kind)) else { return };
    let mut printed = Vec::new();
    print::compact(Doc::flat(&bytes), Slot::whole(0), &mut printed);
    let printed = std::str::from_utf8(&printed).expect("printed text is UTF-8");
    assert_eq!(parse_with(printed, Some(kind)).as_ref(), Ok(&bytes), "{kind:?} changed when rounded again");
}

fuzz_target!(|input: &[u8]| {
    let Some((&len, rest)) = input.split_first() else { return };
    let (path, text) = rest.split_at(usize::from(len).min(rest.len()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    braid_values::json::check(text, path);
    [FloatType::Bf16, FloatType::F16, FloatType::F32].into_iter().for_each(|kind| check_floats(text, kind));
});
