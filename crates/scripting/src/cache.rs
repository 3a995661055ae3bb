// SPDX-License-Identifier: BSD-3-Clause
//! The script cache shared by all threads: scripts by SHA-1.
//!
//! A thread compiles a script when it first runs it. SCRIPT FLUSH empties the cache and increments
//! its generation; a thread with a VM of an older generation makes a new one before it runs
//! anything.
//!
//! Of the scripts known only from EVAL, the most recently used are kept ([`EVAL_SCRIPTS_MAX`]),
//! because a client that embeds values in its scripts must not fill the memory. Threads drop
//! their copies of evicted scripts on the next encounter, or after a number of evictions.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use braid_base::blob::Blob;
use braid_base::relocation::Mover;
use braid_containers::cow_map::CowMap;
use braid_spec::CommandTable;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use sha1::{Digest, Sha1};

use crate::flags::{ScriptFlags, parse_shebang};
use crate::function_libraries::Libraries;
use crate::key_analysis::{self, Reach};
use crate::speculation::SpeculationHistory;

/// A SHA-1.
pub type Sha = [u8; 20];

/// Number of EVAL scripts kept (those not loaded by SCRIPT LOAD), as in Redis since 7.4 and
/// Valkey since 8.0.
const EVAL_SCRIPTS_MAX: usize = 500;

/// A script run by EVAL or loaded by SCRIPT LOAD.
pub struct Script {
    pub sha: Sha,
    /// The SHA-1 in hexadecimal.
    pub name: String,
    /// The text, which moves (`Scripts::relocate`).
    body: Mutex<Blob>,
    pub flags: ScriptFlags,
    /// Start of the code, after a first line with flags.
    pub code_at: usize,
    /// Result of its key analysis.
    pub reach: Reach,
    pub history: SpeculationHistory,
    is_evicted: AtomicBool,
    /// Unix time in ms at which it was last run.
    used_ms: AtomicI64,
}

impl Script {
    /// Parses a script. Fails with the text for the client if its first line is invalid.
    pub(crate) fn read(commands: &CommandTable, body: &[u8], sha: Sha) -> Result<Script, Vec<u8>> {
        let (flags, code_at) = parse_shebang(body)?;
        let name = sha.iter().map(|byte| format!("{byte:02x}")).collect();
        let reach = key_analysis::reach(commands, &body[code_at..]);
        Ok(Script {
            sha,
            name,
            body: Mutex::new(Blob::from_slice(body)),
            flags,
            code_at,
            reach,
            history: SpeculationHistory::default(),
            is_evicted: AtomicBool::new(false),
            used_ms: AtomicI64::new(0),
        })
    }

    /// Records that the script is run.
    #[inline]
    pub fn note_use(&self, now_ms: i64) {
        // At most once per millisecond, so that threads that run the same script do not contend for
        // its cache line.
        if self.used_ms.load(Ordering::Relaxed) != now_ms {
            self.used_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// True if the cache has evicted it.
    #[inline]
    pub fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Relaxed)
    }

    /// The text, from its first line on.
    pub fn body(&self) -> Blob {
        self.body.lock().clone()
    }

    /// Moves the text to a better place. Threads that know the old one keep it alive.
    pub(crate) fn relocate(&self, mover: &mut Mover) {
        let mut body = self.body.lock();
        if let Some(moved) = body.at_better_place(mover) {
            *body = moved;
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Script>() + self.body.lock().allocation_bytes() + self.name.len()
    }
}

/// The SHA-1 of a script.
pub fn sha_of(body: &[u8]) -> Sha {
    Sha1::digest(body).into()
}

/// A SHA-1 in hexadecimal, in any case.
pub fn parse_sha(text: &[u8]) -> Option<Sha> {
    if text.len() != 40 {
        return None;
    }
    let mut sha = [0; 20];
    for (byte, digits) in sha.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |at: usize| (digits[at] as char).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(sha)
}

/// Scripts in a leaf of the map: as many as fit in 1024 bytes, a size that texts rarely have. Nodes
/// do not move, and would keep sparse the memory that texts have left.
const LEAF: usize = 31;

#[derive(Default)]
struct Known {
    /// In order, so that a walk can continue where it ended.
    by_sha: CowMap<Sha, Arc<Script>, LEAF>,
    /// Scripts known only from EVAL.
    evaluated: HashMap<Sha, Arc<Script>, foldhash::fast::RandomState>,
    /// Memory of these.
    evaluated_bytes: usize,
}

impl Known {
    /// Removes the least recently run EVAL script.
    fn take_oldest(&mut self) -> Option<Arc<Script>> {
        let oldest = self.evaluated.values().min_by_key(|script| script.used_ms.load(Ordering::Relaxed))?.sha;
        self.forget_evaluated(&oldest);
        self.by_sha.remove(&oldest)
    }

    /// Removes a script from those known only from EVAL.
    fn forget_evaluated(&mut self, sha: &Sha) {
        if let Some(script) = self.evaluated.remove(sha) {
            self.evaluated_bytes -= script.memory_bytes();
        }
    }
}

/// The server's scripts and functions.
pub struct Cache {
    scripts: RwLock<Known>,
    /// Number of evicted scripts, and the value at the last reset of the statistics.
    evicted: AtomicU64,
    evicted_before: AtomicU64,
    generation: AtomicU64,
    bytes: AtomicUsize,
    libraries: RwLock<Arc<Libraries>>,
    /// Incremented with every change of the libraries.
    libraries_generation: AtomicU64,
    /// Locked while the libraries are changed.
    changing: Mutex<()>,
    /// Bytes of each thread's VMs: for scripts, for functions.
    vm_bytes: Box<[(AtomicUsize, AtomicUsize)]>,
}

/// Statistics for INFO.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// Lua's memory for scripts, over all threads.
    pub script_vm_bytes: usize,
    /// Lua's memory for functions, over all threads.
    pub function_vm_bytes: usize,
    pub scripts: usize,
    /// EVAL scripts evicted to make room for others.
    pub evicted: u64,
    /// The cache's memory.
    pub script_bytes: usize,
    pub libraries: usize,
    pub functions: usize,
    pub function_bytes: usize,
}

impl Cache {
    /// An empty cache for up to this many threads.
    pub fn new(threads: usize) -> Cache {
        Cache {
            scripts: RwLock::default(),
            evicted: AtomicU64::new(0),
            evicted_before: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            libraries: RwLock::default(),
            libraries_generation: AtomicU64::new(0),
            changing: Mutex::new(()),
            vm_bytes: (0..threads).map(|_| Default::default()).collect(),
        }
    }

    /// Incremented whenever the cache is emptied.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn script(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.scripts.read().by_sha.get(sha).cloned()
    }

    /// Up to `most` scripts in order, those after `last`.
    pub(crate) fn scripts_after(&self, last: Option<Sha>, most: usize) -> Vec<Arc<Script>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let scripts = self.scripts.read();
        scripts
            .by_sha
            .range(from, Bound::Unbounded)
            .take(most)
            .map(|(_, script)| Arc::clone(script))
            .collect()
    }

    /// Scripts evicted since the start.
    #[inline]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Acquire)
    }

    /// Adds a script that is about to be run or, if `loads`, loaded. Returns the cached one if
    /// another thread added it first. If there are then too many EVAL scripts, the least recently
    /// run one is evicted, and so are others while EVAL scripts take more than `bytes_max`.
    pub fn add(&self, script: Script, loads: bool, now_ms: i64, bytes_max: usize) -> Arc<Script> {
        let mut scripts = self.scripts.write();
        if let Some(known) = scripts.by_sha.get(&script.sha) {
            return Arc::clone(known);
        }
        let bytes = script.memory_bytes();
        while !loads
            && (scripts.evaluated.len() >= EVAL_SCRIPTS_MAX
                || scripts.evaluated_bytes.saturating_add(bytes) > bytes_max)
            && let Some(oldest) = scripts.take_oldest()
        {
            self.bytes.fetch_sub(oldest.memory_bytes(), Ordering::Relaxed);
            oldest.is_evicted.store(true, Ordering::Relaxed);
            self.evicted.fetch_add(1, Ordering::Release);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        script.is_evicted.store(false, Ordering::Relaxed);
        script.note_use(now_ms);
        let script = Arc::new(script);
        scripts.by_sha.insert(script.sha, Arc::clone(&script));
        if !loads {
            scripts.evaluated.insert(script.sha, Arc::clone(&script));
            scripts.evaluated_bytes += bytes;
        }
        script
    }

    /// Makes a script permanent, for SCRIPT LOAD. False if it has been evicted in the meantime.
    pub fn keep(&self, script: &Script) -> bool {
        let mut scripts = self.scripts.write();
        if script.is_evicted() {
            return false;
        }
        scripts.forget_evaluated(&script.sha);
        true
    }

    /// Resets [`Figures::evicted`].
    pub fn reset_figures(&self) {
        self.evicted_before.store(self.evicted(), Ordering::Relaxed);
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        let mut scripts = self.scripts.write();
        let old = std::mem::take(&mut *scripts);
        self.bytes.store(0, Ordering::Relaxed);
        for (scripts, _) in &self.vm_bytes {
            scripts.store(0, Ordering::Relaxed);
        }
        // A thread about to make a script permanent sees that it was removed.
        old.by_sha.iter().for_each(|(_, script)| script.is_evicted.store(true, Ordering::Relaxed));
        self.generation.fetch_add(1, Ordering::Release);
        drop(scripts);
        drop(old);
    }

    /// All libraries.
    pub fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.read())
    }

    #[inline]
    pub fn libraries_generation(&self) -> u64 {
        self.libraries_generation.load(Ordering::Acquire)
    }

    /// Changes the libraries: `edit` gets a copy, which replaces the libraries if it succeeds.
    /// Changes are serialized.
    ///
    /// # Errors
    /// The error of `edit`; nothing is changed then.
    pub fn change_libraries<R, E>(&self, edit: impl FnOnce(&mut Libraries) -> Result<R, E>) -> Result<R, E> {
        let _changing = self.changing.lock();
        let mut libraries = (*self.libraries()).clone();
        let result = edit(&mut libraries)?;
        *self.libraries.write() = Arc::new(libraries);
        self.libraries_generation.fetch_add(1, Ordering::Release);
        Ok(result)
    }

    /// Records the memory of a thread's VMs.
    #[inline]
    pub(crate) fn note_vm_bytes(&self, slot: usize, scripts: usize, functions: usize) {
        let (for_scripts, for_functions) = &self.vm_bytes[slot];
        for_scripts.store(scripts, Ordering::Relaxed);
        for_functions.store(functions, Ordering::Relaxed);
    }

    /// Sums over the VMs of the first `threads` threads.
    pub fn figures(&self, threads: usize) -> Figures {
        let sum = |of: fn(&(AtomicUsize, AtomicUsize)) -> &AtomicUsize| {
            self.vm_bytes.iter().take(threads).map(|bytes| of(bytes).load(Ordering::Relaxed)).sum()
        };
        let libraries = self.libraries();
        let (library_count, functions) = libraries.counts();
        Figures {
            libraries: library_count,
            functions,
            function_bytes: libraries.memory_bytes(),
            script_vm_bytes: sum(|bytes| &bytes.0),
            function_vm_bytes: sum(|bytes| &bytes.1),
            scripts: self.scripts.read().by_sha.len(),
            evicted: self.evicted() - self.evicted_before.load(Ordering::Relaxed),
            script_bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
