// SPDX-License-Identifier: BSD-3-Clause
//! Fields of 0 to 64 bits, packed into words from the lowest bit on.

/// Appends a field of `len` bits at bit `at`, the end of what has been written.
#[inline]
pub(super) fn put(words: &mut Vec<u64>, at: u32, value: u64, len: u32) {
    if len == 0 {
        return;
    }
    let value = value & (u64::MAX >> (64 - len));
    let used = at % 64;
    if used == 0 {
        words.push(value);
        return;
    }
    if let Some(last) = words.last_mut() {
        *last |= value << used;
    }
    if used + len > 64 {
        words.push(value >> (64 - used));
    }
}

/// Reads fields one after another. Beyond the end it reads zeros.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    words: &'a [u64],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(words: &'a [u64]) -> Reader<'a> {
        Reader { words, at: 0 }
    }

    /// Position of the next field.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next 64 bits, which stay unread.
    #[inline]
    pub fn peek(&self) -> u64 {
        let (word, used) = (self.at / 64, self.at % 64);
        let (low, high) = match self.words.get(word..word + 2) {
            Some(&[low, high]) => (low, high),
            _ => (self.words.get(word).copied().unwrap_or(0), 0),
        };
        // In two steps, since nothing is shifted in if nothing has been used.
        low >> used | high << 1 << (63 - used)
    }

    #[inline]
    pub fn skip(&mut self, len: u32) {
        self.at += len as usize;
    }

    /// The next field of `len` bits.
    #[inline]
    pub fn take(&mut self, len: u32) -> u64 {
        if len == 0 {
            return 0;
        }
        let value = self.peek() & (u64::MAX >> (64 - len));
        self.skip(len);
        value
    }
}
