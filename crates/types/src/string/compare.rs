// SPDX-License-Identifier: BSD-3-Clause
//! Comparisons of a string value with a client's text or digest: DIGEST, DELEX, DELIFEQ, and the
//! conditions of SET.
//!
//! A digest is the value's 64-bit XXH3 hash without a seed, as 16 hexadecimal digits; clients
//! compute it as well, so it must never change.

use braid_executor::Call;
use braid_keyspace::txn::StringRef;
use braid_spec::{CommandError, CommandResult, KeyFlags};
use xxhash_rust::xxh3::xxh3_64;

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// The digest of a value.
fn digest_of(value: StringRef<'_>) -> u64 {
    xxh3_64(value.bytes(&mut [0; 20]))
}

fn parse_digest(text: &[u8]) -> Result<u64, CommandError> {
    Some(text)
        .filter(|text| text.len() == DIGITS && text.iter().all(u8::is_ascii_hexdigit))
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or(CommandError::text("ERR must be exactly 16 hexadecimal characters"))
}

/// A word that introduces a comparison.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Word {
    /// IFEQ, IFDEQ: the value must be equal.
    equal: bool,
    /// IFDEQ, IFDNE: digests are compared.
    by_digest: bool,
}

impl Word {
    pub(super) fn parse(text: &[u8]) -> Option<Word> {
        let (by_digest, word) = match text {
            [_, _, first, second] => (false, [*first, *second]),
            [_, _, b'd' | b'D', first, second] => (true, [*first, *second]),
            _ => return None,
        };
        let equal = word.eq_ignore_ascii_case(b"EQ");
        let known = text[..2].eq_ignore_ascii_case(b"IF") && (equal || word.eq_ignore_ascii_case(b"NE"));
        known.then_some(Word { equal, by_digest })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Operand<'a> {
    Text(&'a [u8]),
    Digest(u64),
}

/// A condition on a key's current value.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Comparison<'a> {
    operand: Operand<'a>,
    /// What the comparison must find.
    equal: bool,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(word: Word, operand: &'a [u8]) -> Result<Comparison<'a>, CommandError> {
        let operand = match word.by_digest {
            true => Operand::Digest(parse_digest(operand)?),
            false => Operand::Text(operand),
        };
        Ok(Comparison { operand, equal: word.equal })
    }

    /// True if the value of a key passes; a missing key (`None`) is equal to nothing.
    pub(super) fn holds(self, value: Option<StringRef<'_>>) -> bool {
        let equal = value.is_some_and(|value| match self.operand {
            Operand::Text(text) => value.bytes(&mut [0; 20]) == text,
            Operand::Digest(digest) => digest_of(value) == digest,
        });
        equal == self.equal
    }
}

pub(super) fn digest(call: &mut Call) -> CommandResult {
    match call.keyspace.string(call.args[1])? {
        Some(value) => call.reply.bulk(format!("{:016x}", digest_of(value)).as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

/// DELEX reads the value only if it has to compare it.
pub(super) fn delex_key_flags(args: &[&[u8]]) -> KeyFlags {
    match args.len() {
        2 => KeyFlags::RM.and(KeyFlags::DELETE),
        _ => KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE),
    }
}

pub(super) fn delex(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let holds = match call.args[2..] {
        // A value of any type.
        [] => true,
        [word, operand] => {
            let word = Word::parse(word).ok_or(CommandError::Syntax)?;
            Comparison::new(word, operand)?.holds(call.keyspace.string_for_change(key)?)
        }
        _ => return Err(call.wrong_arity()),
    };
    delete_if(call, holds);
    Ok(())
}

pub(super) fn delifeq(call: &mut Call) -> CommandResult {
    let comparison = Comparison { operand: Operand::Text(call.args[2]), equal: true };
    let holds = comparison.holds(call.keyspace.string_for_change(call.args[1])?);
    delete_if(call, holds);
    Ok(())
}

/// Deletes the call's key if the condition holds, and replies with the number of deleted keys.
fn delete_if(call: &mut Call, holds: bool) {
    let key = call.args[1];
    let deleted = holds && call.keyspace.delete(key);
    if deleted {
        // Not every server knows the command.
        call.keyspace.journal_as(&[b"DEL", key]);
    }
    call.reply.integer(i64::from(deleted));
}
