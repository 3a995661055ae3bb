// SPDX-License-Identifier: BSD-3-Clause
//! The server's scripts: what all threads know of them, and each thread's machines.
//!
//! A thread takes its machines out while it runs or compiles something, and puts them back: a script
//! never runs within a script.

use std::convert::Infallible;

use braid_config::Config;
use braid_spec::CommandError;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::function_libraries::Libraries;
use crate::machines::Machines;

/// A thread's machines, where they are while nothing runs.
#[derive(Default)]
enum Slot {
    #[default]
    Unused,
    Idle(Box<Machines>),
    Taken,
}

/// One per server.
pub struct Scripts {
    pub cache: Cache,
    /// By the thread's slot; touched by that thread only.
    machines: Box<[Mutex<Slot>]>,
}

impl Scripts {
    /// No scripts, for up to so many threads.
    pub fn new(threads: usize) -> Scripts {
        Scripts { cache: Cache::new(threads), machines: (0..threads).map(|_| Mutex::default()).collect() }
    }

    /// Has `work` done with a thread's machines. An error while a script runs on the thread.
    pub fn with_machines<R>(
        &self,
        slot: usize,
        work: impl FnOnce(&mut Machines) -> R,
    ) -> Result<R, CommandError> {
        let mut machines = match std::mem::replace(&mut *self.machines[slot].lock(), Slot::Taken) {
            Slot::Unused => Box::new(Machines::new()),
            Slot::Idle(machines) => machines,
            Slot::Taken => return Err(CommandError::text("ERR A script cannot run another script")),
        };
        let result = work(&mut machines);
        self.cache.note_machines(slot, machines.script_bytes(), machines.function_bytes());
        *self.machines[slot].lock() = Slot::Idle(machines);
        Ok(result)
    }

    /// The code of all libraries, for a file.
    pub fn library_codes(&self) -> Vec<Vec<u8>> {
        self.cache.libraries().all().map(|library| library.code.to_vec()).collect()
    }

    /// Adds the libraries of a file, read on the thread of `slot`; all or none. `replace`: those of
    /// the same name give way. The text says what is wrong.
    pub fn load_libraries(
        &self,
        slot: usize,
        config: &Config,
        codes: &[Vec<u8>],
        replace: bool,
    ) -> Result<(), String> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = self.with_machines(slot, |machines| {
            self.cache.change_libraries(|libraries| {
                for code in codes {
                    let read = |code: &[u8]| machines.read_library(config, code, None);
                    let library = libraries.prepare(code, replace, read)?;
                    libraries.add(library);
                }
                Ok(())
            })
        });
        let result = result.map_err(|error| text_of(&error.line()))?;
        result.map_err(|error: Vec<u8>| text_of(&error))
    }

    /// As [`Scripts::load_libraries`], in place of all that there are.
    pub fn replace_libraries(&self, slot: usize, config: &Config, codes: &[Vec<u8>]) -> Result<(), String> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = self.with_machines(slot, |machines| {
            self.cache.change_libraries(|libraries| {
                let mut new = Libraries::default();
                for code in codes {
                    let read = |code: &[u8]| machines.read_library(config, code, None);
                    let library = new.prepare(code, false, read)?;
                    new.add(library);
                }
                *libraries = new;
                Ok(())
            })
        });
        let result = result.map_err(|error| text_of(&error.line()))?;
        result.map_err(|error: Vec<u8>| text_of(&error))
    }

    /// Forgets all libraries.
    pub fn clear_libraries(&self) {
        let _: Result<(), Infallible> = self.cache.change_libraries(|libraries| {
            *libraries = Libraries::default();
            Ok(())
        });
    }
}
