// SPDX-License-Identifier: BSD-3-Clause
//! A collection for tests of this crate, and of higher crates that do not know the types either.

use std::io::{self, Write};

use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use crate::object::{AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink};
use crate::value_type::Type;

/// A list of texts, without a special encoding.
#[derive(Clone, Default)]
pub struct Texts(pub Vec<Vec<u8>>);

/// Texts per request.
const BATCH: usize = 64;

static FORM: ValueForm = ValueForm::new(239, "Texts", &[Part::Members(&[Part::Text])]);

static DESCRIPTOR: Descriptor = Descriptor {
    number: Texts::TYPE,
    name: "texts",
    digest_number: 31,
    forms: &[&FORM],
    module: None,
    decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: false,
    access: AccessFns::of::<Texts>(),
};

impl ObjectType for Texts {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(31);
}

impl Collection for Texts {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }

    fn release_effort(&self) -> usize {
        self.0.len()
    }

    fn is_large(&self) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        self.duplicate()
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        for texts in self.0.chunks(BATCH) {
            let buffer = out.buffer();
            write!(buffer, "*{}\r\n", 2 + texts.len())?;
            for text in [&b"RPUSH"[..], name].into_iter().chain(texts.iter().map(Vec::as_slice)) {
                write!(buffer, "${}\r\n", text.len())?;
                buffer.extend_from_slice(text);
                buffer.extend_from_slice(b"\r\n");
            }
            out.complete()?;
        }
        Ok(())
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        self.0.iter().for_each(|text| out.mix(text));
    }
}

impl SavedObject for Texts {
    fn form(&self, _: Target) -> &'static ValueForm {
        &FORM
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(self.0.len() as u64)?;
        self.0.iter().try_for_each(|text| out.string(text))
    }

    fn member_count(&self) -> usize {
        self.0.len()
    }
}

fn decode(decoder: &mut ValueDecoder<'_>, _: RdbType, _: &Limits, _: i64) -> Result<Object, Error> {
    let mut texts = Texts::default();
    for _ in 0..decoder.members(1)? {
        texts.0.push(decoder.string()?.to_vec());
    }
    Ok(Object::new(texts))
}
