// SPDX-License-Identifier: BSD-3-Clause
//! The server's scripts: the shared cache, and each thread's VMs.
//!
//! A thread takes its VMs out while it runs or compiles something, and puts them back: a script
//! never runs within a script.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use braid_config::Config;
use braid_spec::{CommandError, CommandTable};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::function_libraries::Libraries;
use crate::thread_vms::{Environment, ThreadVms};

/// Treatment of present libraries when others are loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PresentLibraries {
    /// A present library of the same name is an error.
    Kept,
    /// Libraries of the same name are replaced.
    Replaced,
    /// All are removed.
    Removed,
}

/// A thread's VMs while nothing runs.
#[derive(Default)]
enum Slot {
    #[default]
    Unused,
    Idle(Box<ThreadVms>),
    Taken,
}

/// One per server.
pub struct Scripts {
    pub cache: Cache,
    /// By the thread's slot; used by that thread only.
    vms: Box<[Mutex<Slot>]>,
    /// The threading model lets scripts run beside other commands.
    pub run_beside: AtomicBool,
}

impl Scripts {
    /// No scripts, for up to this many threads.
    pub fn new(threads: usize) -> Scripts {
        Scripts {
            cache: Cache::new(threads),
            vms: (0..threads).map(|_| Mutex::default()).collect(),
            run_beside: AtomicBool::new(true),
        }
    }

    /// Environment for compiling scripts.
    pub fn environment<'s>(&'s self, config: &'s Config, commands: &'s CommandTable) -> Environment<'s> {
        Environment { config, commands, cache: &self.cache }
    }

    /// Calls `work` with a thread's VMs. Fails while a script runs on the thread.
    pub fn with_vms<R>(
        &self,
        slot: usize,
        work: impl FnOnce(&mut ThreadVms) -> R,
    ) -> Result<R, CommandError> {
        let mut vms = match std::mem::replace(&mut *self.vms[slot].lock(), Slot::Taken) {
            Slot::Unused => Box::new(ThreadVms::new()),
            Slot::Idle(vms) => vms,
            Slot::Taken => return Err(CommandError::text("ERR A script cannot run another script")),
        };
        let result = work(&mut vms);
        self.cache.note_vm_bytes(slot, vms.script_bytes(), vms.function_bytes());
        *self.vms[slot].lock() = Slot::Idle(vms);
        Ok(result)
    }

    /// The code of all libraries, for a file.
    pub fn library_codes(&self) -> Vec<Vec<u8>> {
        self.cache.libraries().all().map(|library| library.code.to_vec()).collect()
    }

    /// Adds the libraries of a file, read on the thread of `slot`; all or none. Fails with a
    /// description of the error.
    pub fn load_libraries(
        &self,
        slot: usize,
        config: &Config,
        codes: &[Vec<u8>],
        present: PresentLibraries,
    ) -> Result<(), String> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = self.with_vms(slot, |vms| {
            self.cache.change_libraries(|libraries| {
                if present == PresentLibraries::Removed {
                    *libraries = Libraries::default();
                }
                for code in codes {
                    let read = |code: &[u8]| vms.read_library(config, code, None);
                    let library = libraries.prepare(code, present == PresentLibraries::Replaced, read)?;
                    libraries.add(library);
                }
                Ok(())
            })
        });
        let result = result.map_err(|error| text_of(&error.line()))?;
        result.map_err(|error: Vec<u8>| text_of(&error))
    }

    /// Removes all libraries.
    pub fn clear_libraries(&self) {
        let _: Result<(), Infallible> = self.cache.change_libraries(|libraries| {
            *libraries = Libraries::default();
            Ok(())
        });
    }
}
