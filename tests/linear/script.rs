// SPDX-License-Identifier: BSD-3-Clause
//! Operations within a script: how a script is written that carries some out, and what it declares.
//!
//! A server that runs scripts beside other commands has to find out which keys a script will touch:
//! from its text, from what it declares, from what it did before. So the same operations come in
//! scripts that can be seen through, in scripts that cannot, and in readers that declare all of
//! their keys, some, or none. Scripts of different number are different scripts to the server,
//! which may learn their ways.

use fastrand::Rng;

use crate::model::{Key, Operation, key_name};

/// How a script is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each command stands in the text, its keys are taken from KEYS, and all of them are declared.
    Plain,
    /// The commands are arguments: nothing can be told from the text.
    Opaque,
    /// The same, called as one that only reads.
    Reader,
    /// The same, by its own declaration.
    FlaggedReader,
    /// The same, as a function of [`LIBRARY`].
    FunctionReader,
}

/// A script and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub form: Form,
    pub number: u32,
    pub operations: Vec<Operation>,
    /// The keys that it declares.
    pub declared: Vec<Key>,
}

/// Carries out the commands that it is given: each as the number of its words, and the words.
/// Between two of them some time passes.
const INTERPRETER: &str = "local replies, at = {}, 1 \
     for round = 1, #ARGV do \
       if at > #ARGV then break end \
       local count = tonumber(ARGV[at]) \
       replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) \
       at = at + 1 + count \
       for i = 1, 200 do end \
     end \
     return replies";

/// The library that the function is in.
pub fn library() -> String {
    format!(
        "#!lua name=linear\nredis.register_function{{function_name='reads', flags={{'no-writes'}}, \
         callback=function(KEYS, ARGV) {INTERPRETER} end}}"
    )
}

impl Script {
    /// Draws a script that carries these operations out; one that reads only if they do.
    pub fn draw(operations: Vec<Operation>, random: &mut Rng) -> Script {
        let reads = operations.iter().all(Operation::only_reads);
        let form = match random.u8(0..6) {
            0..=1 => Form::Plain,
            2 if reads => Form::FlaggedReader,
            3 if reads => Form::FunctionReader,
            4..=5 if reads => Form::Reader,
            _ => Form::Opaque,
        };
        let mut declared: Vec<Key> = operations.iter().flat_map(Operation::keys).collect();
        declared.sort_unstable();
        declared.dedup();
        random.shuffle(&mut declared);
        if form != Form::Plain && random.bool() {
            declared.truncate(random.usize(0..=declared.len()));
        }
        Script {
            form,
            number: if random.bool() { random.u32(0..50) } else { random.u32(0..1_000_000) },
            operations,
            declared,
        }
    }

    /// The command that runs it.
    pub fn command(&self) -> Vec<Vec<u8>> {
        let (name, text) = match self.form {
            Form::Plain => ("EVAL", String::new()),
            Form::Opaque => ("EVAL", INTERPRETER.to_owned()),
            Form::Reader => ("EVAL_RO", INTERPRETER.to_owned()),
            Form::FlaggedReader => ("EVAL", format!("#!lua flags=no-writes\n{INTERPRETER}")),
            Form::FunctionReader => ("FCALL_RO", "reads".to_owned()),
        };
        let mut arguments = Vec::new();
        let text = match self.form {
            Form::Plain => self.plain(&mut arguments),
            Form::FunctionReader => text,
            _ => format!("{text} -- {}", self.number),
        };
        if self.form != Form::Plain {
            for command in self.operations.iter().flat_map(Operation::commands) {
                arguments.push(command.len().to_string().into_bytes());
                arguments.extend(command);
            }
        }
        let head = [name.to_owned(), text, self.declared.len().to_string()];
        let keys = self.declared.iter().map(|key| key_name(*key));
        head.into_iter().chain(keys).map(String::into_bytes).chain(arguments).collect()
    }

    /// The text with all commands in it; what is no key is an argument.
    fn plain(&self, arguments: &mut Vec<Vec<u8>>) -> String {
        let mut text = String::from("local replies = {}");
        for (at, operation) in self.operations.iter().enumerate() {
            let mut words = Vec::new();
            for word in &operation.commands()[0] {
                let declared =
                    self.declared.iter().position(|key| key_name(*key).as_bytes() == word.as_slice());
                words.push(match declared {
                    _ if words.is_empty() => format!("'{}'", String::from_utf8_lossy(word)),
                    Some(place) => format!("KEYS[{}]", place + 1),
                    None => {
                        arguments.push(word.clone());
                        format!("ARGV[{}]", arguments.len())
                    }
                });
            }
            let call = words.join(", ");
            text += &format!(" replies[{}] = redis.pcall({call}) for i = 1, 200 do end", at + 1);
        }
        text + " return replies"
    }
}

/// The commands that the arguments of a request would have the interpreter carry out; nothing if it
/// is not called.
pub fn interpreted(request: &[Vec<u8>]) -> Option<Vec<Vec<Vec<u8>>>> {
    let is_called = match request.first()?.as_slice() {
        b"EVAL" | b"EVAL_RO" => {
            request.get(1)?.windows(INTERPRETER.len()).any(|part| part == INTERPRETER.as_bytes())
        }
        name => name == b"FCALL_RO",
    };
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<usize>().ok();
    let mut rest = is_called.then(|| request.get(3 + number(request.get(2)?)?..))??;
    let mut commands = Vec::new();
    while let Some((count, words)) = rest.split_first() {
        let (command, behind) = words.split_at_checked(number(count)?)?;
        commands.push(command.to_vec());
        rest = behind;
    }
    Some(commands)
}
