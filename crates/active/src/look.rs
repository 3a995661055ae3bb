// SPDX-License-Identifier: BSD-3-Clause
//! A key or value to look at, wherever it stands: as a whole structure, or packed.

use std::ops::Deref;

use crate::key::Key;
use crate::value::Value;

/// Something of a key to look at.
#[derive(Debug)]
pub enum Look<'k, T> {
    Kept(&'k T),
    /// Made of a plain string.
    Made(T),
}

pub type KeyRef<'k> = Look<'k, Key>;
pub type ValueRef<'k> = Look<'k, Value>;

impl<T> Deref for Look<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Look::Kept(kept) => kept,
            Look::Made(made) => made,
        }
    }
}

impl<'k> KeyRef<'k> {
    /// The value that shows.
    pub fn into_value(self) -> Option<ValueRef<'k>> {
        match self {
            KeyRef::Kept(key) => key.value().map(ValueRef::Kept),
            KeyRef::Made(key) => key.into_value().map(ValueRef::Made),
        }
    }
}
