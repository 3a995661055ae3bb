// SPDX-License-Identifier: BSD-3-Clause
//! What sessions know of the script debugger.

use braid_keyspace::Txn;
use braid_net::stream::Stream;
use braid_scripting::Debugger;

/// Where the scripts of a connection are debugged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugMode {
    /// In a copy (YES).
    Copy,
    /// In the server itself (SYNC).
    Sync,
}

/// What a session knows of debugging.
pub enum Debugging {
    /// The next EVAL is debugged.
    Wanted(DebugMode),
    /// The session runs a debugged script.
    Running(Debugged),
}

/// The debugger of a running script, and the source of its keys, if that is another engine. The run
/// takes both, and returns the debugger.
#[derive(Default)]
pub struct Debugged {
    pub debugger: Option<Box<Debugger>>,
    pub origin: Option<Box<dyn KeySource>>,
}

/// Provides the keys of a script that is debugged in a copy.
pub trait KeySource: Send {
    /// Copies the keys that a command uses to the keyspace of a transaction.
    fn provide(&mut self, keyspace: &mut Txn<'_>, db: u32, args: &[&[u8]]);
}

/// Takes over a connection that its loop has given up.
pub type Departure = Box<dyn FnOnce(Stream) + Send>;
