// SPDX-License-Identifier: BSD-3-Clause
//! A call: one command on its way through its body.

use braid_base::blob::Blob;
use braid_base::number;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_keyspace::{Txn, Value};
use braid_resp::reply::ReplyBuffer;

use crate::engine::Engine;
use crate::session::Session;
use braid_spec::{Command, CommandError, CommandResult};

/// What a body works with. The dispatcher has checked arity, permissions and memory, and `keyspace` holds the
/// locks of the keys that the command's spec names.
pub struct Call<'a, 't> {
    pub engine: &'a Engine,
    pub command: &'a Command,
    pub session: &'a mut Session,
    /// The name first; a subcommand's name second.
    pub args: &'a [&'a [u8]],
    /// Arguments that were received into allocations of their own.
    pub blobs: &'a [Blob],
    /// The keys, under their locks.
    pub keyspace: &'a mut Txn<'t>,
    pub reply: &'a mut ReplyBuffer,
    /// The thread's other clients, for a body that takes long.
    pub others: Others<'a>,
}

/// Serves the other clients of an executing thread while one of them keeps it for long. Nothing
/// where nobody would be served: in a transaction, in a script, while a file is loaded.
#[derive(Default)]
pub struct Others<'a>(Option<&'a mut (dyn FnMut() + 'a)>);

impl<'a> Others<'a> {
    /// Those that `serve` serves: a turn of the loop in which no key is touched.
    pub fn new(serve: &'a mut (dyn FnMut() + 'a)) -> Others<'a> {
        Others(Some(serve))
    }

    /// Serves them now.
    pub fn serve(&mut self) {
        if let Some(serve) = &mut self.0 {
            serve();
        }
    }

    /// The same, for what is called with them.
    #[inline]
    pub fn reborrow(&mut self) -> Others<'_> {
        match &mut self.0 {
            Some(serve) => Others(Some(&mut **serve)),
            None => Others(None),
        }
    }
}

impl<'a> Call<'a, '_> {
    /// The time of this command, ms since the Unix epoch, by which keys and members have expired or not.
    pub fn now(&self) -> i64 {
        self.keyspace.now()
    }

    /// The time of this command, ms since the Unix epoch, for what is to be written down or
    /// reckoned from. The same as [`Call::now`], except for a command that is read from an
    /// append-only file, to which nothing has expired.
    pub fn clock_ms(&self) -> i64 {
        match self.now() {
            NOTHING_EXPIRED => braid_base::clock::unix_ms(),
            now => now,
        }
    }

    /// An argument as an integer.
    pub fn integer_arg(&self, index: usize) -> Result<i64, CommandError> {
        number::parse_i64(self.args[index]).ok_or(CommandError::NotAnInteger)
    }

    /// An argument as a float.
    pub fn float_arg(&self, index: usize) -> Result<f64, CommandError> {
        number::parse_f64(self.args[index]).ok_or(CommandError::NotAFloat)
    }

    /// True if argument `index` is this word, in any case.
    #[inline]
    pub fn arg_is(&self, index: usize, word: &str) -> bool {
        self.args[index].eq_ignore_ascii_case(word.as_bytes())
    }

    /// An argument as a string value, as SET stores it; one that came in an allocation of its own is kept as
    /// it is.
    #[inline]
    pub fn value_arg(&self, index: usize) -> Value<'a> {
        let arg = self.args[index];
        match self.blob_of(arg) {
            Some(blob) => Value::Blob(blob),
            None => Value::string(arg),
        }
    }

    /// The allocation that an argument came in, if it has one.
    #[inline]
    pub fn blob_of(&self, arg: &[u8]) -> Option<Blob> {
        self.blobs.iter().find(|blob| std::ptr::eq(blob.as_ptr(), arg.as_ptr())).cloned()
    }

    /// The error for a wrong number of arguments, naming this command.
    pub fn wrong_arity(&self) -> CommandError {
        CommandError::WrongArity(self.command.full_name.clone().into())
    }

    /// The error for an expiry that makes no sense, naming this command.
    pub fn invalid_expire(&self) -> CommandError {
        CommandError::InvalidExpire(self.command.full_name.clone().into())
    }

    /// Replies with the lines of a HELP subcommand, framed as clients know them.
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
