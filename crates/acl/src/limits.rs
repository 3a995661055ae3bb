// SPDX-License-Identifier: BSD-3-Clause
//! What a user's clients may use together: rules `limit-commands=N`, `limit-input=BYTES` and
//! `limit-output=BYTES`, each per second.
//!
//! A request beyond a limit is refused with the time after which it would be served. What has been
//! used stands with the user's identity ([`Budgets`](braid_clients::identity::Budgets)), so it
//! outlives changes of the rules. Only requests of clients count, not the commands of a script,
//! and bytes count when they have been received or sent: what is beyond a limit then is made up
//! for by the requests that follow.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::budget::Budget;
use braid_base::clock::boot_nanos;
use braid_clients::{ClientRecord, Identity};
use braid_config::parse_memory;
use braid_spec::CommandError;

/// The bytes of a client that a user's budgets have been charged with.
#[derive(Clone, Copy, Default, Debug)]
pub struct Charged {
    input: u64,
    output: u64,
}

impl Charged {
    /// Bytes received and sent so far: a client is charged only with what follows.
    pub fn until_now(record: &ClientRecord) -> Charged {
        Charged { input: record.net_in.load(Relaxed), output: record.net_out.load(Relaxed) }
    }

    /// Bytes received since the last call, and bytes sent.
    pub fn advance(&mut self, record: &ClientRecord) -> (u64, u64) {
        let now = Charged::until_now(record);
        let more = (now.input.saturating_sub(self.input), now.output.saturating_sub(self.output));
        *self = now;
        more
    }
}

/// Amounts per second; 0 means no limit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Limits {
    commands: u64,
    input_bytes: u64,
    output_bytes: u64,
}

impl Limits {
    fn all(&self) -> [(&'static str, u64); 3] {
        [
            ("limit-commands", self.commands),
            ("limit-input", self.input_bytes),
            ("limit-output", self.output_bytes),
        ]
    }

    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// The rules that make these limits.
    pub fn rules(&self) -> impl Iterator<Item = String> {
        let limited = self.all().into_iter().filter(|(_, amount)| *amount > 0);
        limited.map(|(name, amount)| format!("{name}={amount}"))
    }

    /// Applies a rule in lower case. Returns whether it is valid; `None` if it is about something
    /// else.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Option<bool> {
        if rule == b"nolimits" {
            *self = Limits::default();
            return Some(true);
        }
        let (name, amount) = std::str::from_utf8(rule).ok()?.split_once('=')?;
        let (limit, amount) = match name {
            "limit-commands" => (&mut self.commands, amount.parse().ok()),
            "limit-input" => (&mut self.input_bytes, parse_memory(amount)),
            "limit-output" => (&mut self.output_bytes, parse_memory(amount)),
            _ => return None,
        };
        let is_valid = amount.is_some();
        *limit = amount.unwrap_or(*limit);
        Some(is_valid)
    }
}

impl Limits {
    /// Charges the user with a request, and with what its client has received and sent since the
    /// last one.
    ///
    /// # Errors
    /// If a limit is exceeded: which, and when to try again.
    pub fn charge(
        &self,
        user: &Identity,
        charged: &mut Charged,
        record: &ClientRecord,
    ) -> Result<(), CommandError> {
        let (used, now_ns) = (&user.budgets, boot_nanos());
        let (received, sent) = charged.advance(record);
        let check = |budget: &Budget, amount, per_second| {
            if per_second == 0 {
                return Ok(());
            }
            budget.charge(amount, per_second, now_ns);
            budget.check(now_ns)
        };
        let take = |per_second| match per_second {
            0 => Ok(()),
            _ => used.commands.take(1, per_second, now_ns),
        };
        // Bytes are charged in any case, also those of a request that is refused.
        let (input, output) =
            (check(&used.input, received, self.input_bytes), check(&used.output, sent, self.output_bytes));
        input
            .map_err(|wait| ("limit-input", wait))
            .and(output.map_err(|wait| ("limit-output", wait)))
            .and_then(|()| take(self.commands).map_err(|wait| ("limit-commands", wait)))
            .map_err(|(rule, wait)| {
                user.limited.fetch_add(1, Relaxed);
                let wait_ms = wait.div_ceil(1_000_000);
                CommandError::text(format!("LIMIT The user has reached {rule}: try again in {wait_ms} ms"))
            })
    }
}
