// SPDX-License-Identifier: BSD-3-Clause
//! The meaning of template slots, and the values of most of them. The generator draws the others.

use crate::families::access::RULES;
use crate::families::scripts::{LIBRARIES, SCRIPTS};

/// The meaning of an argument, which decides how it may be spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Name,
    Key,
    Plain,
    Time,
    Offset,
    Count,
    /// Never spoiled; neither is any argument of the same command.
    Fixed,
}

/// A slot that is filled with one of these words.
pub struct Choice {
    pub slot: &'static str,
    pub kind: SlotKind,
    pub words: &'static [&'static str],
}

const LEX_BOUNDS: &[&str] = &["-", "+", "[a", "(a", "[b", "(c", "[m2", "(m3", "[", "(", "a"];

/// The slots of this kind. A word that is listed twice is drawn twice as often.
pub const CHOICES: &[Choice] = &[
    Choice {
        slot: "text",
        kind: SlotKind::Plain,
        words: &["hello", "hello world", "ohmytext", "mynewtext", "aXbXc", "", "foo"],
    },
    Choice { slot: "bit", kind: SlotKind::Plain, words: &["0", "1", "1", "0", "1", "2"] },
    Choice {
        slot: "blocktime",
        kind: SlotKind::Fixed,
        words: &["0.001", "0.01", "0x1p-9", "1e-3", "-1", "abc", "nan"],
    },
    Choice { slot: "blockms", kind: SlotKind::Fixed, words: &["1", "2", "5", "-1", "abc", "1.5"] },
    Choice {
        slot: "field",
        kind: SlotKind::Plain,
        words: &["f1", "f2", "f3", "f4", "f5", "", "f\u{0}6", "field-of-some-length-that-is-not-short"],
    },
    Choice { slot: "lexmin", kind: SlotKind::Plain, words: LEX_BOUNDS },
    Choice { slot: "lexmax", kind: SlotKind::Plain, words: LEX_BOUNDS },
    Choice { slot: "group", kind: SlotKind::Plain, words: &["g1", "g2", "g3"] },
    Choice { slot: "consumer", kind: SlotKind::Plain, words: &["alice", "bob", "carol"] },
    Choice { slot: "db", kind: SlotKind::Plain, words: &["0", "0", "1", "1", "2", "3", "16", "-1", "abc"] },
    Choice {
        slot: "pattern",
        kind: SlotKind::Plain,
        words: &["*", "s*", "*1", "?1", "[ls]*", "[^s]1", "s\\1", "[a-z]2", "", "x*x", "[", "**1"],
    },
    Choice {
        slot: "typename",
        kind: SlotKind::Plain,
        words: &["string", "list", "hash", "set", "zset", "stream", "STRING", "nosuch"],
    },
    Choice {
        slot: "longitude",
        kind: SlotKind::Plain,
        words: &["13.361389", "15.087269", "-122.27652", "0", "180", "180.1", "-0.5", "x"],
    },
    Choice {
        slot: "latitude",
        kind: SlotKind::Plain,
        words: &["38.115556", "37.502669", "37.805186", "0", "85.05", "85.06", "-20", "x"],
    },
    Choice {
        slot: "radius",
        kind: SlotKind::Plain,
        words: &["200", "100", "3000", "0", "-1", "1.5", "99999", "abc"],
    },
    Choice { slot: "unit", kind: SlotKind::Plain, words: &["m", "km", "ft", "mi", "KM", "yards"] },
    // Never spoiled: Valkey 9 refuses hexadecimal coordinates, which GEOADD accepts as in Redis.
    Choice { slot: "place", kind: SlotKind::Fixed, words: &["m1", "m2", "m3", "m4", "Palermo", "5"] },
    Choice { slot: "badnumber", kind: SlotKind::Fixed, words: &["-1", "abc", "1x", ""] },
    Choice { slot: "script", kind: SlotKind::Fixed, words: SCRIPTS },
    Choice { slot: "library", kind: SlotKind::Fixed, words: LIBRARIES },
    Choice { slot: "rule", kind: SlotKind::Fixed, words: RULES },
    Choice { slot: "channel", kind: SlotKind::Plain, words: &["c1", "c2", "news"] },
];

/// Boundary values. As a bit or byte offset, none of them makes a string longer than a megabyte:
/// they are small, or beyond the maximum offset.
pub const EXTREME: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "10",
    "-10",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "4294967296",
    "-2147483649",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "+1",
    "-0",
    "00",
    "007",
    " 1",
    "1 ",
    "",
    "abc",
    "1.0",
    "1e3",
    "0x10",
    "nan",
    "inf",
    "-inf",
    "\u{0}1",
    "1\u{0}",
];

/// Boundary values with a fraction, and alternative notations.
pub const EXTREME_FLOATS: &[&str] = &[
    "0",
    "-0",
    "0.1",
    "0.2",
    "1e-5",
    "3.0",
    "-1.5",
    "1e17",
    "1e21",
    "1e300",
    "-1e300",
    "1.7e308",
    "inf",
    "+inf",
    "-inf",
    "nan",
    "abc",
    "",
    " 1",
    "1 ",
    "0x1p3",
    "1e400",
    "1e-400",
    "5.0e3",
    "123456789.123456789",
    "1.",
    ".5",
];

/// Words for positions where they do not belong.
pub const WILD_WORDS: &[&str] = &[
    "",
    "NX",
    "XX",
    "GET",
    "EX",
    "COUNT",
    "LIMIT",
    "MATCH",
    "WITHSCORES",
    "KEEPTTL",
    "syntax",
    "\r\n",
    "\u{0}",
    "%s%n",
    "*1\r\n$4\r\nPING\r\n",
];
