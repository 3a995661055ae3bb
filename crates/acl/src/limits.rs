// SPDX-License-Identifier: BSD-3-Clause
//! What a user's clients may use together: per second rules `limit-commands=N`,
//! `limit-input=BYTES`, `limit-output=BYTES` and `limit-time=MS` (of processor time), at any time
//! `limit-connections=N` and `limit-memory=BYTES` (of the keys that the user may change).
//!
//! A request beyond a limit is refused with the time after which it would be served; with
//! `limit-delay=MS` it waits for that time, if it is no longer. What has been used stands with the
//! user's identity ([`Budgets`](braid_clients::identity::Budgets)), so it outlives changes of the
//! rules. Only requests of clients count, not the commands of a script, and bytes and time count
//! when they have been used: what is beyond a limit then is made up for by the requests that
//! follow.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::budget::Budget;
use braid_base::clock::boot_nanos;
use braid_clients::{ClientRecord, Identity};
use braid_config::parse_memory;
use braid_spec::CommandError;

const NS_PER_MS: u64 = 1_000_000;

/// What a client has used that its user's budgets have been charged with, and the wait of its next
/// request.
#[derive(Clone, Copy, Default, Debug)]
pub struct Charged {
    input: u64,
    output: u64,
    /// Processor time that the budgets have not been charged with yet.
    nanos: u64,
    /// Until when the request waits, and after which time it is refused, ms since the Unix epoch;
    /// 0: it does not wait.
    until_ms: i64,
    refused_after_ms: i64,
}

impl Charged {
    /// Bytes received and sent so far: a client is charged only with what follows.
    pub fn until_now(record: &ClientRecord) -> Charged {
        let (input, output) = (record.net_in.load(Relaxed), record.net_out.load(Relaxed));
        Charged { input, output, ..Charged::default() }
    }

    /// Bytes received since the last call, and bytes sent.
    fn advance(&mut self, record: &ClientRecord) -> (u64, u64) {
        let now = Charged::until_now(record);
        let more = (now.input.saturating_sub(self.input), now.output.saturating_sub(self.output));
        (self.input, self.output) = (now.input, now.output);
        more
    }

    /// Adds the processor time of a request.
    pub fn add_nanos(&mut self, nanos: u64) {
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// Until when the client's next request waits, ms since the Unix epoch.
    pub fn until_ms(&self) -> Option<i64> {
        (self.until_ms > 0).then_some(self.until_ms)
    }
}

/// What of a limit a user may use, per second if nothing else is said; 0 means no limit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Limits {
    commands: u64,
    input_bytes: u64,
    output_bytes: u64,
    /// Milliseconds of processor time.
    time_ms: u64,
    /// Connections at any time.
    connections: u64,
    /// Bytes of the keys that the user may change.
    memory_bytes: u64,
    /// Milliseconds for which a request waits at most instead of being refused.
    delay_ms: u64,
}

impl Limits {
    fn all(&self) -> [(&'static str, u64); 7] {
        [
            ("limit-commands", self.commands),
            ("limit-input", self.input_bytes),
            ("limit-output", self.output_bytes),
            ("limit-time", self.time_ms),
            ("limit-connections", self.connections),
            ("limit-memory", self.memory_bytes),
            ("limit-delay", self.delay_ms),
        ]
    }

    /// True if nothing is limited for which requests have to be counted.
    pub fn is_none(&self) -> bool {
        [self.commands, self.input_bytes, self.output_bytes, self.time_ms, self.memory_bytes] == [0; 5]
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
            "limit-time" => (&mut self.time_ms, amount.parse().ok()),
            "limit-connections" => (&mut self.connections, amount.parse().ok()),
            "limit-memory" => (&mut self.memory_bytes, parse_memory(amount)),
            "limit-delay" => (&mut self.delay_ms, amount.parse().ok().filter(|ms| *ms <= DELAY_MAX_MS)),
            _ => return None,
        };
        let is_valid = amount.is_some();
        *limit = amount.unwrap_or(*limit);
        Some(is_valid)
    }
}

/// A client must not take a delay for a dead server.
const DELAY_MAX_MS: u64 = 60_000;

impl Limits {
    /// Checks one more connection of a user that has `others`.
    ///
    /// # Errors
    /// If there are too many.
    pub fn check_connections(&self, user: &Identity, others: u64) -> Result<(), CommandError> {
        if self.connections == 0 || others < self.connections {
            return Ok(());
        }
        user.limited.fetch_add(1, Relaxed);
        let most = self.connections;
        Err(CommandError::text(format!("LIMIT The user has reached limit-connections: {most} are in use")))
    }

    /// True if processor time is limited.
    pub(crate) fn has_time(&self) -> bool {
        self.time_ms > 0
    }

    /// The limit of memory; 0 means none.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Checks that the user may have more memory.
    ///
    /// # Errors
    /// If its keys take more than they may.
    pub fn check_memory(&self, user: &Identity) -> Result<(), CommandError> {
        let used = user.memory.used();
        if used <= self.memory_bytes {
            return Ok(());
        }
        user.limited.fetch_add(1, Relaxed);
        Err(CommandError::text(format!(
            "LIMIT The user has reached limit-memory: its keys take {used} bytes"
        )))
    }

    /// Charges the user with a request, and with what its client has used since the last one.
    /// Returns whether the request may run now; if not it is to be charged again at
    /// [`Charged::until_ms`], or before.
    ///
    /// # Errors
    /// If a limit is exceeded: which, and when to try again.
    pub fn charge(
        &self,
        user: &Identity,
        charged: &mut Charged,
        record: &ClientRecord,
        now_ms: i64,
    ) -> Result<bool, CommandError> {
        if now_ms < charged.until_ms {
            return Ok(false);
        }
        let now_ns = boot_nanos();
        let has_waited = std::mem::take(&mut charged.until_ms) > 0;
        let refused_after_ms = std::mem::take(&mut charged.refused_after_ms);
        let patience_ns = match has_waited {
            true => u64::try_from(refused_after_ms - now_ms).unwrap_or(0) * NS_PER_MS,
            false => self.delay_ms * NS_PER_MS,
        };
        // What has been used is charged in any case, also that of a request that is refused.
        let (rule, debt) = self.debt(user, charged, record, now_ns);
        let refused = |rule: &str, wait: u64| {
            user.limited.fetch_add(1, Relaxed);
            let wait_ms = wait.div_ceil(NS_PER_MS);
            CommandError::text(format!("LIMIT The user has reached {rule}: try again in {wait_ms} ms"))
        };
        if debt > patience_ns {
            return Err(refused(rule, debt));
        }
        // A request that has waited has been counted.
        let wait = match self.commands {
            0 => 0,
            _ if has_waited => 0,
            per_second => user
                .budgets
                .commands
                .reserve(1, per_second, now_ns, patience_ns)
                .map_err(|wait| refused("limit-commands", wait))?,
        };
        let wait = wait.max(debt);
        if wait == 0 {
            return Ok(true);
        }
        user.delayed.fetch_add(u64::from(!has_waited), Relaxed);
        let after =
            |ns: u64| now_ms.saturating_add(i64::try_from(ns.div_ceil(NS_PER_MS)).unwrap_or(i64::MAX));
        charged.until_ms = after(wait);
        charged.refused_after_ms = if has_waited { refused_after_ms } else { after(patience_ns) };
        Ok(false)
    }

    /// The longest time until one of the limits on what has been used is kept, in ns, and its rule.
    fn debt(
        &self,
        user: &Identity,
        charged: &mut Charged,
        record: &ClientRecord,
        now_ns: u64,
    ) -> (&'static str, u64) {
        let used = &user.budgets;
        let (received, sent) = charged.advance(record);
        let nanos = std::mem::take(&mut charged.nanos).saturating_add(user.take_work());
        let debt = |budget: &Budget, amount, per_second| {
            if per_second == 0 {
                return 0;
            }
            budget.charge(amount, per_second, now_ns);
            budget.check(now_ns).err().unwrap_or(0)
        };
        [
            ("limit-input", debt(&used.input, received, self.input_bytes)),
            ("limit-output", debt(&used.output, sent, self.output_bytes)),
            ("limit-time", debt(&used.time, nanos, self.time_ms.saturating_mul(NS_PER_MS))),
        ]
        .into_iter()
        .max_by_key(|(_, wait)| *wait)
        .expect("there are three")
    }
}
