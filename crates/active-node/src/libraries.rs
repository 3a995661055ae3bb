// SPDX-License-Identifier: BSD-3-Clause
//! Function libraries: the shadow's and this server's.
//!
//! The shadow may hold libraries that conflict, if they were loaded concurrently and define a
//! function of the same name. The latest library is taken first, then each that fits, so all
//! servers choose the same libraries, and a library just loaded by a client of this server is
//! among them.

use std::sync::Arc;

use braid_active::{Bytes, Name, Replica};
use braid_executor::engine::Engine;
use braid_scripting::function_libraries::Libraries;

/// The code of the given libraries, sorted.
fn codes<'l>(libraries: impl Iterator<Item = &'l [u8]>) -> Vec<&'l [u8]> {
    let mut codes: Vec<&[u8]> = libraries.collect();
    codes.sort_unstable();
    codes
}

/// The request that makes this server's libraries equal to the shadow's, if they differ. The
/// world is stopped, and the worker's slot is free.
pub(super) fn libraries_request(engine: &Engine, slot: usize, replica: &Replica) -> Option<Vec<Vec<u8>>> {
    let (wanted, present) = (replica.libraries(), engine.scripts.cache.libraries());
    let has = |libraries: &Libraries, codes: &[&[u8]]| {
        self::codes(libraries.all().map(|library| &*library.code)) == codes
    };
    if has(&present, &codes(wanted.iter().map(|code| &**code))) {
        return None;
    }
    let fitting = engine.scripts.with_vms(slot, |vms| {
        let mut fitting = Libraries::default();
        for code in &wanted {
            // On a copy, so that a library that does not fit leaves nothing behind.
            let mut next = fitting.clone();
            match next.prepare(code, false, |code| vms.read_library(&engine.config, code, None)) {
                Ok(library) => {
                    next.add(library);
                    fitting = next;
                }
                Err(error) => log::warn!(
                    "Active-active: a library stays hidden by one loaded later: {}",
                    String::from_utf8_lossy(&error)
                ),
            }
        }
        fitting
    });
    let fitting = fitting.ok()?;
    let chosen = codes(fitting.all().map(|library| &*library.code));
    if has(&present, &chosen) {
        return None;
    }
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &fitting.dump(), b"FLUSH"];
    Some(words.iter().map(|word| word.to_vec()).collect())
}

/// This server's libraries that the shadow lacks.
pub(super) fn libraries_missing_from(engine: &Engine, replica: &Replica) -> Vec<(Name, Bytes)> {
    let known = replica.libraries();
    let present: Arc<Libraries> = engine.scripts.cache.libraries();
    let new = present.all().filter(|library| !known.contains(&library.code));
    new.map(|library| (Name::from(library.name.as_bytes()), library.code.clone())).collect()
}
