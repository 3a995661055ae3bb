// SPDX-License-Identifier: BSD-3-Clause
//! Any text is either refused or a JSON document that prints as an equal one; any path is either
//! refused or finds values that can be replaced and removed, and the document stays sound.
//!
//! The first byte is the length of the path, which follows; the rest is the text.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&len, rest)) = input.split_first() else { return };
    let (path, text) = rest.split_at(usize::from(len).min(rest.len()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    braid_values::json::check(text, path);
});
