// SPDX-License-Identifier: BSD-3-Clause
//! The table: every directive that Braid knows, one row each, in sections.
//!
//! A section is one file with one use of [`directives!`]. A row reads
//!
//! ```text
//! /// What it does (goes to the documentation and to the example file).
//! accessor_name: type => constructor("name", default, ...).modifiers();
//! ```
//!
//! and expands to a static [`Directive`] and a method of [`Config`](crate::Config) that reads the
//! value: one relaxed atomic load for a number, switch or word, an `Arc<str>` for a text. Rows of
//! type `special` have a hand-written method in `config.rs`. To add a directive, add a row;
//! everything else follows.

use crate::directive::{Directive, Section};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Converts a stored number to the row's type.
macro_rules! accessor {
    ($(#[doc = $doc:literal])+ $name:ident special $index:expr) => {};
    ($(#[doc = $doc:literal])+ $name:ident text $index:expr) => {
        $(#[doc = $doc])+
        pub fn $name(&self) -> std::sync::Arc<str> {
            self.text_at($index)
        }
    };
    ($(#[doc = $doc:literal])+ $name:ident bool $index:expr) => {
        $(#[doc = $doc])+
        #[inline]
        pub fn $name(&self) -> bool {
            self.scalar_at($index) != 0
        }
    };
    ($(#[doc = $doc:literal])+ $name:ident ShutdownFlags $index:expr) => {
        $(#[doc = $doc])+
        #[inline]
        pub fn $name(&self) -> $crate::enums::ShutdownFlags {
            $crate::enums::ShutdownFlags(self.scalar_at($index) as u8)
        }
    };
    ($(#[doc = $doc:literal])+ $name:ident u16 $index:expr) => {
        $crate::rows::number_accessor!($(#[doc = $doc])+ $name u16 $index);
    };
    ($(#[doc = $doc:literal])+ $name:ident u32 $index:expr) => {
        $crate::rows::number_accessor!($(#[doc = $doc])+ $name u32 $index);
    };
    ($(#[doc = $doc:literal])+ $name:ident u64 $index:expr) => {
        $crate::rows::number_accessor!($(#[doc = $doc])+ $name u64 $index);
    };
    ($(#[doc = $doc:literal])+ $name:ident usize $index:expr) => {
        $crate::rows::number_accessor!($(#[doc = $doc])+ $name usize $index);
    };
    ($(#[doc = $doc:literal])+ $name:ident i64 $index:expr) => {
        $crate::rows::number_accessor!($(#[doc = $doc])+ $name i64 $index);
    };
    ($(#[doc = $doc:literal])+ $name:ident $words:ident $index:expr) => {
        $(#[doc = $doc])+
        #[inline]
        pub fn $name(&self) -> $crate::enums::$words {
            $crate::enums::ConfigEnum::from_raw(self.scalar_at($index))
        }
    };
}

/// A test checks that the bounds of a row fit its Rust type, so the cast is lossless.
macro_rules! number_accessor {
    ($(#[doc = $doc:literal])+ $name:ident $number:ident $index:expr) => {
        $(#[doc = $doc])+
        #[inline]
        pub fn $name(&self) -> $number {
            self.scalar_at($index) as $number
        }
    };
}

/// Defines a section: its rows and the methods that read them.
macro_rules! directives {
    (
        $title:literal, after $previous:ident;
        $( $(#[doc = $doc:literal])+ $name:ident : $ty:ident =>
            $constructor:ident ( $($argument:expr),* $(,)? )
            $( . $modifier:ident ( $($extra:expr),* $(,)? ) )* ; )+
    ) => {
        use $crate::directive::{Directive, Section};

        /// Position of the rows within the section.
        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        enum Row { $( $name ),+ }

        /// Position of the section's first row in the whole table.
        const BASE: usize = super::$previous::END;
        /// Position after the section's last row.
        pub(crate) const END: usize = BASE + DIRECTIVES.len();

        static DIRECTIVES: &[Directive] = &[ $(
            Directive::$constructor($($argument),*).doc(concat!($($doc),+)) $( .$modifier($($extra),*) )*
        ),+ ];

        pub(crate) static SECTION: Section = Section { title: $title, directives: DIRECTIVES };

        /// The accessor types, for the test that bounds fit.
        #[cfg(test)]
        pub(crate) const TYPES: &[(&str, &str)] = &[ $( (stringify!($name), stringify!($ty)) ),+ ];

        impl $crate::values::Values<{ $crate::rows::TOTAL }> {
            $( $crate::rows::accessor!($(#[doc = $doc])+ $name $ty BASE + Row::$name as usize); )+
        }
    };
}

/// Position in the whole table of a row of the current section.
macro_rules! index_of {
    ($name:ident) => {
        BASE + Row::$name as usize
    };
}

pub(crate) use accessor;
pub(crate) use directives;
pub(crate) use number_accessor;

/// Largest C `int`, the bound of many directives.
pub(crate) const INT_MAX: i128 = i32::MAX as i128;
/// Largest C `unsigned int`.
pub(crate) const UINT_MAX: i128 = u32::MAX as i128;
/// Largest C `long`.
pub(crate) const LONG_MAX: i128 = i64::MAX as i128;
/// Largest C `unsigned long`.
pub(crate) const ULONG_MAX: i128 = u64::MAX as i128;

/// Directives that make a server a member of a group.
pub(crate) const IN_GROUP: &[&str] = &["group-name", "cluster-name"];
/// Directives that make a server a node of a cluster.
pub(crate) const IN_CLUSTER: &[&str] = &["cluster-enabled"];

mod active;
mod checks;
mod cluster;
mod general;
mod group;
mod limits;
mod memory;
mod network;
mod observe;
mod persistence;
mod replication;
mod security;
mod sketches;
mod start;
mod threads;
mod tls;
mod types;

/// All sections in the order of the documentation; each is declared "after" its predecessor.
pub static SECTIONS: [&Section; 15] = [
    &network::SECTION,
    &tls::SECTION,
    &general::SECTION,
    &threads::SECTION,
    &security::SECTION,
    &limits::SECTION,
    &memory::SECTION,
    &persistence::SECTION,
    &replication::SECTION,
    &group::SECTION,
    &active::SECTION,
    &cluster::SECTION,
    &types::SECTION,
    &sketches::SECTION,
    &observe::SECTION,
];

/// Number of directives.
pub(crate) const TOTAL: usize = observe::END;

/// Positions of directives that other code of this crate needs.
pub(crate) mod index {
    pub(crate) use super::general::{DIR, OOM_SCORES};
    pub(crate) use super::limits::OUTPUT_LIMITS;
    pub(crate) use super::memory::MAXMEMORY_CLIENTS;
    pub(crate) use super::network::BIND;
    pub(crate) use super::observe::{NOTIFY, PERCENTILES};
    pub(crate) use super::persistence::SAVE;
    pub(crate) use super::replication::{CHANGE_FEED, REPLICAOF};
}

/// The flat table with its name index.
pub(crate) struct Table {
    /// All rows.
    pub directives: Vec<&'static Directive>,
    /// Lower-case name or alias to row index.
    pub by_name: HashMap<&'static str, usize>,
    /// All names and aliases that patterns find, sorted, with their row indices.
    pub sorted: Vec<(&'static str, usize)>,
}

impl Table {
    /// The row index of a name or alias, case-insensitively.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name.to_ascii_lowercase().as_str()).copied()
    }
}

/// The table, built at first use.
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let directives: Vec<&Directive> = SECTIONS.iter().flat_map(|section| section.directives).collect();
        let mut by_name = HashMap::new();
        for (index, directive) in directives.iter().enumerate() {
            by_name.insert(directive.name, index);
            by_name.extend(directive.aliases.iter().map(|alias| (*alias, index)));
        }
        let mut sorted: Vec<_> = by_name.iter().map(|(name, index)| (*name, *index)).collect();
        sorted.sort_unstable();
        for (index, directive) in directives.iter().enumerate() {
            by_name.extend(directive.unlisted_aliases.iter().map(|alias| (*alias, index)));
        }
        Table { directives, by_name, sorted }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::{DirectiveKind, Unit};

    /// Name of the accessor and of its type, for all rows.
    fn accessor_types() -> Vec<(&'static str, &'static str)> {
        [
            network::TYPES,
            tls::TYPES,
            general::TYPES,
            threads::TYPES,
            security::TYPES,
            limits::TYPES,
            memory::TYPES,
            persistence::TYPES,
            replication::TYPES,
            group::TYPES,
            active::TYPES,
            cluster::TYPES,
            types::TYPES,
            sketches::TYPES,
            observe::TYPES,
        ]
        .concat()
    }

    #[test]
    fn sections_follow_each_other() {
        assert_eq!(table().directives.len(), TOTAL);
        assert_eq!(accessor_types().len(), TOTAL);
    }

    #[test]
    fn names_are_unique() {
        let names = table()
            .directives
            .iter()
            .map(|directive| 1 + directive.aliases.len() + directive.unlisted_aliases.len())
            .sum::<usize>();
        assert_eq!(table().by_name.len(), names);
        for name in table().by_name.keys() {
            let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            assert!(name.bytes().all(good), "{name}");
        }
    }

    #[test]
    fn accessors_hold_every_value_in_range() {
        for (directive, (accessor, ty)) in table().directives.iter().zip(accessor_types()) {
            let fits = match directive.kind {
                DirectiveKind::Bool { .. } => ty == "bool",
                DirectiveKind::Text { .. } => ty == "text",
                DirectiveKind::Special(_) => ty == "special",
                DirectiveKind::Enum { .. } => ty.starts_with(|letter: char| letter.is_ascii_uppercase()),
                DirectiveKind::Flags { .. } => ty == "ShutdownFlags",
                DirectiveKind::Integer { min, max, .. } => {
                    let (lowest, highest) = match ty {
                        "u16" => (0, i128::from(u16::MAX)),
                        "u32" => (0, i128::from(u32::MAX)),
                        "u64" | "usize" => (0, i128::from(u64::MAX)),
                        "i64" => (i128::from(i64::MIN), i128::from(i64::MAX)),
                        _ => (0, -1),
                    };
                    lowest <= min && max <= highest && min <= max
                }
            };
            assert!(fits, "{accessor}: {ty} does not fit {directive:?}");
        }
    }

    #[test]
    fn required_directives_are_immutable() {
        for directive in &table().directives {
            for name in directive.only_with {
                let needed = table().directives[table().find(name).expect("a directive")];
                assert_eq!(needed.mutability, crate::directive::Mutability::Immutable, "{}", directive.name);
                assert!(needed.only_with.is_empty() && directive.takes_effect, "{}", directive.name);
            }
        }
    }

    #[test]
    fn defaults_are_in_range() {
        for directive in &table().directives {
            if let DirectiveKind::Integer { default, min, max, .. } = directive.kind {
                assert!((min..=max).contains(&i128::from(default())), "{}", directive.name);
            }
        }
    }

    #[test]
    fn only_memory_has_unsigned_bounds_or_percent() {
        for directive in &table().directives {
            if let DirectiveKind::Integer { min, max, unit, .. } = directive.kind {
                assert!(max <= LONG_MAX || (min >= 0 && unit == Unit::Bytes), "{}", directive.name);
                assert!(min >= 0 || unit != Unit::Bytes, "{}", directive.name);
            }
        }
    }

    #[test]
    fn every_row_is_documented() {
        for directive in &table().directives {
            let doc = directive.doc.trim();
            assert!(doc.len() > 10 && doc.ends_with('.') && doc.is_ascii(), "{}: {doc}", directive.name);
        }
    }
}
