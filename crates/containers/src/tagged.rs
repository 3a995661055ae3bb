// SPDX-License-Identifier: BSD-3-Clause
//! A packed form (a packed list, a block of bytes) or a larger one behind one tagged pointer, for
//! collections that are mostly small: an enum of the two takes two words, a significant overhead
//! for a few short fields.
//!
//! Invariants (maintained only in this file): with the lowest bit clear the word is a `P`; with it
//! set, the remaining bits are the pointer of a leaked `Box<T>`. Both pointers are aligned to at
//! least 2 and never null.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use braid_base::relocation::Mover;

use crate::listpack::Listpack;
use crate::thin_block::ThinBlock;

/// A type that is one pointer.
///
/// # Safety
/// It is transparently one pointer that is never null and is aligned to at least 2.
pub unsafe trait OnePointer {}

// SAFETY: a block is a pointer to its header, which is aligned to 4.
unsafe impl OnePointer for ThinBlock {}
// SAFETY: a packed list is a pointer to its header, which is aligned to at least 2.
unsafe impl OnePointer for Listpack {}

/// One form or the other, owned or borrowed.
pub enum Form<P, T> {
    Packed(P),
    Table(T),
}

/// A packed list, or another packed form, or a boxed `T`.
#[repr(transparent)]
pub struct PackedOr<T, P: OnePointer = Listpack> {
    word: NonNull<u8>,
    owns: PhantomData<(P, Box<T>)>,
}

// SAFETY: it owns one of the two and hands it out under the usual rules of references.
unsafe impl<T: Send, P: OnePointer + Send> Send for PackedOr<T, P> {}
// SAFETY: as above.
unsafe impl<T: Sync, P: OnePointer + Sync> Sync for PackedOr<T, P> {}

const TAG: usize = 1;

impl<T, P: OnePointer> PackedOr<T, P> {
    const SIZES: () = assert!(
        size_of::<P>() == size_of::<NonNull<u8>>()
            && align_of::<P>() == align_of::<NonNull<u8>>()
            && align_of::<T>() > TAG
    );

    /// Owns a packed form.
    #[inline]
    pub fn packed(list: P) -> PackedOr<T, P> {
        let () = Self::SIZES;
        let list = ManuallyDrop::new(list);
        // SAFETY: a packed form is transparently one pointer, which is never null; the form is not
        // dropped here.
        let word = unsafe { std::mem::transmute_copy::<ManuallyDrop<P>, NonNull<u8>>(&list) };
        debug_assert_eq!(word.addr().get() & TAG, 0);
        PackedOr { word, owns: PhantomData }
    }

    /// Owns the larger form.
    pub fn table(table: Box<T>) -> PackedOr<T, P> {
        let () = Self::SIZES;
        let word = NonNull::from(Box::leak(table)).cast::<u8>();
        PackedOr { word: word.map_addr(|address| address | TAG), owns: PhantomData }
    }

    #[inline]
    fn boxed(&self) -> Option<NonNull<T>> {
        let address = self.word.addr().get();
        if address & TAG == 0 {
            return None;
        }
        NonNull::new(self.word.as_ptr().map_addr(|address| address & !TAG).cast())
    }

    /// Moves the box of the larger form, if it has that form, to a better place.
    pub fn relocate_box(&mut self, mover: &mut Mover) {
        let Some(table) = self.boxed() else { return };
        // SAFETY: a leaked box owned by this value, which is borrowed mutably.
        if let Some(moved) = unsafe { mover.relocate(table.cast(), Layout::new::<T>()) } {
            self.word = moved.map_addr(|address| address | TAG);
        }
    }

    /// The form, for reading.
    #[inline]
    pub fn get(&self) -> Form<&P, &T> {
        match self.boxed() {
            // SAFETY: a leaked box owned by this value, borrowed no longer than it.
            Some(table) => Form::Table(unsafe { table.as_ref() }),
            // SAFETY: untagged, the word is a packed form, which has the same layout.
            None => Form::Packed(unsafe { &*std::ptr::from_ref(&self.word).cast::<P>() }),
        }
    }

    /// The form, for changing.
    #[inline]
    pub fn get_mut(&mut self) -> Form<&mut P, &mut T> {
        match self.boxed() {
            // SAFETY: as in `get`; borrowed mutably, so no other reference exists.
            Some(mut table) => Form::Table(unsafe { table.as_mut() }),
            // SAFETY: as above. Any form that the caller stores there is untagged too.
            None => Form::Packed(unsafe { &mut *std::ptr::from_mut(&mut self.word).cast::<P>() }),
        }
    }
}

impl<T, P: OnePointer> Drop for PackedOr<T, P> {
    fn drop(&mut self) {
        match self.boxed() {
            // SAFETY: leaked by `table`, freed once.
            Some(table) => drop(unsafe { Box::from_raw(table.as_ptr()) }),
            // SAFETY: the word is a packed form with no other owner, and is not used afterwards.
            None => unsafe { std::ptr::from_mut(&mut self.word).cast::<P>().drop_in_place() },
        }
    }
}

impl<T: Clone, P: OnePointer + Clone> Clone for PackedOr<T, P> {
    fn clone(&self) -> Self {
        match self.get() {
            Form::Packed(list) => PackedOr::packed(list.clone()),
            Form::Table(table) => PackedOr::table(Box::new(table.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_owned_changed_and_cloned() {
        let mut list = Listpack::new();
        list.push_back(b"a");
        let mut one = PackedOr::<Vec<u8>>::packed(list);
        let Form::Packed(inside) = one.get_mut() else { panic!("packed") };
        inside.push_back(&[b'x'; 500]);
        let copy = one.clone();
        assert!(matches!(copy.get(), Form::Packed(list) if list.len() == 2));
        one = PackedOr::table(Box::new(vec![1, 2, 3]));
        let Form::Table(table) = one.get_mut() else { panic!("a table") };
        table.push(4);
        assert!(matches!(one.clone().get(), Form::Table(table) if *table == [1, 2, 3, 4]));
        assert_eq!(size_of::<Option<PackedOr<Vec<u8>>>>(), size_of::<usize>());
    }
}
