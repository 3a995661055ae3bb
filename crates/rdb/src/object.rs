// SPDX-License-Identifier: BSD-3-Clause
//! The interface of types that can be saved: a value's form, and its encoding.
//!
//! This crate writes strings itself; every other type implements [`SavedObject`] in its own
//! folder (crate `types`) and names its forms there.

use std::io;

use braid_containers::listpack::Element;

use crate::encode::ValueEncoder;
use crate::rdb_type::ValueForm;
use crate::target::Target;

/// A value other than a string, for writing.
pub trait SavedObject {
    /// The form in which it is written for a target.
    fn form(&self, target: Target) -> &'static ValueForm;

    /// False if the target does not have the type: the key is then left out.
    fn is_known_to(&self, _target: Target) -> bool {
        true
    }

    /// Writes its content in a form that [`SavedObject::form`] returned. Leaves out members that
    /// expire before `now_ms`.
    ///
    /// # Errors
    /// If the sink fails.
    fn encode(&self, form: &ValueForm, now_ms: i64, out: &mut ValueEncoder<'_>) -> io::Result<()>;

    /// Appends the value's bytes if the form for [`Target::Own`] is a single packed string, which
    /// is cheaper to copy than to encode. Otherwise appends nothing and returns false.
    fn take_packed(&self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// True if some of its members expire.
    fn has_times(&self) -> bool {
        false
    }

    /// True if the form can store the expiry of its members.
    fn keeps_times(&self, _form: &ValueForm) -> bool {
        false
    }

    /// Calls `see` with each expiring member and its time.
    fn for_each_time(&self, _see: &mut dyn FnMut(Element<'_>, i64)) {}

    /// Number of members, including expired ones. Asked of types whose members may expire.
    fn member_count(&self) -> usize {
        0
    }

    /// Number of members that are unexpired at this time.
    fn members_at(&self, now_ms: i64) -> usize {
        let mut expired = 0;
        if now_ms != i64::MIN {
            self.for_each_time(&mut |_, time| expired += usize::from(time < now_ms));
        }
        self.member_count() - expired
    }
}
