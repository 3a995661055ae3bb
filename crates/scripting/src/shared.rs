// SPDX-License-Identifier: BSD-3-Clause
//! State shared by a VM and the functions that Lua calls: memory, the host, settings, and the
//! progress of the run. Each function has a pointer to this state as its upvalue (`lua.rs`).

use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Instant;

use braid_resp::reply::{Protocol, ReplyBuffer};

use crate::debugger::Debugger;
use crate::function::Registered;
use crate::host::{Host, Verdict};
use crate::libraries::json::settings::Settings;
use crate::memory::Memory;
use crate::random::Random;

/// State shared by a VM and the functions that Lua calls.
pub(crate) struct Shared {
    pub memory: Rc<Memory>,
    /// The server, while a script runs.
    pub host: Option<NonNull<dyn Host>>,
    /// Replies of the commands that the script calls.
    pub reply: ReplyBuffer,
    /// Text of the numbers among a command's arguments.
    pub numbers: Vec<u8>,
    pub random: Random,
    pub json: Settings,
    /// The run is being ended, for this reason.
    pub verdict: Verdict,
    /// The error with which a developer has ended the run.
    pub ended_by: Option<&'static str>,
    /// The session that debugs the script.
    pub debugger: Option<Box<Debugger>>,
    /// Functions registered by the library being loaded.
    pub registering: Option<Vec<Registered>>,
    /// Deadline for loading a library, or for code that a developer evaluates.
    pub deadline: Option<Instant>,
}

impl Shared {
    pub(crate) fn new(memory: Rc<Memory>) -> Shared {
        Shared {
            memory,
            host: None,
            reply: ReplyBuffer::new(Protocol::Resp2),
            numbers: Vec::new(),
            random: Random::new(fastrand::u32(..)),
            json: Settings::default(),
            verdict: Verdict::Continue,
            ended_by: None,
            debugger: None,
            registering: None,
            deadline: None,
        }
    }

    /// The server. Only running scripts can call functions that use it.
    pub(crate) fn host(&mut self) -> Option<&mut dyn Host> {
        // SAFETY: set by `LuaVm::run` for the duration of the run, from a reference that is
        // exclusive for that duration.
        self.host.map(|mut host| unsafe { host.as_mut() })
    }
}
