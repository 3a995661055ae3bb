// SPDX-License-Identifier: BSD-3-Clause
//! Authentication and permissions of sessions: log-in, changed users, and the check of each
//! request.

use std::sync::atomic::Ordering::Relaxed;

use braid_acl::Denied;
use braid_acl::log::{Event, Origin, Reason};
use braid_clients::describe::describe;
use braid_config::TlsAuthClientsUser;
use braid_net::tls::{CertificateDer, identity};
use braid_spec::{Command, CommandError};

use crate::engine::Engine;
use crate::session::Session;

/// The parts that a change of users affects.
pub fn acl_server(engine: &Engine) -> braid_acl::Server<'_> {
    braid_acl::Server {
        commands: &engine.commands,
        config: &engine.config,
        attention: &engine.attention,
        clients: &engine.clients.registry,
        hub: &engine.hub,
    }
}

/// Authenticates a session by name and password; failures are logged.
///
/// # Errors
/// WRONGPASS, if there is no such user, the password is wrong, or the user is disabled.
pub fn log_in(
    engine: &Engine,
    session: &mut Session,
    current: (&Command, &[&[u8]]),
    name: &[u8],
    password: &[u8],
) -> Result<(), CommandError> {
    let generation = engine.attention.generation();
    match engine.acl.authenticate(name, password) {
        Some(user) => {
            session.check_connections(&user)?;
            session.take_user(user, true, generation);
            Ok(())
        }
        None => {
            let origin = if session.in_multi() { Origin::Transaction } else { Origin::TopLevel };
            let object = current.1.first().map_or(&b""[..], |arg| arg).to_vec();
            let name = name.to_vec();
            note_refusal(engine, session, Some(current), origin, Reason::Authentication, object, name);
            Err(CommandError::text("WRONGPASS invalid username-password pair or user is disabled."))
        }
    }
}

/// Logs a new session in as the user that its TLS certificate names (`tls-auth-clients-user`).
/// If there is no such user, the session remains as it is, and this is logged.
pub fn log_in_by_certificate(engine: &Engine, session: &mut Session, certificate: &CertificateDer<'_>) {
    let names: Vec<Vec<u8>> = match engine.config.tls_auth_clients_user() {
        TlsAuthClientsUser::Off => return,
        TlsAuthClientsUser::Cn => identity::common_name(certificate).into_iter().collect(),
        TlsAuthClientsUser::Uri => identity::uris(certificate).into_iter().map(String::into_bytes).collect(),
    };
    let id = session.id();
    let shown = |name: &[u8]| match engine.config.hide_user_data_from_log() {
        true => "(redacted)".to_owned(),
        false => name.escape_ascii().to_string(),
    };
    let generation = engine.attention.generation();
    let mut users = names.iter().filter_map(|name| engine.acl.user(name));
    if let Some(user) = users.find(|user| user.enabled) {
        if let Err(refusal) = session.check_connections(&user) {
            log::debug!("Client {id} is not logged in: {}", refusal.line().escape_ascii());
            return;
        }
        log::debug!("The TLS certificate of client {id} logs it in as {}", shown(user.name()));
        session.take_user(user, true, generation);
        return;
    }
    // The ACL log has one name, the last.
    let Some(name) = names.into_iter().next_back() else {
        log::debug!("The TLS certificate of client {id} has no name for a log-in");
        return;
    };
    log::debug!("The TLS certificate of client {id} names no enabled user: {}", shown(&name));
    note_refusal(engine, session, None, Origin::TopLevel, Reason::Certificate, Vec::new(), name);
}

/// Checks a session's request and logs a denial. `current` is the command that the client sent:
/// for a script's request, the script's.
#[inline]
pub(crate) fn check_access(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    origin: Origin,
    current: (&Command, &[&[u8]]),
) -> Result<(), Denied> {
    session
        .allows(command, args)
        .inspect_err(|denied| note_denied(engine, session, command, args, origin, current, *denied))
}

/// Logs a denial. Arguments as for [`check_access`].
#[cold]
pub(crate) fn note_denied(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    origin: Origin,
    current: (&Command, &[&[u8]]),
    denied: Denied,
) {
    let object = match denied {
        Denied::Command | Denied::Database(0) => command.full_name.clone().into_bytes(),
        Denied::Key(index) | Denied::Channel(index) | Denied::Database(index) => args[index].to_vec(),
    };
    let name = session.login.user.name().to_vec();
    note_refusal(engine, session, Some(current), origin, Reason::from(denied), object, name);
}

/// Counts and logs a refusal. There is no current command while a connection begins.
#[cold]
fn note_refusal(
    engine: &Engine,
    session: &Session,
    current: Option<(&Command, &[&[u8]])>,
    origin: Origin,
    reason: Reason,
    object: Vec<u8>,
    user: Vec<u8>,
) {
    let stats = &engine.telemetry.threads[session.record.io_thread.load(Relaxed) as usize];
    match reason {
        Reason::Command => stats.denied_commands.add(1),
        Reason::Key => stats.denied_keys.add(1),
        Reason::Channel => stats.denied_channels.add(1),
        Reason::Database => stats.denied_databases.add(1),
        Reason::Authentication => stats.denied_logins.add(1),
        Reason::Certificate => stats.denied_certificates.add(1),
    }
    if !matches!(reason, Reason::Authentication | Reason::Certificate) {
        session.login.user.identity.count_denied(reason);
    } else if let Some(user) = engine.acl.user(&user) {
        user.identity.count_denied(reason);
    }
    let now = braid_base::clock::unix_ms();
    let mut client = Vec::with_capacity(256);
    describe(&mut client, &engine.commands, &session.record, now, current);
    client.truncate(client.trim_ascii_end().len());
    let event = Event { reason, origin, object, user, client };
    engine.acl.log.push(event, now, engine.config.acllog_max_len());
}

/// Failed log-ins since start.
pub fn denied_logins(engine: &Engine) -> u64 {
    braid_telemetry::stats::total(&engine.telemetry.threads, |thread| thread.denied_logins.get())
        + engine.acl.denied_by_http()
}
