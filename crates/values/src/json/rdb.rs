// SPDX-License-Identifier: BSD-3-Clause
//! Documents in dump files and DUMP: the form of Redis's JSON module, found by comparing its DUMPs.
//!
//! ```text
//! 7                 a module's value
//! module's ID       "ReJSON-RL" in nine characters of 6 bits, then the version 3 of the form
//! 5, text           a string: the document as compact text
//! 0                 the end
//! ```
//! Redis Stack and Redis 8 read it. Other servers have no such type; for them the key is left out.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::parse::parse;
use super::value::Json;

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x45e2_5238_df91_2c03;
const STRING: u64 = 5;
const END: u64 = 0;

impl SavedObject for Json {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(ID)?;
        out.length(STRING)?;
        out.string(&self.text())?;
        out.length(END)
    }
}

/// Reads a document, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let opcode = decoder.length()?;
    decoder.ensure(opcode == STRING, "a JSON document that is not a text")?;
    let text = decoder.string()?;
    let parsed = std::str::from_utf8(text).ok().and_then(|text| parse(text).ok());
    let document = parsed.and_then(|bytes| Json::new(&bytes).ok());
    let document = document.ok_or_else(|| decoder.corrupt("an invalid JSON document"))?;
    let end = decoder.length()?;
    decoder.ensure(end == END, "a JSON document with more than a text")?;
    Ok(Object::new(document))
}
