// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE: row and arguments. `cluster-node/migrate.rs` moves the keys.

use std::time::Duration;

use braid_executor::{Call, Row};
use braid_spec::{
    Begin, Behavior, Category, CommandError, CommandResult, Find, Flags, Group, KeyFlags, KeySpec,
};

use crate::migrate::{self, Credentials, Migration};

/// The access to a migrated key.
const MOVED: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

/// Rows of MIGRATE.
pub const COMMANDS: &[Row] = &[Row::new("migrate", Group::Generic, migrate)
    .at_least(6)
    .flags(Flags::WRITE.and(Flags::MOVABLE_KEYS))
    .behavior(Behavior::MOVES_KEYS)
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
    .tips(&["nondeterministic_output"])];

/// Position of the key argument, which is empty if KEYS names several.
const KEY: i32 = 3;
const FIRST_OPTION: usize = 6;

/// The options of a request with their indexes; `KEYS` is the last.
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

/// The key, or the keys after KEYS, which requires an empty key argument.
fn find_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    let keys = options(args).find(|(_, word)| word.eq_ignore_ascii_case(b"keys"));
    match keys {
        Some((at, _)) if at + 1 < args.len() => {
            args[KEY as usize].is_empty().then(|| (at + 1..args.len()).map(|index| (index, MOVED)).collect())
        }
        _ => Some(vec![(KEY as usize, MOVED)]),
    }
}

/// True for the password of AUTH, and for name and password of AUTH2.
fn is_secret(args: &[&[u8]], index: usize) -> bool {
    options(args).any(|(at, word)| {
        (word.eq_ignore_ascii_case(b"auth") && index == at + 1)
            || (word.eq_ignore_ascii_case(b"auth2") && (index == at + 1 || index == at + 2))
    })
}

/// Timeout of each step if the request gives 0 or less.
const DEFAULT_TIMEOUT_MS: i64 = 1000;

#[derive(Default)]
struct Options {
    copy: bool,
    replace: bool,
    credentials: Option<Credentials>,
    /// Index of the first key, if KEYS names them.
    keys: Option<usize>,
}

fn parse(call: &Call) -> Result<Options, CommandError> {
    let mut found = Options::default();
    let arg = |at: usize| call.args.get(at).map(|arg| arg.to_vec()).ok_or(CommandError::Syntax);
    for (at, word) in options(call.args) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        if is("copy") {
            found.copy = true;
        } else if is("replace") {
            found.replace = true;
        } else if is("auth") {
            // The user name of a preceding AUTH2 stays in effect, as in stock servers.
            let name = found.credentials.take().and_then(|credentials| credentials.name);
            found.credentials = Some(Credentials { name, password: arg(at + 1)? });
        } else if is("auth2") {
            let (name, password) = (Some(arg(at + 1)?), arg(at + 2)?);
            found.credentials = Some(Credentials { name, password });
        } else if is("keys") {
            if !call.args[KEY as usize].is_empty() {
                return Err(CommandError::text(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            found.keys = Some(at + 1);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(found)
}

/// Parses a port like stock servers: the leading digits; without digits 0, to which nothing
/// connects.
fn port(text: &[u8]) -> u16 {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn migrate(call: &mut Call) -> CommandResult {
    let Options { copy, replace, credentials, keys } = parse(call)?;
    let timeout = call.integer_arg(5)?;
    let target_db = call.integer_arg(4)?;
    let timeout_ms = if timeout > 0 { timeout } else { DEFAULT_TIMEOUT_MS };
    let named = keys.map_or(KEY as usize..KEY as usize + 1, |first| first..call.args.len());
    let keyspace = &call.keyspace;
    let found = call.args[named].iter().filter(|key| keyspace.read(key).is_some());
    let keys: Vec<Box<[u8]>> = found.map(|&key| key.into()).collect();
    if keys.is_empty() {
        call.reply.simple("NOKEY");
        return Ok(());
    }
    let migration = Migration {
        host: String::from_utf8_lossy(call.args[1]).into_owned(),
        port: port(call.args[2]),
        db: keyspace.db(),
        target_db,
        // A longer timeout has no effect: the connection fails earlier.
        timeout: Duration::from_millis(timeout_ms.min(i64::from(i32::MAX)) as u64),
        copy,
        replace,
        credentials,
    };
    migrate::migrate_keys(call, migration, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

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
