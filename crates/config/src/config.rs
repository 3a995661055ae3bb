// SPDX-License-Identifier: BSD-3-Clause
//! The configuration store, which every thread reads.
//!
//! Numbers, switches and words live in one array of atomics, so a hot value costs one relaxed load;
//! texts and lists are swapped as a whole behind `ArcSwap`. A change of several directives is not
//! atomic for readers: each value is valid by itself, and `version` is incremented after all of
//! them are stored. Writes go through `change.rs`.

use crate::directive::Directive;
use crate::enums::ClientsMemoryLimit;
use crate::rows::{TOTAL, index, table};
use crate::special::{ClientClass, MasterAddress, NotifyFlags, OutputLimit, SavePoint};
use crate::value::{Value, default_value, format_value};
use crate::values::Values;
use braid_base::glob::matches;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Body of a hook.
type Run = dyn Fn(&Config) -> Result<(), String> + Send + Sync;

/// A hook: a function that runs when one of its directives changes.
pub(crate) struct Hook {
    pub(crate) rows: Vec<usize>,
    pub(crate) run: Box<Run>,
}

/// The values of all directives. Shared as `Arc<Config>`.
pub struct Config {
    values: Values<TOTAL>,
    version: AtomicU64,
    loading: AtomicBool,
    /// Serializes changes.
    pub(crate) writing: Mutex<()>,
    pub(crate) hooks: Mutex<Vec<Arc<Hook>>>,
}

impl Config {
    /// A configuration of default values.
    pub fn new() -> Config {
        let config = Config {
            values: Values::new(),
            version: AtomicU64::new(0),
            loading: AtomicBool::new(false),
            writing: Mutex::new(()),
            hooks: Mutex::new(Vec::new()),
        };
        for (index, directive) in table().directives.iter().enumerate() {
            config.store(index, default_value(directive));
        }
        config
    }

    /// Incremented by every change. A thread that caches values checks it with a single load.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Sets whether a dataset is being loaded: some directives cannot change during a load.
    pub fn set_loading(&self, loading: bool) {
        self.loading.store(loading, Ordering::Relaxed);
    }

    /// True while a dataset is being loaded.
    pub fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Relaxed)
    }

    /// Registers a hook for some directives. It runs once for each CONFIG SET that changes at
    /// least one of them, after all new values are stored, on the calling thread. If it fails,
    /// all values are restored, and its error is the reason in the client's reply. A hook must
    /// not set directives or rewrite the file: it would deadlock.
    ///
    /// # Panics
    /// A name is not a directive, which is a bug in the caller.
    pub fn on_change(
        &self,
        names: &[&str],
        hook: impl Fn(&Config) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let rows = names
            .iter()
            .map(|name| table().find(name).unwrap_or_else(|| panic!("unknown directive '{name}'")))
            .collect();
        self.hooks.lock().push(Arc::new(Hook { rows, run: Box::new(hook) }));
    }

    /// The current value of a row.
    pub(crate) fn value(&self, index: usize) -> Value {
        if table().directives[index].is_scalar() {
            Value::Scalar(self.scalar_at(index))
        } else {
            (**self.other_at(index)).clone()
        }
    }

    /// CONFIG GET: names and values of all matches, in the order of patterns; the names of one
    /// pattern are sorted.
    ///
    /// A name without `*`, `?` or `[` is looked up literally and returned as written; hidden
    /// directives are found only that way. An alias counts as a name of its own.
    pub fn get(&self, patterns: &[impl AsRef<str>]) -> Vec<(String, String)> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut add = |name: &str, index: usize| {
            if seen.insert(name.to_owned()) {
                found.push((name.to_owned(), self.get_at(index)));
            }
        };
        for pattern in patterns {
            let pattern = pattern.as_ref();
            if !pattern.contains(['*', '?', '[']) {
                if let Some(index) = table().find(pattern) {
                    add(pattern, index);
                }
                continue;
            }
            for (name, index) in &table().sorted {
                if !table().directives[*index].hidden && matches(pattern.as_bytes(), name.as_bytes(), true) {
                    add(name, *index);
                }
            }
        }
        found
    }

    /// The value of one directive (any name or alias) as text.
    pub fn get_one(&self, name: &str) -> Option<String> {
        table().find(name).map(|index| self.get_at(index))
    }

    pub(crate) fn get_at(&self, index: usize) -> String {
        format_value(table().directives[index], &self.value(index))
    }

    /// Working directory, as an absolute path. The server's process changes into it; this crate
    /// never does.
    pub fn dir(&self) -> PathBuf {
        PathBuf::from(&*self.text_at(index::DIR))
    }

    /// Addresses to listen on; empty means none.
    pub fn bind(&self) -> Arc<[String]> {
        match &**self.other_at(index::BIND) {
            Value::Words(words) => words.clone(),
            _ => Arc::from([]),
        }
    }

    /// The words that define the change feeds, three for each.
    pub fn change_feeds(&self) -> Arc<[String]> {
        match &**self.other_at(index::CHANGE_FEED) {
            Value::Words(words) => words.clone(),
            _ => Arc::from([]),
        }
    }

    /// Save points; empty means no automatic snapshots.
    pub fn save_points(&self) -> Arc<[SavePoint]> {
        match &**self.other_at(index::SAVE) {
            Value::Save(points) => points.clone(),
            _ => Arc::from([]),
        }
    }

    /// Output buffer limits of a client class.
    pub fn client_output_buffer_limit(&self, class: ClientClass) -> OutputLimit {
        match &**self.other_at(index::OUTPUT_LIMITS) {
            Value::OutputLimits(limits) => limits[class as usize],
            _ => OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
        }
    }

    /// OOM scores of master, replica and background child.
    pub fn oom_score_adj_values(&self) -> [i32; 3] {
        match &**self.other_at(index::OOM_SCORES) {
            Value::OomScores(scores) => *scores,
            _ => crate::special::DEFAULT_OOM_SCORES,
        }
    }

    /// Published event classes.
    #[inline]
    pub fn notify_keyspace_events(&self) -> NotifyFlags {
        NotifyFlags(self.scalar_at(index::NOTIFY) as u32)
    }

    /// The master, if this server is a replica.
    pub fn replicaof(&self) -> Option<Arc<MasterAddress>> {
        match &**self.other_at(index::REPLICAOF) {
            Value::Master(master) => master.clone(),
            _ => None,
        }
    }

    /// Percentiles shown by INFO latencystats.
    pub fn latency_tracking_info_percentiles(&self) -> Arc<[f64]> {
        match &**self.other_at(index::PERCENTILES) {
            Value::Percentiles(percentiles) => percentiles.clone(),
            _ => Arc::from([]),
        }
    }

    /// Limit of the buffers of all clients together.
    pub fn maxmemory_clients(&self) -> ClientsMemoryLimit {
        let raw = self.scalar_at(index::MAXMEMORY_CLIENTS);
        match (u64::try_from(raw), u8::try_from(raw.unsigned_abs())) {
            (Ok(0), _) => ClientsMemoryLimit::Unlimited,
            (Ok(bytes), _) => ClientsMemoryLimit::Bytes(bytes),
            (Err(_), Ok(percent)) => ClientsMemoryLimit::PercentOfMaxmemory(percent),
            (Err(_), Err(_)) => ClientsMemoryLimit::Unlimited,
        }
    }
}

impl Deref for Config {
    type Target = Values<TOTAL>;

    /// The values by row, with an accessor for each directive.
    #[inline]
    fn deref(&self) -> &Values<TOTAL> {
        &self.values
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl fmt::Debug for Config {
    /// Names and values that differ from the default; secrets are redacted.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for (index, directive) in table().directives.iter().enumerate() {
            let value = self.value(index);
            if value != default_value(directive) {
                map.entry(&directive.name, &shown(directive, &format_value(directive, &value)));
            }
        }
        map.finish()
    }
}

/// Text shown in logs instead of a secret.
pub const REDACTED: &str = "(redacted)";

/// A value's text for the log.
pub(crate) fn shown(directive: &Directive, text: &str) -> String {
    if directive.secret && !text.is_empty() { REDACTED.to_owned() } else { text.to_owned() }
}

/// True if the value of this directive (any name or alias, case-insensitive) must never be printed.
pub fn is_secret(name: &str) -> bool {
    find_directive(name).is_some_and(|directive| directive.secret)
}

/// The row of a directive by any of its names.
pub fn find_directive(name: &str) -> Option<&'static Directive> {
    table().find(name).map(|index| table().directives[index])
}
