// SPDX-License-Identifier: BSD-3-Clause
//! The type of a value, as a number. What is known of a type, its name too, is in the table of types
//! (`object.rs`).

/// The type of a value, by its number. Strings are 0; other types take their numbers themselves and are
/// known by them in the table of types (`object.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type(u8);

impl Type {
    pub const STRING: Type = Type(0);
    /// Numbers that there are.
    pub(crate) const NUMBERS: usize = 32;

    /// The type with this number: 1 to 31, but no multiple of 8 (those are strings in an entry).
    ///
    /// # Panics
    /// For any other number, when the constant is compiled.
    pub const fn new(number: u8) -> Type {
        assert!(number < Type::NUMBERS as u8 && !number.is_multiple_of(8));
        Type(number)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The type with a number that an entry has had since it was made.
    #[inline]
    pub(crate) const fn from_entry(number: u8) -> Type {
        Type(number)
    }
}
