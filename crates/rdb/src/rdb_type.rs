// SPDX-License-Identifier: BSD-3-Clause
//! Value types of the format: their numbers, and the table of known types.
//!
//! A form is the type number before a value, with the information needed to skip the value without
//! decoding it. Strings are known here; each other type registers its own forms ([`register`]), at
//! the start of the process or when its first value is made.

use std::fmt;
use std::sync::OnceLock;

/// One element of a value's layout in the format.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Text,
    /// A number encoded as a length.
    Number,
    /// This many bytes.
    Bytes(u64),
    /// A score as text.
    ScoreText,
    /// A number, and that many members of these parts.
    Members(&'static [Part]),
}

/// A form in which values are written.
#[derive(Debug)]
pub struct ValueForm {
    /// The type number before the value.
    pub number: u8,
    /// Type and form, for log messages.
    pub name: &'static str,
    /// Versions of the format in which the number means this form.
    pub is_known_in: fn(version: u16) -> bool,
    /// The value consists of, or contains, lists packed into one string.
    pub is_packed: bool,
    /// The layout of the whole value; `None` if its end can only be found by decoding it.
    pub layout: Option<&'static [Part]>,
    /// Numbers between the form's number (and the key) and a packed string that was copied
    /// verbatim ([`SavedObject::take_packed`](crate::SavedObject::take_packed)).
    pub packed_head: &'static [u64],
}

/// From here on, a byte in place of a type's number says what record follows instead of a key.
pub const RECORDS_FROM: u8 = 244;

impl ValueForm {
    /// A form that exists in all versions.
    ///
    /// # Panics
    /// At compile time in a static: if the number is not one of a type.
    pub const fn new(number: u8, name: &'static str, layout: &'static [Part]) -> ValueForm {
        assert!(number < RECORDS_FROM);
        ValueForm {
            number,
            name,
            is_known_in: |_| true,
            is_packed: false,
            layout: Some(layout),
            packed_head: &[],
        }
    }

    /// The form contains packed lists.
    pub const fn packed(mut self) -> ValueForm {
        self.is_packed = true;
        self
    }

    /// Sets the numbers before a packed string.
    pub const fn with_packed_head(mut self, head: &'static [u64]) -> ValueForm {
        self.packed_head = head;
        self
    }

    /// The number means this form only in some versions.
    pub const fn in_versions(mut self, is_known_in: fn(version: u16) -> bool) -> ValueForm {
        self.is_known_in = is_known_in;
        self
    }

    const fn unskippable(mut self) -> ValueForm {
        self.layout = None;
        self
    }
}

/// A value type of the RDB format that this build can read.
#[derive(Clone, Copy)]
pub struct RdbType(pub &'static ValueForm);

impl PartialEq for RdbType {
    fn eq(&self, other: &RdbType) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for RdbType {}

impl fmt::Debug for RdbType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

static STRING: ValueForm = ValueForm::new(0, "String", &[Part::Text]);
/// Modules in pre-releases of Redis 4.
static MODULE_PRE_RELEASE: ValueForm = ValueForm::new(6, "ModulePreRelease", &[]).packed().unskippable();
/// A module's value: which module's is in the ID in front of it.
pub static MODULE: ValueForm = ValueForm::new(7, "Module", &[]).packed().unskippable();
/// KeyDB: a scheduled script (KEYDB.CRON).
static KEYDB_JOB: ValueForm =
    ValueForm::new(64, "KeyDbJob", &[]).in_versions(|version| version <= crate::VERSION_KEYDB).unskippable();

static FORMS: [OnceLock<&'static ValueForm>; 256] = [const { OnceLock::new() }; 256];

/// Registers forms; the same form may be registered any number of times.
///
/// # Panics
/// Two types claim the same number.
pub fn register(forms: &[&'static ValueForm]) {
    for &form in forms {
        let known = FORMS[usize::from(form.number)].get_or_init(|| form);
        assert!(std::ptr::eq(*known, form), "form {} is claimed twice", form.number);
    }
}

impl RdbType {
    pub const STRING: RdbType = RdbType(&STRING);

    /// The form of this number in a given version of the format.
    pub fn from_number(number: u8, version: u16) -> Option<RdbType> {
        let form = match number {
            0 => &STRING,
            6 => &MODULE_PRE_RELEASE,
            7 => &MODULE,
            64 => &KEYDB_JOB,
            _ => FORMS[usize::from(number)].get()?,
        };
        (form.is_known_in)(version).then_some(RdbType(form))
    }

    /// The type number before the value.
    pub fn number(self) -> u8 {
        self.0.number
    }

    /// True for forms that are, or contain, lists packed into one string.
    pub fn is_packed(self) -> bool {
        self.0.is_packed
    }
}
