// SPDX-License-Identifier: BSD-3-Clause
//! Passing over values without decoding them, to find where they end. Nothing is checked beyond what is needed for that.

use crate::decode::{Decoder, Length};
use crate::error::Error;
use crate::kind::Kind;
use crate::source::Source;

/// What makes up the members of a collection, in order.
#[derive(Clone, Copy)]
enum Part {
    Text,
    /// A number of the length's form.
    Number,
    /// So many bytes.
    Bytes(usize),
    /// A score as text.
    ScoreText,
}

/// The value may be larger than what was allowed, is of a kind that has no known end, or is none.
pub(crate) struct NotSkipped;

impl From<Error> for NotSkipped {
    fn from(_: Error) -> NotSkipped {
        NotSkipped
    }
}

impl<S: Source> Decoder<S> {
    /// Passes over a value of this type, of up to `end` bytes from the begin of the source.
    pub(crate) fn skip_value(&mut self, kind: Kind, end: u64) -> Result<(), NotSkipped> {
        use Part::{Bytes, Number, ScoreText, Text};
        match kind {
            Kind::String
            | Kind::HashZipmap
            | Kind::ListZiplist
            | Kind::SetIntegers
            | Kind::SortedSetZiplist
            | Kind::HashZiplist
            | Kind::HashListpack
            | Kind::SortedSetListpack
            | Kind::SetListpack => self.skip_text(end),
            Kind::List | Kind::Set | Kind::ListNodesOfZiplists => self.skip_members(&[Text], end),
            Kind::ListNodes => self.skip_members(&[Number, Text], end),
            Kind::SortedSetText => self.skip_members(&[Text, ScoreText], end),
            Kind::SortedSet | Kind::SetExpiry => self.skip_members(&[Text, Bytes(8)], end),
            Kind::SortedSetExpiry => self.skip_members(&[Text, Bytes(16)], end),
            Kind::Hash => self.skip_members(&[Text, Text], end),
            Kind::HashExpiry => self.skip_members(&[Text, Text, Bytes(8)], end),
            Kind::HashExpiryRelative => {
                self.skip_bytes(8, end)?;
                self.skip_members(&[Number, Text, Text], end)
            }
            Kind::HashExpiryListpack => {
                self.skip_bytes(8, end)?;
                self.skip_text(end)
            }
            Kind::Stream1 | Kind::Stream2 | Kind::Stream3 => self.skip_stream(kind, end),
            Kind::Module | Kind::ModulePreRelease | Kind::KeyDbJob => Err(NotSkipped),
        }
    }

    fn skip_bytes(&mut self, len: u64, end: u64) -> Result<(), NotSkipped> {
        if len > end.saturating_sub(self.position()) {
            return Err(NotSkipped);
        }
        // Not more than `end`, which is something that fits into memory.
        self.take(len as usize)?;
        Ok(())
    }

    #[inline]
    fn skip_text(&mut self, end: u64) -> Result<(), NotSkipped> {
        let len = match self.length_field()? {
            Length::Plain(len) => len,
            Length::Integer(width) => width as u64,
            Length::Compressed => {
                let packed = self.length()?;
                self.length()?;
                packed
            }
        };
        self.skip_bytes(len, end)
    }

    fn skip_members(&mut self, parts: &[Part], end: u64) -> Result<(), NotSkipped> {
        for _ in 0..self.length()? {
            for part in parts {
                match *part {
                    Part::Text => self.skip_text(end)?,
                    Part::Number => drop(self.length()?),
                    Part::Bytes(len) => self.skip_bytes(len as u64, end)?,
                    Part::ScoreText => {
                        let len = self.byte()?;
                        self.skip_bytes(if len < 253 { u64::from(len) } else { 0 }, end)?;
                    }
                }
            }
            // A member may be nothing but numbers.
            if self.position() > end {
                return Err(NotSkipped);
            }
        }
        Ok(())
    }

    fn skip_stream(&mut self, kind: Kind, end: u64) -> Result<(), NotSkipped> {
        use Part::{Bytes, Text};
        self.skip_members(&[Text, Text], end)?;
        let numbers = if kind == Kind::Stream1 { 3 } else { 8 };
        for _ in 0..numbers {
            self.length()?;
        }
        for _ in 0..self.length()? {
            self.skip_text(end)?;
            let numbers = if kind == Kind::Stream1 { 2 } else { 3 };
            for _ in 0..numbers {
                self.length()?;
            }
            self.skip_members(&[Bytes(24), Part::Number], end)?;
            for _ in 0..self.length()? {
                self.skip_text(end)?;
                self.skip_bytes(if kind == Kind::Stream3 { 16 } else { 8 }, end)?;
                self.skip_members(&[Bytes(16)], end)?;
            }
        }
        Ok(())
    }
}
