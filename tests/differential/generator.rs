// SPDX-License-Identifier: BSD-3-Clause
//! Random commands: a family's template is drawn and expanded, its slots are filled, and
//! occasionally the result is spoiled (wrong arity, wrong option, extreme number, swapped
//! arguments).
//!
//! The generator must never produce the following, because two correct servers would differ or
//! the machine would suffer:
//! - an expiry between now and a minute from now: [`SlotKind::Time`] arguments are spoiled only
//!   with safe numbers
//! - an offset that makes a string of hundreds of megabytes: [`SlotKind::Offset`], and no number
//!   of [`EXTREME`] does
//! - a count that asks for billions of elements: [`SlotKind::Count`]
//! - an endless wait, or a permanent change of a setting: commands with a [`SlotKind::Fixed`]
//!   argument are never spoiled

use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::family::Family;
use crate::grammar::{Node, Template, templates};
use crate::payloads::payload;
use crate::slots::{self, EXTREME, EXTREME_FLOATS, SlotKind, WILD_WORDS};

/// An argument of a command under construction.
#[derive(Clone, Debug)]
pub struct Argument {
    pub bytes: Vec<u8>,
    pub kind: SlotKind,
}

/// A command as it is sent.
pub type Command = Vec<Vec<u8>>;

/// Commands that take an appended number as a count of elements to return, with repetitions;
/// commands with one more argument since Redis 7.2, or only here; and RESTORE, whose time to live
/// must not become short.
const NEVER_SPOILED: &[&str] =
    &["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "ZRANK", "ZREVRANK", "MOVE", "RESTORE"];

/// True if an argument of this kind may appear in any position.
fn is_harmless(kind: SlotKind) -> bool {
    matches!(kind, SlotKind::Name | SlotKind::Key | SlotKind::Plain)
}

/// A generator of commands.
pub struct Generator {
    random: Rng,
    families: Vec<(&'static Family, Vec<Template>)>,
    /// Start of the run in Unix seconds, the base of absolute times.
    now_s: u64,
}

impl Generator {
    pub fn new(seed: u64, families: &[&'static Family]) -> Generator {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let families = families.iter().map(|family| (*family, templates(family.templates))).collect();
        Generator { random: Rng::with_seed(seed), families, now_s }
    }

    /// The random number generator, for decisions outside of the commands.
    pub fn random(&mut self) -> &mut Rng {
        &mut self.random
    }

    /// The next command.
    pub fn command(&mut self) -> Command {
        let total: u32 = self.families.iter().map(|(family, _)| family.weight).sum();
        let mut ticket = self.random.u32(0..total);
        let families = std::mem::take(&mut self.families);
        let (family, templates) = families
            .iter()
            .find(|(family, _)| match ticket.checked_sub(family.weight) {
                Some(rest) => {
                    ticket = rest;
                    false
                }
                None => true,
            })
            .expect("the ticket is below the total");
        let total: u32 = templates.iter().map(|template| template.weight).sum();
        let mut ticket = self.random.u32(0..total);
        let template = templates
            .iter()
            .find(|template| match ticket.checked_sub(template.weight) {
                Some(rest) => {
                    ticket = rest;
                    false
                }
                None => true,
            })
            .expect("the ticket is below the total");
        let mut arguments = Vec::new();
        self.expand(&template.nodes, family, &mut arguments);
        self.families = families;
        if self.random.u8(..) < 26 {
            self.spoil(&mut arguments);
        }
        self.vary_case(&mut arguments);
        arguments.into_iter().map(|argument| argument.bytes).collect()
    }

    fn expand(&mut self, nodes: &[Node], family: &Family, out: &mut Vec<Argument>) {
        for node in nodes {
            match node {
                Node::Word(word) => {
                    out.push(Argument { bytes: word.clone().into_bytes(), kind: SlotKind::Name })
                }
                Node::Slot(name) => self.fill(name, family, out),
                Node::Optional(alternatives) => {
                    if self.random.u8(0..100) < 40 {
                        let chosen = self.random.usize(0..alternatives.len());
                        self.expand(&alternatives[chosen], family, out);
                    }
                }
                Node::Choice(alternatives) => {
                    let chosen = self.random.usize(0..alternatives.len());
                    self.expand(&alternatives[chosen], family, out);
                }
                Node::Shuffle(parts) => {
                    let mut order: Vec<&Node> = parts.iter().collect();
                    self.random.shuffle(&mut order);
                    for part in order {
                        self.expand(std::slice::from_ref(part), family, out);
                    }
                }
                Node::Repeat(part) => {
                    for _ in 0..1 + self.random.usize(0..4).min(self.random.usize(0..4)) {
                        self.expand(std::slice::from_ref(part), family, out);
                    }
                }
            }
        }
    }

    /// Fills a slot. Numbers in names are deliberately small: few keys, fields and members
    /// collide often.
    fn fill(&mut self, slot: &str, family: &Family, out: &mut Vec<Argument>) {
        use SlotKind::{Count, Key, Offset, Plain, Time};
        if let Some(slot) = slots::CHOICES.iter().find(|choice| choice.slot == slot) {
            out.push(Argument { bytes: self.pick(slot.words), kind: slot.kind });
            return;
        }
        let (bytes, kind) = match slot {
            "key" => (self.key(family), Key),
            "anykey" => (self.any_key(), Key),
            "keys" => {
                for _ in 0..1 + self.random.usize(0..3) {
                    let bytes = self.key(family);
                    out.push(Argument { bytes, kind: Key });
                }
                return;
            }
            "countedkeys" => {
                let count = 1 + self.random.usize(0..3);
                let told = if self.random.u8(0..100) < 95 { count } else { self.random.usize(0..6) };
                out.push(Argument { bytes: told.to_string().into_bytes(), kind: Plain });
                for _ in 0..count {
                    let bytes = self.key(family);
                    out.push(Argument { bytes, kind: Key });
                }
                return;
            }
            "value" => (self.value(), Plain),
            "int" => (self.integer(), Plain),
            "index" => (self.random.i64(-7..8).to_string().into_bytes(), Plain),
            "float" => (self.float(), Plain),
            "offset" => (self.random.u32(0..100).to_string().into_bytes(), Offset),
            "bitoffset" => (self.random.u32(0..600).to_string().into_bytes(), Offset),
            "bittype" => {
                let width = if self.random.bool() { self.random.u32(1..66) } else { 8 };
                let sign = if self.random.bool() { 'i' } else { 'u' };
                (format!("{sign}{width}").into_bytes(), Plain)
            }
            "bitfieldoffset" => {
                let hash = if self.random.bool() { "#" } else { "" };
                (format!("{hash}{}", self.random.u32(0..40)).into_bytes(), Offset)
            }
            "seconds" => (self.random.u32(10_000..900_000_000).to_string().into_bytes(), Time),
            "ms" => (self.random.u64(10_000_000..900_000_000_000).to_string().into_bytes(), Time),
            "atseconds" => {
                ((self.now_s + self.random.u64(10_000..900_000_000)).to_string().into_bytes(), Time)
            }
            "atms" => (
                (self.now_s * 1000 + self.random.u64(10_000_000..900_000_000_000)).to_string().into_bytes(),
                Time,
            ),
            "past" => (self.random.i64(-5..1).to_string().into_bytes(), Time),
            "count" => (self.random.i64(-6..8).to_string().into_bytes(), Count),
            "positive" => (self.random.i64(0..8).to_string().into_bytes(), Count),
            "member" => (self.member(), Plain),
            "score" => (self.score(), Plain),
            "scoremin" | "scoremax" => (self.score_bound(slot), Plain),
            "id" => (self.stream_id(), Plain),
            "rangeid" => {
                let text = self.pick(&["-", "+", "(1-1", "(2", "0", "5", "(-", "("]);
                (if self.random.bool() { text } else { self.stream_id() }, Plain)
            }
            "payload" => {
                let mut payload = payload(self.random.usize(..));
                if self.random.u32(..6) == 0 {
                    let at = self.random.usize(..payload.len());
                    payload[at] ^= self.random.u8(1..);
                }
                (payload, Plain)
            }
            _ => panic!("no slot named {slot}"),
        };
        out.push(Argument { bytes, kind });
    }

    fn pick(&mut self, choices: &[&str]) -> Vec<u8> {
        choices[self.random.usize(0..choices.len())].as_bytes().to_vec()
    }

    /// Usually a key of the family's own, so that types match; sometimes one of another family.
    fn key(&mut self, family: &Family) -> Vec<u8> {
        if family.key_prefix.is_empty() || self.random.u8(0..100) < 8 {
            return self.any_key();
        }
        format!("{}{}", family.key_prefix, self.random.u8(1..5)).into_bytes()
    }

    fn any_key(&mut self) -> Vec<u8> {
        let prefix = ["s", "l", "h", "e", "z", "x", "s"][self.random.usize(0..7)];
        match self.random.u8(0..40) {
            0 => Vec::new(),
            1 => b"k\0\r\n\xff".to_vec(),
            2 => b"{tag}rest".to_vec(),
            _ => format!("{prefix}{}", self.random.u8(1..5)).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.u8(0..12) {
            0 => Vec::new(),
            1 => b"\0\x01\xff\r\n".to_vec(),
            2 => self.pick(&["3.0", "1e5", "-0.5", "10.25", "0.1", "1e-7"]),
            3 => self.pick(EXTREME),
            // Around 44 bytes, where Redis changes a string's encoding, and around 64, the limit
            // of packed encodings.
            4 => vec![b'v'; self.random.usize(40..70)],
            5 => {
                let len = self.random.usize(1..40);
                (0..len).map(|_| self.random.u8(..)).collect()
            }
            6 => vec![b'w'; self.random.usize(200..500)],
            7..=9 => self.random.i32(-1000..1000).to_string().into_bytes(),
            _ => self.pick(&["a", "b", "hello", "foobar", "Hello World", "x y"]),
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        if self.random.u8(0..100) < 85 {
            self.random.i32(-20..50).to_string().into_bytes()
        } else {
            self.pick(EXTREME)
        }
    }

    fn float(&mut self) -> Vec<u8> {
        match self.random.u8(0..10) {
            0..=3 => self.random.i32(-20..50).to_string().into_bytes(),
            4..=6 => format!("{}.{}", self.random.i32(-20..50), self.random.u32(0..1000)).into_bytes(),
            _ => self.pick(EXTREME_FLOATS),
        }
    }

    fn member(&mut self) -> Vec<u8> {
        match self.random.u8(0..20) {
            0 => self.value(),
            1..=5 => self.random.i32(-5..12).to_string().into_bytes(),
            6 => {
                self.pick(&["-9223372036854775808", "9223372036854775807", "65536", "2147483648", "01", "-0"])
            }
            _ => format!("m{}", self.random.u8(0..12)).into_bytes(),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        match self.random.u8(0..10) {
            0..=5 => self.random.i32(-5..12).to_string().into_bytes(),
            6..=7 => self.pick(&["0.5", "1.5", "-2.25", "3.75", "1e3", "1000000"]),
            _ => self.pick(EXTREME_FLOATS),
        }
    }

    fn score_bound(&mut self, slot: &str) -> Vec<u8> {
        let open = if self.random.u8(0..4) == 0 { "(" } else { "" };
        let number = if self.random.u8(0..3) == 0 {
            if slot == "scoremin" { "-inf".to_owned() } else { "+inf".to_owned() }
        } else {
            self.random.i32(-5..12).to_string()
        };
        format!("{open}{number}").into_bytes()
    }

    fn stream_id(&mut self) -> Vec<u8> {
        match self.random.u8(0..14) {
            0..=8 => format!("{}-{}", self.random.u8(0..30), self.random.u8(0..4)).into_bytes(),
            9..=10 => format!("{}-*", self.random.u8(0..40)).into_bytes(),
            11 => self.random.u8(0..30).to_string().into_bytes(),
            _ => self.pick(&[
                "0-0",
                "18446744073709551615-18446744073709551615",
                "18446744073709551616-1",
                "-1-1",
                "1-",
                "-",
                "abc",
                "1-1-1",
                "5-18446744073709551615",
            ]),
        }
    }

    /// Makes a command invalid, or at least unusual.
    fn spoil(&mut self, arguments: &mut Vec<Argument>) {
        let never = NEVER_SPOILED.iter().any(|name| name.as_bytes() == arguments[0].bytes);
        if never || arguments.iter().any(|argument| argument.kind == SlotKind::Fixed) {
            return;
        }
        let len = arguments.len();
        let at = self.random.usize(0..len);
        match self.random.u8(0..8) {
            0 if len > 1 => {
                arguments.pop();
            }
            1 if at > 0 => {
                arguments.remove(at);
            }
            2 => {
                let wild = self.wild();
                arguments.insert(at.max(1), Argument { bytes: wild, kind: SlotKind::Plain });
            }
            3 => {
                let wild = self.wild();
                arguments.push(Argument { bytes: wild, kind: SlotKind::Plain });
            }
            4 if at > 0 => {
                let copy = arguments[at].clone();
                arguments.insert(at, copy);
            }
            // A swap could put a small number in place of a time or a size.
            5 if len > 2 && arguments.iter().all(|argument| is_harmless(argument.kind)) => {
                let other = self.random.usize(1..len);
                arguments.swap(at.max(1), other);
            }
            6 if len > 2 => {
                let tail = arguments[len - 2..].to_vec();
                arguments.extend(tail);
            }
            _ if at > 0 => arguments[at].bytes = self.unfit(arguments[at].kind),
            _ => {}
        }
    }

    fn wild(&mut self) -> Vec<u8> {
        if self.random.bool() { self.pick(EXTREME) } else { self.pick(WILD_WORDS) }
    }

    /// A value that does not fit an argument of this kind, but does no harm there.
    fn unfit(&mut self, kind: SlotKind) -> Vec<u8> {
        match kind {
            SlotKind::Name | SlotKind::Plain | SlotKind::Fixed => self.wild(),
            SlotKind::Key => self.any_key(),
            SlotKind::Time => self.pick(&[
                "0",
                "-1",
                "abc",
                "",
                "1.5.5",
                " ",
                "9223372036854775807",
                "9223372036854775808",
                "-9223372036854775808",
                "9223372036854775",
                "9999999999999999",
                "18446744073709551616",
            ]),
            SlotKind::Offset => {
                self.pick(&["-1", "4294967296", "9223372036854775807", "abc", "", "#", "#-1", "1.0", "0"])
            }
            SlotKind::Count => {
                self.pick(&["0", "-1", "abc", "", "-9223372036854775808", "9223372036854775808", "1.0"])
            }
        }
    }

    /// Names of commands and options are case-insensitive.
    fn vary_case(&mut self, arguments: &mut [Argument]) {
        if self.random.u8(0..100) >= 25 {
            return;
        }
        for argument in arguments.iter_mut().filter(|argument| argument.kind == SlotKind::Name) {
            for byte in &mut argument.bytes {
                if self.random.bool() {
                    *byte = byte.to_ascii_lowercase();
                }
            }
        }
    }
}

#[test]
fn every_template_expands_and_the_same_seed_gives_the_same_commands() {
    let all: Vec<&'static Family> = crate::families::FAMILIES.iter().collect();
    let mut first = Generator::new(7, &all);
    let mut second = Generator::new(7, &all);
    second.now_s = first.now_s;
    for _ in 0..20_000 {
        assert_eq!(first.command(), second.command());
    }
}
