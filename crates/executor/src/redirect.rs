// SPDX-License-Identifier: BSD-3-Clause
//! Redirections: a replica redirects clients that support them (CLIENT CAPA redirect) to its
//! primary.
//!
//! Source: Valkey documentation, "CLIENT CAPA".

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::{ClientRecord, client_flags};
use braid_spec::{Command, CommandError, Flags};

use crate::engine::Engine;

/// True if a replica redirects a client that understands redirections instead of serving it.
pub(crate) fn leads_away(record: &ClientRecord, writes: bool, reads: bool) -> bool {
    record.knows_redirect.load(Relaxed) && (writes || reads && !record.has(client_flags::READS_REPLICA))
}

/// [`leads_away`] for a single command.
pub fn leads_command_away(record: &ClientRecord, command: &Command) -> bool {
    let flags = command.spec.flags;
    leads_away(record, flags.has(Flags::WRITE), flags.has(Flags::READONLY))
}

/// The error that names the primary, for a client that understands redirections; `None` if
/// this server is a primary or the client does not understand them.
pub fn redirection(engine: &Engine, record: &ClientRecord) -> Option<CommandError> {
    let knows = record.knows_redirect.load(Relaxed);
    let primary = engine.replication.link.primary().filter(|_| knows)?;
    Some(CommandError::text(format!("REDIRECT {primary}")))
}
