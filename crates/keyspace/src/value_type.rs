// SPDX-License-Identifier: BSD-3-Clause
//! The type of a value, as a number. The table of types (`object.rs`) has each type's name and
//! operations.

/// The number of a value's type. Strings are 0; each other type's number is in its descriptor
/// (`object.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type(u8);

impl Type {
    pub const STRING: Type = Type(0);
    /// Number of possible type numbers.
    pub(crate) const NUMBERS: usize = 32;

    /// The type with this number: 1 to 31, but no multiple of 8 (an entry would read it as a
    /// string).
    ///
    /// # Panics
    /// For any other number; at compile time if the type is a constant.
    pub const fn new(number: u8) -> Type {
        assert!(number < Type::NUMBERS as u8 && !number.is_multiple_of(8));
        Type(number)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub const fn number(self) -> u8 {
        self.0
    }

    /// The type with a number read from an entry.
    #[inline]
    pub(crate) const fn from_entry(number: u8) -> Type {
        Type(number)
    }
}
