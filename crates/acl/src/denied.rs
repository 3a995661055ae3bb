// SPDX-License-Identifier: BSD-3-Clause
//! Denials of requests, and their texts.

use braid_spec::{Command, CommandError};

/// The first missing permission of a request, in the order of checks, with the index of the
/// argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Denied {
    /// The argument that names the database; 0 if none does.
    Database(usize),
    Command,
    Key(usize),
    Channel(usize),
}

impl Denied {
    /// Text for the user, without an error code.
    pub fn text(self, user: &[u8], command: &Command) -> Vec<u8> {
        match self {
            Denied::Command => {
                let name = command.full_name.as_bytes();
                [b"User ", user, b" has no permissions to run the '", name, b"' command"].concat()
            }
            Denied::Database(_) => b"No permissions to access database".to_vec(),
            Denied::Key(_) => b"No permissions to access a key".to_vec(),
            Denied::Channel(_) => b"No permissions to access a channel".to_vec(),
        }
    }

    /// Like [`Denied::text`], for clients that may see the key or channel.
    pub fn detailed_text(self, user: &[u8], command: &Command, args: &[&[u8]]) -> Vec<u8> {
        let (index, kind) = match self {
            Denied::Database(index) => {
                return [b"User ", user, b" has no permissions to access database ", args[index]].concat();
            }
            Denied::Command => return self.text(user, command),
            Denied::Key(index) => (index, &b"' key"[..]),
            Denied::Channel(index) => (index, &b"' channel"[..]),
        };
        [b"User ", user, b" has no permissions to access the '", args[index], kind].concat()
    }
}

/// The error for a denied request.
pub fn refusal(denied: Denied, user: &[u8], command: &Command) -> CommandError {
    CommandError::Bytes([b"NOPERM ", &denied.text(user, command)[..]].concat())
}

/// The error for a queued command whose permission was revoked.
pub fn refusal_in_transaction(denied: Denied) -> CommandError {
    let reason = match denied {
        Denied::Database(_) => "no permission",
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    CommandError::text(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
         no longer allowed for the following reason: {reason}"
    ))
}
