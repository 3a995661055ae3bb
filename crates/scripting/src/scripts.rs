// SPDX-License-Identifier: BSD-3-Clause
//! The server's scripts: the shared cache, and each thread's VMs.
//!
//! A thread takes its VMs out while it runs or compiles code, and puts them back afterwards; a
//! script never runs within a script. If another thread uses the slot in the meantime, it makes
//! its own VMs.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use braid_base::relocation::Mover;
use braid_config::Config;
use braid_spec::{CommandError, CommandTable};
use parking_lot::Mutex;

use crate::cache::{Cache, Sha};
use crate::function_libraries::Libraries;
use crate::thread_vms::{Environment, ThreadVms};

/// Treatment of existing libraries when others are loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PresentLibraries {
    /// An existing library of the same name is an error.
    Kept,
    /// Libraries of the same name are replaced.
    Replaced,
    /// All existing libraries are removed.
    Removed,
}

/// Texts that move at once, while each thread's VMs are locked in turn.
const RELOCATED_AT_ONCE: usize = 16;

thread_local! {
    /// A script runs on this thread, or is being compiled.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// The server's scripts and VMs. One per server.
pub struct Scripts {
    pub cache: Cache,
    /// By thread slot; `None` before the thread's first script, and while one runs.
    vms: Box<[Mutex<Option<Box<ThreadVms>>>]>,
    /// The threading model lets scripts run concurrently with other commands.
    pub run_beside: AtomicBool,
    /// The last script that [`Scripts::relocate`] has examined.
    relocated: Mutex<Option<Sha>>,
}

impl Scripts {
    /// No scripts yet, for up to this many threads.
    pub fn new(threads: usize) -> Scripts {
        Scripts {
            cache: Cache::new(threads),
            vms: (0..threads).map(|_| Mutex::default()).collect(),
            run_beside: AtomicBool::new(true),
            relocated: Mutex::default(),
        }
    }

    /// The environment for compiling scripts.
    pub fn environment<'s>(&'s self, config: &'s Config, commands: &'s CommandTable) -> Environment<'s> {
        Environment { config, commands, cache: &self.cache }
    }

    /// Calls `work` with the VMs of a slot.
    ///
    /// A thread whose script waits for the world to stop is outside the gate and still holds its
    /// VMs. A thread that has stopped the world may load a dump on the same slot, or apply a
    /// primary's stream: it gets new VMs.
    ///
    /// # Errors
    /// If a script already runs on this thread.
    pub fn with_vms<R>(
        &self,
        slot: usize,
        work: impl FnOnce(&mut ThreadVms) -> R,
    ) -> Result<R, CommandError> {
        if IS_RUNNING.replace(true) {
            return Err(CommandError::text("ERR A script cannot run another script"));
        }
        let idle = self.vms[slot].lock().take();
        let mut vms = idle.unwrap_or_else(|| Box::new(ThreadVms::new()));
        let result = work(&mut vms);
        self.cache.note_vm_bytes(slot, vms.script_bytes(), vms.function_bytes());
        *self.vms[slot].lock() = Some(vms);
        IS_RUNNING.set(false);
        Ok(result)
    }

    /// Removes all scripts, and the VMs of threads that run none. The others follow before they run
    /// another one.
    pub fn flush(&self) {
        self.cache.flush();
        for vms in &self.vms {
            if let Some(vms) = &mut *vms.lock() {
                vms.drop_scripts();
            }
        }
    }

    /// Moves scripts' texts to better places (`braid_base::relocation`), from where the last call
    /// ended, until all have been examined, which is true, or the mover's time is over. A text that
    /// a running script's thread knows stays in memory until all are examined again.
    pub fn relocate(&self, mover: &mut Mover) -> bool {
        let mut last = self.relocated.lock();
        loop {
            let scripts = self.cache.scripts_after(*last, RELOCATED_AT_ONCE);
            *last = scripts.last().map(|script| script.sha);
            if last.is_none() {
                return true;
            }
            scripts.iter().for_each(|script| script.relocate(mover));
            for vms in &self.vms {
                if let Some(vms) = &mut *vms.lock() {
                    vms.follow(&scripts);
                }
            }
            if mover.is_over() {
                return false;
            }
        }
    }

    /// The code of all libraries, to be saved.
    pub fn library_codes(&self) -> Vec<Vec<u8>> {
        self.cache.libraries().all().map(|library| library.code.to_vec()).collect()
    }

    /// Adds all libraries of a file, or none, on the thread of `slot`.
    ///
    /// # Errors
    /// A description of the first invalid library, or of a script that runs on this thread. No
    /// library is added then.
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

#[test]
fn waiting_script_lets_another_thread_use_its_vm_slot() {
    let scripts = Scripts::new(1);
    let by_another = || {
        let load = || scripts.load_libraries(0, &Config::default(), &[code()], PresentLibraries::Kept);
        std::thread::scope(|scope| scope.spawn(load).join().expect("no panic"))
    };
    let within = scripts.with_vms(0, |_| (scripts.with_vms(0, |_| ()).is_err(), by_another()));
    assert_eq!(within.ok(), Some((true, Ok(()))));
    assert_eq!(scripts.library_codes(), [code()]);
    assert!(scripts.with_vms(0, |_| ()).is_ok());
}

#[cfg(test)]
fn code() -> Vec<u8> {
    b"#!lua name=lib\nredis.register_function('f', function() return 1 end)".to_vec()
}
