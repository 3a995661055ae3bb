// SPDX-License-Identifier: BSD-3-Clause
//! Suggestions in dump files and DUMP: the form of Redis's search module, found by comparing its
//! DUMPs.
//!
//! ```text
//! 7                 a module's value
//! module's ID       "trietype0" in nine characters of 6 bits, then the version 1 of the form
//! 2, number         texts
//! each text:        5, the text and a zero byte; 4, its score as a double of 8 bytes;
//!                   5, its payload and a zero byte: only that byte if there is none
//! 0                 the end
//! ```
//! Redis Stack reads it. Other servers have no such type; for them the key is left out.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::value::Suggestions;
use crate::module_fields::{
    read_double, read_end, read_number, read_text, write_double, write_end, write_number, write_text,
};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0xb6b8_9eb7_2a5e_d001;

impl SavedObject for Suggestions {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(ID)?;
        write_number(out, self.len() as u64)?;
        let mut bytes = Vec::new();
        for entry in self.iter() {
            let texts = [entry.text.as_bytes(), entry.payload.as_deref().unwrap_or_default()];
            for (at, text) in texts.into_iter().enumerate() {
                bytes.clear();
                bytes.extend_from_slice(text);
                bytes.push(0);
                write_text(out, &bytes)?;
                if at == 0 {
                    write_double(out, f64::from(entry.score))?;
                }
            }
        }
        write_end(out)
    }
}

/// A string, without the byte at its end, which is not always zero in payloads.
fn text(decoder: &mut ValueDecoder<'_>) -> Result<Vec<u8>, Error> {
    let mut text = read_text(decoder)?.to_vec();
    let last = text.pop();
    decoder.ensure(last.is_some(), "a suggestion without a byte at its end")?;
    Ok(text)
}

/// Reads suggestions, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let count = read_number(decoder)?;
    let mut suggestions = Suggestions::default();
    for _ in 0..count {
        let word = text(decoder)?;
        let score = read_double(decoder)?;
        decoder.ensure(!score.is_nan(), "a suggestion whose score is not a number")?;
        let payload = text(decoder)?;
        let payload = (!payload.is_empty()).then_some(&payload[..]);
        suggestions.add(&String::from_utf8_lossy(&word), score as f32, false, payload);
    }
    read_end(decoder)?;
    Ok(Object::new(suggestions))
}
