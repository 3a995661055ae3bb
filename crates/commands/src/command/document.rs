// SPDX-License-Identifier: BSD-3-Clause
//! The reply of COMMAND DOCS for one command.

use braid_resp::reply::ReplyBuffer;
use braid_spec::syntax::{Argument, ArgumentKind};
use braid_spec::{Command, CommandTable, syntax};

/// Commands for the server's own use and for tests.
const INTERNAL: [&str; 5] = ["debug", "pfdebug", "pfselftest", "replconf", "restore-asking"];

/// A map that counts its pairs as they are written.
struct Map<'r> {
    reply: &'r mut ReplyBuffer,
    pairs: usize,
}

impl Map<'_> {
    fn key(&mut self, name: &str) -> &mut ReplyBuffer {
        self.pairs += 1;
        self.reply.bulk(name.as_bytes());
        self.reply
    }

    fn text(&mut self, name: &str, value: &str) {
        self.key(name).bulk(value.as_bytes());
    }

    /// Writes the pair if the value is not empty.
    fn optional(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    fn statuses(&mut self, name: &str, values: &[&str]) {
        if values.is_empty() {
            return;
        }
        let reply = self.key(name);
        reply.set(values.len());
        for value in values {
            reply.simple(value);
        }
    }
}

/// Writes a map with the pairs that `body` writes.
fn map(reply: &mut ReplyBuffer, body: impl FnOnce(&mut Map<'_>)) {
    let header = reply.begin_map();
    let mut map = Map { reply, pairs: 0 };
    body(&mut map);
    let pairs = map.pairs;
    reply.end_map(header, pairs);
}

/// Replies with a command's documentation. `in_redis`: with what Redis says where Valkey says
/// something else.
pub fn document(reply: &mut ReplyBuffer, table: &CommandTable, command: &Command, in_redis: bool) {
    let spec = command.spec;
    let told =
        |redis: &'static str, usual: &'static str| if in_redis && !redis.is_empty() { redis } else { usual };
    map(reply, |map| {
        map.text("summary", spec.summary);
        map.text("since", told(spec.since_in_redis, spec.since));
        map.text("group", spec.group.name());
        map.optional("complexity", spec.complexity);
        let mut flags = Vec::new();
        if spec.deprecated.is_some() {
            flags.push("deprecated");
        }
        if INTERNAL.contains(&&*command.full_name) {
            flags.push("syscmd");
        }
        map.statuses("doc_flags", &flags);
        if let Some((since, instead)) = spec.deprecated {
            map.text("deprecated_since", since);
            map.optional("replaced_by", instead);
        }
        if !spec.history.is_empty() {
            let reply = map.key("history");
            reply.set(spec.history.len());
            for (version, change) in spec.history {
                reply.array(2);
                reply.bulk(version.as_bytes());
                reply.bulk(change.as_bytes());
            }
        }
        // A row with invalid notation fails its test; here it only lacks its arguments.
        let arguments = syntax::parse(told(spec.syntax_in_redis, spec.syntax)).unwrap_or_default();
        if !arguments.is_empty() {
            document_arguments(map.key("arguments"), &arguments);
        }
        if !command.subcommands.is_empty() {
            let reply = map.key("subcommands");
            reply.map(command.subcommands.len());
            for &sub in &command.subcommands {
                let sub = table.get(sub);
                reply.bulk(sub.full_name.as_bytes());
                document(reply, table, sub, in_redis);
            }
        }
    });
}

fn document_arguments(reply: &mut ReplyBuffer, arguments: &[Argument<'_>]) {
    reply.array(arguments.len());
    for argument in arguments {
        map(reply, |map| document_argument(map, argument));
    }
}

fn document_argument(map: &mut Map<'_>, argument: &Argument<'_>) {
    let is_group = matches!(argument.kind, ArgumentKind::OneOf | ArgumentKind::Block);
    map.text("name", &argument.name);
    map.text("type", argument.kind.name());
    if !is_group {
        map.text("display_text", argument.display.unwrap_or(&argument.name));
    }
    if let Some(index) = argument.key_spec {
        map.key("key_spec_index").integer(i64::from(index));
    }
    map.optional("token", argument.token.unwrap_or_default());
    map.optional("since", argument.since.unwrap_or_default());
    map.optional("deprecated_since", argument.deprecated.unwrap_or_default());
    let all = [
        ("optional", argument.optional),
        ("multiple", argument.multiple),
        ("multiple_token", argument.multiple_token),
    ];
    let flags: Vec<&str> = all.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    map.statuses("flags", &flags);
    if is_group {
        document_arguments(map.key("arguments"), &argument.arguments);
    }
}
