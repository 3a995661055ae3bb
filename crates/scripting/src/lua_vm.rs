// SPDX-License-Identifier: BSD-3-Clause
//! A Lua VM: one sandboxed Lua state, with the code compiled for it.
//!
//! A thread has one VM for EVAL and one for functions, so that neither sees the other. The
//! sandbox is that of Redis 7.2: globals and everything reachable from them are read-only, access
//! to an undefined global is an error, and there are no files, processes or modules. In addition
//! there is no `newproxy`: values with finalizers could run code at any time.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::rc::Rc;

use braid_resp::reply::{Protocol, ReplyBuffer};
use mlua_sys as sys;

use crate::debugger::{self, Debugger};
use crate::function::{Function, Registered};
use crate::host::{Host, Verdict};
use crate::libraries::json::settings::Settings;
use crate::lua::{GLOBALS, Lua, LuaType, REGISTRY, function, lua_State};
use crate::memory::{self, Memory};
use crate::outcome::Ended;
use crate::shared::Shared;
use crate::{api, base, convert, interrupt, libraries};

/// Number of runs after which a step of garbage collection is forced.
const COLLECT_EVERY: u32 = 50;

/// Kind of code that a VM runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// EVAL: `KEYS` and `ARGV` are globals.
    Scripts,
    /// FCALL: `KEYS` and `ARGV` are arguments.
    Functions,
}

/// One Lua state.
pub struct LuaVm {
    state: *mut lua_State,
    shared: NonNull<Shared>,
    purpose: Purpose,
    handler: c_int,
    /// The table of globals.
    globals: c_int,
    /// Environments that the globals of libraries refer to: one for running functions, one for
    /// loading a library.
    environments: Option<(c_int, c_int)>,
    runs: u32,
    /// Number of the last run, for the watch.
    run: u64,
    /// Memory limit while a script runs, in bytes.
    memory_max: usize,
}

// SAFETY: a VM owns everything that it points to (the state, the shared part, their memory
// counter), and all of it moves with the VM. None of it is bound to a thread.
unsafe impl Send for LuaVm {}

impl Drop for LuaVm {
    fn drop(&mut self) {
        // SAFETY: made by `new`, closed once; the shared part is freed after the state has last
        // used it.
        unsafe {
            (*self.shared.as_ptr()).memory.lift();
            sys::lua_close(self.state);
            drop(Box::from_raw(self.shared.as_ptr()));
        }
    }
}

impl LuaVm {
    /// A fresh VM. `memory_max` limits its memory while a script runs, in bytes. `version` is the
    /// version shown to scripts.
    pub fn new(purpose: Purpose, memory_max: usize, version: &str) -> LuaVm {
        let memory = Rc::new(Memory::new());
        let shared = Box::new(Shared::new(Rc::clone(&memory)));
        let shared = NonNull::from(Box::leak(shared));
        // SAFETY: the memory lives in the shared part, which outlives the state.
        let state = unsafe { sys::lua_newstate(memory::allocate, Rc::as_ptr(&memory).cast_mut().cast()) };
        assert!(!state.is_null(), "no memory for a Lua state");
        let mut vm = LuaVm {
            state,
            shared,
            purpose,
            handler: 0,
            globals: 0,
            environments: None,
            runs: 0,
            run: 0,
            memory_max,
        };
        vm.set_up(version);
        vm
    }

    /// The kind of code it runs.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Bytes allocated by Lua, including the buffers for calls from scripts.
    pub fn memory_bytes(&self) -> usize {
        // SAFETY: alive as long as the VM; not borrowed, since no script runs.
        let shared = unsafe { self.shared.as_ref() };
        shared.memory.used.get() + shared.reply.memory_bytes() + shared.numbers.capacity()
    }

    /// Changes the memory limit.
    pub fn set_memory_max(&mut self, bytes: usize) {
        self.memory_max = bytes;
    }

    fn lua(&self) -> Lua<'static> {
        // SAFETY: the state lives as long as the VM, and the result is not kept longer.
        unsafe { Lua::new(self.state) }
    }

    fn shared_mut(&mut self) -> &mut Shared {
        // SAFETY: alive as long as the VM; Lua does not run while the result is used.
        unsafe { self.shared.as_mut() }
    }

    /// Fills the sandbox. Memory is not limited here, so no call jumps.
    fn set_up(&mut self, version: &str) {
        let (lua, shared) = (self.lua(), self.shared.as_ptr());
        // SAFETY: the shared part is freed after the state (`drop`); `shared_mut` is not used while
        // Lua runs.
        unsafe { interrupt::register(lua, shared) };
        for (open, name) in [
            (sys::luaopen_base as unsafe extern "C-unwind" fn(*mut lua_State) -> c_int, c""),
            (sys::luaopen_table, c"table"),
            (sys::luaopen_string, c"string"),
            (sys::luaopen_math, c"math"),
        ] {
            // SAFETY: Lua's own libraries; memory is not limited.
            unsafe {
                sys::lua_pushcclosure(self.state, open, 0);
                sys::lua_pushstring_(self.state, name.as_ptr());
                sys::lua_call(self.state, 1, 0);
            }
        }
        for name in ["dofile", "loadfile", "print", "newproxy"] {
            lua.push_nil();
            lua.raw_set_field(GLOBALS, name);
        }
        base::install(lua, shared);
        libraries::install(lua, shared);
        api::install(lua, shared, version);
        lua.push_function(function!(base::describe_error), shared);
        self.handler = lua.keep();
        lua.push_copy(GLOBALS);
        api::set_strict(lua, shared);
        seal_deeply(lua);
        if self.purpose == Purpose::Functions {
            let real = lua.keep();
            api::push_loading_globals(lua, shared, version);
            api::set_strict(lua, shared);
            seal_deeply(lua);
            let loading = lua.keep();
            self.environments = Some((real, loading));
            // The globals of library code are an empty table, whose metatable refers to one of
            // the two environments.
            lua.push_table(0, 0);
            lua.push_table(0, 1);
            lua.raw_get_index(REGISTRY, real);
            lua.raw_set_field(-3, "__index");
            lua.seal(-1, true);
            lua.set_metatable(-2);
            lua.seal(-1, true);
            // SAFETY: a table is on top.
            unsafe { sys::lua_replace(self.state, GLOBALS) };
        } else {
            lua.pop(1);
        }
        lua.push_copy(GLOBALS);
        self.globals = lua.keep();
        // Strings share one metatable.
        lua.push_string(b"");
        if lua.push_metatable(-1) {
            lua.seal(-1, true);
            lua.pop(1);
        }
        lua.pop(1);
        // SAFETY: registered above.
        unsafe { interrupt::set_hook(lua) };
        // SAFETY: no arguments.
        unsafe { sys::lua_gc(self.state, sys::LUA_GCCOLLECT, 0) };
    }

    /// Compiles code. `name` is its name in errors, in Lua's notation (`@user_script`).
    ///
    /// # Errors
    /// Lua's message, if the code does not compile or needs more memory than allowed.
    pub fn compile(&mut self, name: &CStr, code: &[u8]) -> Result<Function, Vec<u8>> {
        let lua = self.lua();
        if self.memory_bytes() > self.memory_max / 2 {
            // An earlier script's garbage must not count towards this script's limit.
            // SAFETY: no script runs, and there are no finalizers.
            unsafe { sys::lua_gc(self.state, sys::LUA_GCCOLLECT, 0) };
        }
        let limit = self.memory_max.max(code.len() * 64);
        self.shared_mut().memory.begin(limit);
        // SAFETY: loading is protected by Lua itself.
        let status =
            unsafe { sys::luaL_loadbuffer(self.state, code.as_ptr().cast(), code.len(), name.as_ptr()) };
        self.shared_mut().memory.lift();
        if status != sys::LUA_OK {
            let message = lua.text(-1).unwrap_or(b"not enough memory").to_vec();
            lua.pop(1);
            return Err(message);
        }
        Ok(Function(lua.keep()))
    }

    /// Releases compiled code.
    pub fn release(&mut self, function: Function) {
        self.lua().release(function.0);
    }

    /// Runs a function and writes its result to `reply`. `name` is its name in errors.
    pub fn run(
        &mut self,
        function: Function,
        name: &str,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut ReplyBuffer,
    ) -> Ended {
        let lua = self.lua();
        // SAFETY: only the lifetime is erased; the pointer is cleared before this function
        // returns.
        let host: NonNull<dyn Host> = unsafe { std::mem::transmute(NonNull::from(host)) };
        let shared = self.shared_mut();
        shared.host = Some(host);
        shared.verdict = Verdict::Continue;
        shared.reply.clear();
        shared.reply.protocol = Protocol::Resp2;
        shared.json = Settings::default();
        let memory = Rc::clone(&shared.memory);
        // A previous run may have replaced the table of globals.
        lua.raw_get_index(REGISTRY, self.globals);
        // SAFETY: a table is on top.
        unsafe { sys::lua_replace(self.state, GLOBALS) };
        lua.raw_get_index(REGISTRY, self.handler);
        lua.raw_get_index(REGISTRY, function.0);
        let arguments = match self.purpose {
            Purpose::Scripts => {
                lua.seal(GLOBALS, false);
                for (name, values) in [("KEYS", keys), ("ARGV", args)] {
                    push_array(lua, values);
                    lua.raw_set_field(GLOBALS, name);
                }
                lua.seal(GLOBALS, true);
                // Also replace an environment that a previous run may have set.
                lua.push_copy(GLOBALS);
                // SAFETY: the function and a table are on top.
                unsafe { sys::lua_setfenv(self.state, -2) };
                0
            }
            Purpose::Functions => {
                push_array(lua, keys);
                push_array(lua, args);
                2
            }
        };
        memory.begin(self.memory_max.max(memory.used.get() + MEMORY_MIN));
        self.run += 1;
        memory.watch.begin(self.run);
        // SAFETY: a protected call: any jump ends here. The handler is below the function and its
        // arguments.
        let status = unsafe { sys::lua_pcall(self.state, arguments, 1, -2 - arguments) };
        memory.watch.end();
        memory.lift();
        self.collect();
        let shared = self.shared_mut();
        let verdict = std::mem::replace(&mut shared.verdict, Verdict::Continue);
        let script_protocol = shared.reply.protocol;
        if verdict != Verdict::Continue {
            // SAFETY: registered by `set_up`.
            unsafe { interrupt::set_hook(self.lua()) };
        }
        let ended = if verdict == Verdict::Abandon {
            Ended::Abandoned
        } else if status == sys::LUA_OK {
            Ended::Replied(convert::reply(lua, reply, script_protocol))
        } else {
            convert::failure(lua, name)
        };
        lua.set_top(0);
        self.shared_mut().host = None;
        ended
    }

    /// Puts the runs that follow under a debugger, until [`LuaVm::detach`].
    pub fn attach(&mut self, debugger: Box<Debugger>) {
        self.shared_mut().debugger = Some(debugger);
        // SAFETY: registered by `set_up`.
        unsafe { debugger::set_hook(self.lua()) };
    }

    /// Returns the debugger of [`LuaVm::attach`], if there is one.
    pub fn detach(&mut self) -> Option<Box<Debugger>> {
        let shared = self.shared_mut();
        let debugger = shared.debugger.take()?;
        shared.ended_by = None;
        // SAFETY: registered by `set_up`.
        unsafe { interrupt::set_hook(self.lua()) };
        Some(debugger)
    }

    /// Lua collects at its own pace while scripts allocate; this prevents garbage from piling up
    /// when each run allocates little.
    fn collect(&mut self) {
        self.runs += 1;
        if self.runs >= COLLECT_EVERY {
            self.runs = 0;
            // SAFETY: no script runs, and there are no finalizers.
            unsafe { sys::lua_gc(self.state, sys::LUA_GCSTEP, COLLECT_EVERY as c_int) };
        }
    }

    /// Runs a library's code so that it registers its functions.
    ///
    /// # Errors
    /// Lua's message, if the code does not compile or fails, runs longer than `timeout`, or this VM
    /// is not one for functions.
    pub fn load_library(
        &mut self,
        code: &[u8],
        timeout: Option<std::time::Duration>,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        let Some((real, loading)) = self.environments else {
            return Err(b"not a VM for functions".to_vec());
        };
        self.set_environment(loading);
        let outcome = self.compile(c"@user_function", code);
        let outcome = match outcome {
            Err(message) => Err([b"Error compiling function: ", &message[..]].concat()),
            Ok(function) => {
                let outcome = self.register(function, timeout);
                self.release(function);
                outcome
            }
        };
        self.set_environment(real);
        outcome
    }

    fn register(
        &mut self,
        function: Function,
        timeout: Option<std::time::Duration>,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        let lua = self.lua();
        let memory_max = self.memory_max;
        self.run += 1;
        let run = self.run;
        let shared = self.shared_mut();
        shared.registering = Some(Vec::new());
        shared.deadline = timeout.and_then(|timeout| std::time::Instant::now().checked_add(timeout));
        let memory = Rc::clone(&shared.memory);
        lua.raw_get_index(REGISTRY, function.0);
        memory.begin(memory_max.max(memory.used.get() + MEMORY_MIN));
        memory.watch.begin(run);
        // SAFETY: a protected call.
        let status = unsafe { sys::lua_pcall(self.state, 0, 0, 0) };
        memory.watch.end();
        memory.lift();
        let shared = self.shared_mut();
        shared.deadline = None;
        let verdict = std::mem::replace(&mut shared.verdict, Verdict::Continue);
        let registered = shared.registering.take().unwrap_or_default();
        if verdict != Verdict::Continue {
            // SAFETY: registered by `set_up`.
            unsafe { interrupt::set_hook(self.lua()) };
        }
        if status == sys::LUA_OK {
            lua.set_top(0);
            return Ok(registered);
        }
        let message = convert::error_text(lua);
        lua.set_top(0);
        for registered in registered {
            self.release(registered.function);
        }
        Err([b"Error registering functions: ", &message[..]].concat())
    }

    /// Selects the environment of libraries.
    fn set_environment(&mut self, kept: c_int) {
        let lua = self.lua();
        if lua.push_metatable(GLOBALS) {
            lua.seal(-1, false);
            lua.raw_get_index(REGISTRY, kept);
            let metatable = lua.top() - 1;
            lua.raw_set_field(metatable, "__index");
            lua.seal(-1, true);
            lua.pop(1);
        }
    }
}

/// Minimum memory limit of a script.
const MEMORY_MIN: usize = 1 << 20;
fn push_array(lua: Lua<'_>, values: &[&[u8]]) {
    lua.push_table(values.len(), 0);
    for (index, value) in values.iter().enumerate() {
        lua.push_string(value);
        lua.raw_set_index(-2, index as c_int + 1);
    }
}

/// Seals the table on top and all tables reachable from it, including metatables.
fn seal_deeply(lua: Lua<'_>) {
    if lua.is_sealed(-1) || !lua.has_room(4) {
        return;
    }
    lua.seal(-1, true);
    lua.push_nil();
    while lua.next(-2) {
        if lua.kind(-1) == LuaType::Table {
            seal_deeply(lua);
        }
        lua.pop(1);
    }
    if lua.push_metatable(-1) {
        seal_deeply(lua);
        lua.pop(1);
    }
}
