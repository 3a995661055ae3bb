// SPDX-License-Identifier: BSD-3-Clause
//! Authentication and permissions of sessions: log-in, changed users, and the check of each
//! request.

use std::sync::atomic::Ordering::Relaxed;

use braid_acl::Denied;
use braid_acl::log::{Event, Origin, Reason};
use braid_clients::describe::describe;
use braid_spec::{Command, CommandError};

use crate::engine::Engine;
use crate::session::Session;

impl Engine {
    /// The parts that a change of users affects.
    pub fn acl_server(&self) -> braid_acl::Server<'_> {
        braid_acl::Server {
            commands: &self.commands,
            config: &self.config,
            attention: &self.attention,
            clients: &self.clients.registry,
            hub: &self.hub,
        }
    }

    /// Authenticates a session by name and password; failures are logged.
    pub fn log_in(
        &self,
        session: &mut Session,
        current: (&Command, &[&[u8]]),
        name: &[u8],
        password: &[u8],
    ) -> Result<(), CommandError> {
        let generation = self.attention.generation();
        match self.acl.authenticate(name, password) {
            Some(user) => {
                session.take_user(user, true, generation);
                Ok(())
            }
            None => {
                let origin = if session.in_multi() { Origin::Transaction } else { Origin::TopLevel };
                let object = current.1.first().map_or(&b""[..], |arg| arg).to_vec();
                self.note_refusal(session, current, origin, Reason::Authentication, object, name.to_vec());
                Err(CommandError::text("WRONGPASS invalid username-password pair or user is disabled."))
            }
        }
    }

    /// Checks a session's request and logs a denial. `current` is the command that the client sent:
    /// for a script's request, the script's.
    #[inline]
    pub(crate) fn check_access(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        origin: Origin,
        current: (&Command, &[&[u8]]),
    ) -> Result<(), Denied> {
        session
            .allows(command, args)
            .inspect_err(|denied| self.note_denied(session, command, args, origin, current, *denied))
    }

    /// Logs a denial. Arguments as for [`Engine::check_access`].
    #[cold]
    pub(crate) fn note_denied(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        origin: Origin,
        current: (&Command, &[&[u8]]),
        denied: Denied,
    ) {
        let object = match denied {
            Denied::Command => command.full_name.clone().into_bytes(),
            Denied::Key(index) | Denied::Channel(index) => args[index].to_vec(),
        };
        let name = session.user.name().to_vec();
        self.note_refusal(session, current, origin, Reason::from(denied), object, name);
    }

    /// Counts and logs a refusal.
    #[cold]
    fn note_refusal(
        &self,
        session: &Session,
        current: (&Command, &[&[u8]]),
        origin: Origin,
        reason: Reason,
        object: Vec<u8>,
        user: Vec<u8>,
    ) {
        let stats = &self.telemetry.threads[session.record.io_thread.load(Relaxed) as usize];
        match reason {
            Reason::Command => stats.denied_commands.add(1),
            Reason::Key => stats.denied_keys.add(1),
            Reason::Channel => stats.denied_channels.add(1),
            Reason::Authentication => stats.denied_logins.add(1),
        }
        if reason != Reason::Authentication {
            session.user.identity.count_denied(reason);
        } else if let Some(user) = self.acl.user(&user) {
            user.identity.count_denied(reason);
        }
        let now = braid_base::clock::unix_ms();
        let mut client = Vec::with_capacity(256);
        describe(&mut client, &self.commands, &session.record, now, Some(current));
        client.truncate(client.trim_ascii_end().len());
        let event = Event { reason, origin, object, user, client };
        self.acl.log.push(event, now, self.config.acllog_max_len());
    }

    /// Failed log-ins since start.
    pub fn denied_logins(&self) -> u64 {
        braid_telemetry::stats::total(&self.telemetry.threads, |thread| thread.denied_logins.get())
            + self.acl.denied_by_http()
    }
}
