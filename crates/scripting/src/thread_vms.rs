// SPDX-License-Identifier: BSD-3-Clause
//! A thread's VMs, one for scripts and one for functions, and the scripts and libraries compiled in
//! them.
//!
//! The thread takes its VMs out of [`crate::Scripts`] while a script runs, so that a script can
//! never run within a script.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use braid_base::blob::Blob;
use braid_config::Config;
use braid_spec::{CommandError, CommandTable};
use hashbrown::{HashMap, HashTable};

use crate::cache::{Cache, Script, Sha, parse_sha, sha_of};
use crate::flags::parse_library;
use crate::function::Function;
use crate::function_libraries::{FunctionInfo, Libraries, Library};
use crate::lua_vm::{LuaVm, Purpose};
use crate::speculation::SpeculationHistory;

/// A thread drops its compiled copies of evicted scripts after this many evictions.
const EVICTED_MAX: u64 = 100;

/// Environment for compiling scripts.
#[derive(Clone, Copy)]
pub struct Environment<'s> {
    pub config: &'s Config,
    pub commands: &'s CommandTable,
    pub cache: &'s Cache,
}

/// A script compiled by this thread's VM.
#[derive(Clone)]
pub struct Compiled {
    pub function: Function,
    pub script: Arc<Script>,
}

/// One thread's VMs.
pub struct ThreadVms {
    /// The VM for scripts, with the cache's generation at which it was made.
    scripts: Option<(u64, LuaVm)>,
    by_sha: HashMap<Sha, Compiled, foldhash::fast::RandomState>,
    /// The same scripts by text, so that EVAL need not compute a SHA-1 each time. The hash is
    /// keyed: texts are compared, so a collision is harmless, but many collisions would be slow.
    by_body: HashTable<(Blob, Compiled)>,
    /// Number of evicted scripts when this thread last dropped its copies.
    evicted: u64,
    hasher: RandomState,
    functions: Option<LuaVm>,
    /// The libraries as last seen by this thread, with their generation.
    libraries: (u64, Arc<Libraries>),
    /// Compiled functions of the libraries whose code this thread has run: by library id, in the
    /// library's order.
    loaded: HashMap<u64, Vec<Function>, foldhash::fast::RandomState>,
}

impl ThreadVms {
    pub(crate) fn new() -> ThreadVms {
        ThreadVms {
            scripts: None,
            by_sha: HashMap::default(),
            by_body: HashTable::new(),
            evicted: 0,
            hasher: RandomState::new(),
            functions: None,
            libraries: (u64::MAX, Arc::default()),
            loaded: HashMap::default(),
        }
    }

    /// The VM for scripts.
    pub fn scripts(&mut self, config: &Config) -> &mut LuaVm {
        &mut self.scripts.get_or_insert_with(|| (0, new_vm(config, Purpose::Scripts))).1
    }

    /// Bytes of the VM for scripts.
    pub fn script_bytes(&self) -> usize {
        self.scripts.as_ref().map_or(0, |(_, vm)| vm.memory_bytes())
    }

    /// Makes a new VM if the cache has been emptied since the current one was made.
    fn renew(&mut self, environment: &Environment<'_>, generation: u64) {
        let Environment { config, cache, .. } = *environment;
        let evicted = cache.evicted();
        if let Some((_, vm)) = self.scripts.as_mut().filter(|(made, _)| *made == generation) {
            // The limit may have changed.
            vm.set_memory_max(memory_max(config));
            if evicted - self.evicted >= EVICTED_MAX {
                self.evicted = evicted;
                self.forget_evicted();
            }
            return;
        }
        self.evicted = evicted;
        self.drop_scripts();
        self.scripts = Some((generation, new_vm(config, Purpose::Scripts)));
    }

    /// Drops the VM for scripts, with all that is compiled in it.
    pub(crate) fn drop_scripts(&mut self) {
        self.by_sha = HashMap::default();
        self.by_body = HashTable::new();
        self.scripts = None;
    }

    /// Drops compiled scripts that were evicted from the cache.
    #[cold]
    fn forget_evicted(&mut self) {
        let Some((_, vm)) = &mut self.scripts else { return };
        // Each is in `by_sha`; `by_body` refers to the same functions.
        self.by_body.retain(|(_, compiled)| !compiled.script.is_evicted());
        self.by_sha.retain(|_, compiled| {
            let stays = !compiled.script.is_evicted();
            if !stays {
                vm.release(compiled.function);
            }
            stays
        });
    }

    /// The compiled script with this text. `loads`: make it permanent.
    ///
    /// # Errors
    /// If the first line of the script is invalid, or the code does not compile.
    pub fn by_body(
        &mut self,
        environment: &Environment<'_>,
        body: &[u8],
        loads: bool,
        now_ms: i64,
    ) -> Result<Compiled, CommandError> {
        let compiled = self.find_by_body(environment, body, loads, now_ms)?;
        if !loads {
            compiled.script.note_use(now_ms);
        } else if !environment.cache.keep(&compiled.script) {
            // Another thread has evicted it in the meantime.
            return self.by_body(environment, body, loads, now_ms);
        }
        Ok(compiled)
    }

    fn find_by_body(
        &mut self,
        environment: &Environment<'_>,
        body: &[u8],
        loads: bool,
        now_ms: i64,
    ) -> Result<Compiled, CommandError> {
        let generation = environment.cache.generation();
        self.renew(environment, generation);
        let hash = self.hasher.hash_one(body);
        if let Some((_, found)) = self.by_body.find(hash, |(known, _)| **known == *body) {
            if !found.script.is_evicted() {
                return Ok(found.clone());
            }
            self.forget_evicted();
        }
        let sha = sha_of(body);
        if self.by_sha.get(&sha).is_some_and(|compiled| compiled.script.is_evicted()) {
            self.forget_evicted();
        }
        let known = self.by_sha.get(&sha).cloned();
        let compiled = match known {
            Some(compiled) => compiled,
            None => {
                let script = match environment.cache.script(&sha) {
                    Some(script) => script,
                    None => Arc::new(
                        Script::read(environment.commands, body, sha)
                            .map_err(|text| CommandError::Bytes([b"ERR ", &text[..]].concat()))?,
                    ),
                };
                self.compile(environment, script, loads, now_ms)?
            }
        };
        let (hasher, known) = (&self.hasher, (compiled.script.body(), compiled.clone()));
        self.by_body.insert_unique(hash, known, |(body, _)| hasher.hash_one(&**body));
        Ok(compiled)
    }

    /// Takes over the places of scripts' texts, which have moved.
    pub(crate) fn follow(&mut self, scripts: &[Arc<Script>]) {
        for script in scripts.iter().filter(|script| self.by_sha.contains_key(&script.sha)) {
            let body = script.body();
            let hash = self.hasher.hash_one(&*body);
            let known = self.by_body.find_mut(hash, |(_, compiled)| Arc::ptr_eq(&compiled.script, script));
            if let Some((place, _)) = known {
                *place = body;
            }
        }
    }

    /// The compiled script with this SHA-1.
    ///
    /// # Errors
    /// NOSCRIPT if no such script is cached, and otherwise the error of compiling it.
    pub fn by_sha(
        &mut self,
        environment: &Environment<'_>,
        sha: &[u8],
        now_ms: i64,
    ) -> Result<Compiled, CommandError> {
        let unknown = || CommandError::text("NOSCRIPT No matching script. Please use EVAL.");
        let sha = parse_sha(sha).ok_or_else(unknown)?;
        let generation = environment.cache.generation();
        self.renew(environment, generation);
        if let Some(compiled) = self.by_sha.get(&sha) {
            if !compiled.script.is_evicted() {
                compiled.script.note_use(now_ms);
                return Ok(compiled.clone());
            }
            self.forget_evicted();
        }
        let script = environment.cache.script(&sha).ok_or_else(unknown)?;
        script.note_use(now_ms);
        self.compile(environment, script, false, now_ms)
    }

    /// Compiles a script, and adds it to the cache if it is new.
    fn compile(
        &mut self,
        environment: &Environment<'_>,
        script: Arc<Script>,
        loads: bool,
        now_ms: i64,
    ) -> Result<Compiled, CommandError> {
        let body = script.body();
        let code = &body[script.code_at..];
        let function =
            self.scripts(environment.config).compile(c"@user_script", code).map_err(|message| {
                CommandError::Bytes([b"ERR Error compiling script (new function): ", &message[..]].concat())
            })?;
        let script = match Arc::try_unwrap(script) {
            Ok(new) => environment.cache.add(new, loads, now_ms, evaluated_max(environment.config)),
            Err(known) => known,
        };
        let compiled = Compiled { function, script };
        self.by_sha.insert(compiled.script.sha, compiled.clone());
        Ok(compiled)
    }

    /// The current libraries. Drops this thread's functions of libraries that no longer exist.
    pub fn libraries(&mut self, cache: &Cache) -> Arc<Libraries> {
        let generation = cache.libraries_generation();
        if self.libraries.0 != generation {
            let libraries = cache.libraries();
            if libraries.counts().0 == 0 {
                self.functions = None;
                self.loaded.clear();
            } else if let Some(vm) = &mut self.functions {
                self.loaded.retain(|id, functions| {
                    let stays = libraries.all().any(|library| library.id == *id);
                    if !stays {
                        functions.iter().for_each(|function| vm.release(*function));
                    }
                    stays
                });
            }
            self.libraries = (generation, libraries);
        }
        Arc::clone(&self.libraries.1)
    }

    /// The VM for functions.
    pub fn for_functions(&mut self, config: &Config) -> &mut LuaVm {
        let vm = self.functions.get_or_insert_with(|| new_vm(config, Purpose::Functions));
        // The limit may have changed.
        vm.set_memory_max(memory_max(config));
        vm
    }

    /// Bytes of the VM for functions.
    pub fn function_bytes(&self) -> usize {
        self.functions.as_ref().map_or(0, LuaVm::memory_bytes)
    }

    /// Runs the code of a new library, after which its functions are ready in this thread.
    ///
    /// # Errors
    /// The text for the client, if the first line is invalid, the code does not compile or fails,
    /// or it runs longer than `timeout`.
    pub fn read_library(
        &mut self,
        config: &Config,
        code: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Library, Vec<u8>> {
        let head = parse_library(code)?;
        let registered = self.for_functions(config).load_library(head.code, timeout)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (mut functions, mut infos) = (Vec::new(), Vec::new());
        for function in registered {
            functions.push(function.function);
            infos.push(FunctionInfo {
                name: text(function.name),
                description: function.description,
                flags: function.flags,
                history: SpeculationHistory::default(),
            });
        }
        let library = Library::new(text(head.name), code, infos);
        self.loaded.insert(library.id, functions);
        // If the library is not published, the next lookup drops it.
        self.libraries.0 = u64::MAX;
        Ok(library)
    }

    /// A function of a library, ready to be called. `None` if the library's code does not
    /// register it on this thread.
    pub fn function(&mut self, config: &Config, library: &Library, index: usize) -> Option<Function> {
        if let Some(functions) = self.loaded.get(&library.id) {
            return functions.get(index).copied();
        }
        let head = parse_library(&library.code).ok()?;
        let registered = self.for_functions(config).load_library(head.code, None).ok()?;
        let same = registered.len() == library.functions.len()
            && registered
                .iter()
                .zip(&library.functions)
                .all(|(found, known)| found.name == known.name.as_bytes());
        if !same {
            registered.iter().for_each(|found| self.for_functions(config).release(found.function));
            return None;
        }
        let functions: Vec<Function> = registered.iter().map(|found| found.function).collect();
        let function = functions.get(index).copied();
        self.loaded.insert(library.id, functions);
        function
    }
}

fn new_vm(config: &Config, purpose: Purpose) -> LuaVm {
    LuaVm::new(purpose, memory_max(config), &config.redis_version())
}

/// Memory limit of a VM, in bytes.
fn memory_max(config: &Config) -> usize {
    limit(config.lua_memory_bytes())
}

/// Memory limit of the scripts of EVAL, in bytes.
fn evaluated_max(config: &Config) -> usize {
    limit(config.maxmemory_scripts_bytes())
}

/// A limit of which 0 is none.
fn limit(bytes: u64) -> usize {
    if bytes == 0 { usize::MAX } else { usize::try_from(bytes).unwrap_or(usize::MAX) }
}
