// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE: known by name, so that users and configurations may name it; moving keys to another server is not
//! supported yet.

use braid_engine::{Call, Row};
use braid_spec::{Begin, Category, CommandError, CommandResult, Find, Flags, Group, KeyFlags, KeySpec};

/// What happens to a key that is moved away.
const MOVED: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

/// The family.
pub const COMMANDS: &[Row] = &[Row::new("migrate", Group::Generic, migrate)
    .at_least(6)
    .flags(Flags::WRITE.and(Flags::MOVABLE_KEYS))
    .categories(Category::DANGEROUS)
    .keys(&[
        KeySpec::at(KEY, MOVED),
        KeySpec {
            flags: MOVED.and(KeyFlags::INCOMPLETE),
            begin: Begin::Keyword { word: "KEYS", from: -2 },
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: "",
        },
    ])
    .find_keys(find_keys)
    .secrets(is_secret)
    .docs(
        "2.6.0",
        "Moves keys to another server.",
        "DUMP and DEL here and RESTORE there, and the transfer of the keys' values between the two.",
    )
    .syntax(
        "host:string port:integer key-selector:(key:key#0|empty-string=\"\") destination-db:integer \
         timeout:integer [COPY@3.0.0] [REPLACE@3.0.0] [authentication:(AUTH auth:string/password@4.0.7|\
         AUTH2 auth2:{username:string password:string}@6.0.0)] [KEYS keys:key#1/key...@3.0.6]",
    )
    .history(&[
        ("3.0.0", "Options `COPY` and `REPLACE`."),
        ("3.0.6", "Option `KEYS`."),
        ("4.0.7", "Option `AUTH`."),
        ("6.0.0", "Option `AUTH2`."),
    ])
    .tips(&["nondeterministic_output"])
    .unsupported("answers an error")];

/// Where the key stands, or nothing if KEYS names several.
const KEY: i32 = 3;
const FIRST_OPTION: usize = 6;

/// The options of a request: calls `see` with each one's index; `KEYS` is the last.
fn options<'a>(args: &'a [&'a [u8]]) -> impl Iterator<Item = (usize, &'a [u8])> {
    let mut next = FIRST_OPTION;
    std::iter::from_fn(move || {
        let (at, word) = (next, *args.get(next)?);
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        next = match () {
            () if is("keys") => args.len(),
            () if is("auth") => at + 2,
            () if is("auth2") => at + 3,
            () => at + 1,
        };
        Some((at, word))
    })
}

/// The key, or those behind KEYS, which leaves the key's place empty.
fn find_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    let keys = options(args).find(|(_, word)| word.eq_ignore_ascii_case(b"keys"));
    match keys {
        Some((at, _)) if at + 1 < args.len() => {
            args[KEY as usize].is_empty().then(|| (at + 1..args.len()).map(|index| (index, MOVED)).collect())
        }
        _ => Some(vec![(KEY as usize, MOVED)]),
    }
}

/// The password of AUTH, name and password of AUTH2.
fn is_secret(args: &[&[u8]], index: usize) -> bool {
    options(args).any(|(at, word)| {
        (word.eq_ignore_ascii_case(b"auth") && index == at + 1)
            || (word.eq_ignore_ascii_case(b"auth2") && (index == at + 1 || index == at + 2))
    })
}

fn migrate(_: &mut Call) -> CommandResult {
    Err(CommandError::text("ERR MIGRATE is not supported yet by this server"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tester;

    #[test]
    fn it_is_known_and_not_supported_yet() {
        Tester::new().check(&[
            ("SET k v", "+OK\r\n"),
            ("MIGRATE h 1 k 0 10", "-ERR MIGRATE is not supported yet by this server\r\n"),
            ("GET k", "$1\r\nv\r\n"),
            ("MIGRATE h 1 k 0", "-ERR wrong number of arguments for 'migrate' command\r\n"),
            ("COMMAND GETKEYS MIGRATE h 1 k 0 10", "*1\r\n$1\r\nk\r\n"),
            ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 KEYS", "*1\r\n$0\r\n\r\n"),
            ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 COPY AUTH KEYS keys a b", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 AUTH2 KEYS x KEYS a", "*1\r\n$1\r\na\r\n"),
        ]);
    }

    #[test]
    fn passwords_are_secrets() {
        let secrets = |line: &str| -> Vec<String> {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let secret = (0..args.len()).filter(|&index| is_secret(&args, index));
            secret.map(|index| String::from_utf8_lossy(args[index]).into_owned()).collect()
        };
        assert_eq!(secrets("MIGRATE h 1 k 0 10 COPY AUTH secret REPLACE"), ["secret"]);
        assert_eq!(secrets("MIGRATE h 1 k 0 10 auth2 name secret KEYS a"), ["name", "secret"]);
        assert!(secrets("MIGRATE h 1 k 0 10 KEYS auth a").is_empty());
        assert!(secrets("MIGRATE auth auth2 k 0 10 AUTH").is_empty());
    }
}
