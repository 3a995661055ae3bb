// SPDX-License-Identifier: BSD-3-Clause
//! The interface of a type that can be saved: the value's form, and how to write it.
//!
//! Strings are written by this crate itself; every other type implements [`SavedObject`] in its own
//! folder (crate `types`) and names its forms there.

use std::io;

use braid_containers::listpack::Element;

use crate::encode::ValueEncoder;
use crate::rdb_type::ValueForm;
use crate::target::Target;

/// A value other than a string, to be written.
pub trait SavedObject {
    /// The form under which it is written for a target.
    fn form(&self, target: Target) -> &'static ValueForm;

    /// False for a target that has no such type: the key is left out.
    fn is_known_to(&self, _target: Target) -> bool {
        true
    }

    /// Writes its content in one of the forms that [`SavedObject::form`] names. Members that expire
    /// before `now_ms` are left out.
    fn encode(&self, form: &ValueForm, now_ms: i64, out: &mut ValueEncoder<'_>) -> io::Result<()>;

    /// Appends its bytes if the form for [`Target::Own`] is one packed string: copying it takes less
    /// time than writing it. False, with nothing appended, if it is not.
    fn take_packed(&self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// True if some of its members expire.
    fn has_times(&self) -> bool {
        false
    }

    /// True if a form that it has been given has room for the times of its members.
    fn keeps_times(&self, _form: &ValueForm) -> bool {
        false
    }

    /// Calls `see` with each member that expires, and its time.
    fn for_each_time(&self, _see: &mut dyn FnMut(Element<'_>, i64)) {}

    /// Number of members, those past their expiry included.
    fn member_count(&self) -> usize;

    /// Number of members that have not expired at this time.
    fn members_at(&self, now_ms: i64) -> usize {
        let mut expired = 0;
        if now_ms != i64::MIN {
            self.for_each_time(&mut |_, time| expired += usize::from(time < now_ms));
        }
        self.member_count() - expired
    }
}
