// SPDX-License-Identifier: BSD-3-Clause
//! Operations as requests: the commands of an operation, and the text of a script that runs
//! several.

use crate::operation::{Form, Key, Operation, Script, key_name};

/// Runs the commands in its arguments, each given as a word count followed by the words. Some
/// time passes between two commands.
const INTERPRETER: &str = "local replies, at = {}, 1 \
     for round = 1, #ARGV do \
       if at > #ARGV then break end \
       local count = tonumber(ARGV[at]) \
       replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) \
       at = at + 1 + count \
       for i = 1, 200 do end \
     end \
     return replies";

/// The library that contains the function.
pub fn library() -> String {
    format!(
        "#!lua name=linear\nredis.register_function{{function_name='reads', flags={{'no-writes'}}, \
         callback=function(KEYS, ARGV) {INTERPRETER} end}}"
    )
}

impl Operation {
    /// The commands of the operation; a transaction has several.
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let name = |key: &Key| key_name(*key).into_bytes();
        let with_keys = |command: &str, keys: &[Key]| {
            std::iter::once(command.as_bytes().to_vec()).chain(keys.iter().map(name)).collect::<Vec<_>>()
        };
        let with_pairs = |command: &str, pairs: &[(Key, Vec<u8>)]| {
            std::iter::once(command.as_bytes().to_vec())
                .chain(pairs.iter().flat_map(|(key, value)| [name(key), value.clone()]))
                .collect::<Vec<_>>()
        };
        vec![match self {
            Operation::Get(key) => with_keys("GET", &[*key]),
            Operation::Set(key, value) => with_pairs("SET", &[(*key, value.clone())]),
            Operation::Incr(key) => with_keys("INCR", &[*key]),
            Operation::Append(key, value) => with_pairs("APPEND", &[(*key, value.clone())]),
            Operation::GetSet(key, value) => with_pairs("GETSET", &[(*key, value.clone())]),
            Operation::Del(keys) => with_keys("DEL", keys),
            Operation::MSet(pairs) => with_pairs("MSET", pairs),
            Operation::MSetNx(pairs) => with_pairs("MSETNX", pairs),
            Operation::MGet(keys) => with_keys("MGET", keys),
            Operation::Exists(keys) => with_keys("EXISTS", keys),
            Operation::Rename(from, to) => with_keys("RENAME", &[*from, *to]),
            Operation::Copy(from, to) => {
                let mut command = with_keys("COPY", &[*from, *to]);
                command.push(b"REPLACE".to_vec());
                command
            }
            Operation::Transaction(operations) => {
                let mut commands = vec![vec![b"MULTI".to_vec()]];
                commands.extend(operations.iter().flat_map(Operation::commands));
                commands.push(vec![b"EXEC".to_vec()]);
                return commands;
            }
            Operation::Script(script) => script.command(),
        }]
    }
}

impl Script {
    /// The command that runs the script.
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

    /// The text with all commands in it; words that are not keys become arguments.
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

/// The commands that a request passes to the interpreter; `None` if it does not call the
/// interpreter.
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
