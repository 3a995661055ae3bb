// SPDX-License-Identifier: BSD-3-Clause
//! A call: the arguments of a command's body.

use braid_base::blob::Blob;
use braid_base::number;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_keyspace::{Txn, Value};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{Command, CommandError, CommandResult};

use crate::engine::Engine;
use crate::session::Session;

/// The arguments of a command's body. Arity, permissions and memory have been checked, and
/// `keyspace` holds the locks of the keys named by the command's spec.
pub struct Call<'a, 't> {
    pub engine: &'a Engine,
    pub command: &'a Command,
    pub session: &'a mut Session,
    /// Starts with the command's name; a subcommand's name is second.
    pub args: &'a [&'a [u8]],
    /// Arguments received into allocations of their own.
    pub blobs: &'a [Blob],
    /// The keyspace, with the keys locked.
    pub keyspace: &'a mut Txn<'t>,
    pub reply: &'a mut ReplyBuffer,
    /// The thread's other clients, for long commands.
    pub others: Others<'a>,
}

/// Serves the thread's other clients during a long command. Empty in transactions, in scripts and
/// while loading.
#[derive(Default)]
pub struct Others<'a>(Option<&'a mut (dyn FnMut() + 'a)>);

impl<'a> Others<'a> {
    /// `serve` runs one turn of the loop that touches no keys.
    pub fn new(serve: &'a mut (dyn FnMut() + 'a)) -> Others<'a> {
        Others(Some(serve))
    }

    /// Serves the other clients now.
    pub fn serve(&mut self) {
        if let Some(serve) = &mut self.0 {
            serve();
        }
    }

    #[inline]
    pub fn reborrow(&mut self) -> Others<'_> {
        match &mut self.0 {
            Some(serve) => Others(Some(&mut **serve)),
            None => Others(None),
        }
    }
}

/// The one of these allocations that an argument was received into.
#[inline]
pub fn blob_among<'b>(blobs: &'b [Blob], arg: &[u8]) -> Option<&'b Blob> {
    blobs.iter().find(|blob| std::ptr::eq(blob.as_ptr(), arg.as_ptr()))
}

impl<'a> Call<'a, '_> {
    /// Time of this command, ms since the Unix epoch: decides which keys and members have expired.
    pub fn now(&self) -> i64 {
        self.keyspace.now()
    }

    /// Current time, ms since the Unix epoch, for values to store or compute from. Equals
    /// [`Call::now`] except during replay, where nothing expires.
    pub fn clock_ms(&self) -> i64 {
        match self.now() {
            NOTHING_EXPIRED => braid_base::clock::unix_ms(),
            now => now,
        }
    }

    /// True if the request repeats a change that was made before: read from a file, from a primary,
    /// or sent by a client that imports.
    pub fn replays(&self) -> bool {
        self.now() == NOTHING_EXPIRED
    }

    /// An argument as an integer.
    ///
    /// # Errors
    /// If it is not an integer of 64 bits.
    pub fn integer_arg(&self, index: usize) -> Result<i64, CommandError> {
        number::parse_i64(self.args[index]).ok_or(CommandError::NotAnInteger)
    }

    /// An argument as a float.
    ///
    /// # Errors
    /// If it is not a number.
    pub fn float_arg(&self, index: usize) -> Result<f64, CommandError> {
        number::parse_f64(self.args[index]).ok_or(CommandError::NotAFloat)
    }

    /// True if argument `index` is this word, case-insensitively.
    #[inline]
    pub fn arg_is(&self, index: usize, word: &str) -> bool {
        self.args[index].eq_ignore_ascii_case(word.as_bytes())
    }

    /// An argument as a string value, as SET stores it. An argument in an allocation of its own is
    /// not copied.
    #[inline]
    pub fn value_arg(&self, index: usize) -> Value<'a> {
        let arg = self.args[index];
        match self.blob_of(arg) {
            Some(blob) => Value::Blob(blob),
            None => Value::string(arg),
        }
    }

    /// The allocation of an argument, if it has one of its own.
    #[inline]
    pub fn blob_of(&self, arg: &[u8]) -> Option<Blob> {
        blob_among(self.blobs, arg).cloned()
    }

    /// The wrong-arity error for this command.
    pub fn wrong_arity(&self) -> CommandError {
        CommandError::WrongArity(self.command.full_name.clone().into())
    }

    /// The invalid-expiry error for this command.
    pub fn invalid_expire(&self) -> CommandError {
        CommandError::InvalidExpire(self.command.full_name.clone().into())
    }

    /// Replies with the lines of a HELP subcommand, in Redis's frame.
    ///
    /// # Errors
    /// None: it can be the last expression of a command's body.
    pub fn help(&mut self, lines: &[&str]) -> CommandResult {
        let name = String::from_utf8_lossy(self.args[0]).to_ascii_uppercase();
        self.reply.array(lines.len() + 3);
        self.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        for line in lines {
            self.reply.simple(line);
        }
        self.reply.simple("HELP");
        self.reply.simple("    Print this help.");
        Ok(())
    }

    /// The error for an unknown subcommand or a wrong number of its arguments.
    pub fn unknown_subcommand(&self) -> CommandError {
        let name = String::from_utf8_lossy(self.args[0]).to_ascii_uppercase();
        let given = String::from_utf8_lossy(&self.args[1][..self.args[1].len().min(128)]);
        CommandError::text(format!(
            "ERR unknown subcommand or wrong number of arguments for '{given}'. Try {name} HELP."
        ))
    }
}
