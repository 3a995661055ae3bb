// SPDX-License-Identifier: BSD-3-Clause
//! Queue of a MULTI transaction, and what one of slot changes consists of. The dispatcher executes
//! it (`dispatch/transaction.rs`).

use braid_base::number::parse_i64;
use braid_group::cluster::slot_changes::SlotRequest;
use braid_resp::reply::ReplyBuffer;

/// A queued command with its arguments, copied out of the read buffer.
pub struct Queued {
    pub command: u32,
    /// All arguments, concatenated.
    bytes: Box<[u8]>,
    /// End of each argument.
    ends: Box<[u32]>,
}

impl Queued {
    /// Copies a request.
    pub fn new(command: u32, args: &[&[u8]]) -> Queued {
        let mut bytes = Vec::with_capacity(args.iter().map(|arg| arg.len()).sum());
        let mut ends = Vec::with_capacity(args.len());
        for arg in args {
            bytes.extend_from_slice(arg);
            ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        Queued { command, bytes: bytes.into(), ends: ends.into() }
    }

    /// The arguments.
    pub fn args(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let slice = |&end: &u32| {
            let arg = &self.bytes[start..end as usize];
            start = end as usize;
            arg
        };
        self.ends.iter().map(slice).collect()
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Queued>() + self.bytes.len() + self.ends.len() * 4
    }
}

/// The commands of a transaction that changes a cluster's slots, gathered by EXEC: they become one
/// change, made in the background (`group/slot_batch.rs`).
#[derive(Default)]
pub struct SlotBatch {
    pub requests: Vec<SlotRequest>,
    /// The reply of each command, in order; `None`: that of the next request.
    pub replies: Vec<Option<Vec<u8>>>,
}

impl SlotBatch {
    /// Adds a command's request. Its reply will be that request's.
    pub fn add(&mut self, request: SlotRequest) {
        self.requests.push(request);
        self.replies.push(None);
    }

    /// Notes what a command has replied, if that was not left to its request.
    pub(crate) fn add_reply(&mut self, reply: &ReplyBuffer) {
        if !reply.is_empty() {
            self.replies.push(Some(reply.to_bytes().into_owned()));
        }
    }
}

/// Commands queued since MULTI.
#[derive(Default)]
pub struct Queue {
    pub commands: Vec<Queued>,
    /// A command was refused while queueing, so EXEC will fail.
    pub broken: bool,
    /// The database that the commands so far will have selected.
    pub selected: Option<u32>,
    pub memory_bytes: usize,
}

impl Queue {
    /// Adds a command.
    pub fn push(&mut self, queued: Queued) {
        self.memory_bytes += queued.memory_bytes();
        self.commands.push(queued);
    }

    /// Records the database that a queued SELECT will select.
    pub fn note_selected(&mut self, args: &[&[u8]], databases: u32) {
        let number = args.get(1).and_then(|number| parse_i64(number));
        let number = number.and_then(|number| u32::try_from(number).ok());
        self.selected = number.filter(|number| *number < databases).or(self.selected);
    }
}
