// SPDX-License-Identifier: BSD-3-Clause
//! Reading the arguments of FT.* commands, with RediSearch's words for what is wrong.

use std::str::FromStr;

use braid_spec::CommandError;

/// An error in RediSearch's words, which have no code.
pub fn error(text: impl Into<String>) -> CommandError {
    CommandError::text(text.into())
}

/// Bytes as text; what is not UTF-8 is replaced.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Arguments being read, one after the other.
#[derive(Clone)]
pub struct Arguments<'a> {
    all: &'a [&'a [u8]],
    at: usize,
}

impl<'a> Arguments<'a> {
    pub fn new(all: &'a [&'a [u8]]) -> Arguments<'a> {
        Arguments { all, at: 0 }
    }

    pub fn rest(&self) -> &'a [&'a [u8]] {
        &self.all[self.at.min(self.all.len())..]
    }

    /// How many have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    pub fn skip(&mut self, count: usize) {
        self.at += count;
    }

    pub fn peek(&self) -> Option<&'a [u8]> {
        self.rest().first().copied()
    }

    pub fn next(&mut self) -> Option<&'a [u8]> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    /// Whether the next one is this word.
    pub fn is(&self, word: &str) -> bool {
        self.peek().is_some_and(|one| one.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Reads this word if it is the next one.
    pub fn take(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    /// The next one, which belongs to `of`.
    ///
    /// # Errors
    /// If there is none.
    pub fn value(&mut self, of: &str) -> Result<&'a [u8], CommandError> {
        self.next()
            .ok_or_else(|| error(format!("Bad arguments for {of}: Expected an argument, but none provided")))
    }

    /// The next one as a number.
    ///
    /// # Errors
    /// If there is none, or it is no number of this type.
    pub fn number<T: FromStr>(&mut self, of: &str) -> Result<T, CommandError> {
        let text = self.value(of)?;
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| {
            error(format!("Bad arguments for {of}: Could not convert argument to expected type"))
        })
    }

    /// A count, and so many arguments.
    ///
    /// # Errors
    /// If the count is no number, or there are fewer.
    pub fn counted(&mut self, of: &str) -> Result<&'a [&'a [u8]], CommandError> {
        let count: usize = self.number(of)?;
        let Some(found) = self.rest().get(..count) else {
            return Err(error(format!("Bad arguments for {of}: Expected an argument, but none provided")));
        };
        self.at += count;
        Ok(found)
    }
}
