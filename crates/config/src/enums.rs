// SPDX-License-Identifier: BSD-3-Clause
//! Enumerated directives, each as a Rust enum with its words in configuration files.
//!
//! The words are in the order of stock servers' error texts. A word after `|` is another spelling
//! of the same value; CONFIG GET replies with the first spelling.

/// An enumeration of a directive: its words, and the conversion from the stored number.
pub trait ConfigEnum: Sized {
    /// Every accepted word with its number, in the order of the error text.
    const WORDS: &'static [(&'static str, i64)];

    /// The value of a stored number; the first value for an unknown number (which is never stored).
    fn from_raw(raw: i64) -> Self;

    /// The first word of this value.
    fn word(self) -> &'static str;
}

macro_rules! config_enums {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $variant:ident = $($word:literal)|+ ),+ $(,)? } )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( #[doc = concat!("Written as ", $("`", $word, "` ",)+ ".")] $variant ),+ }

        impl $name {
            /// The number under which this value is stored.
            pub const fn raw(self) -> i64 {
                self as i64
            }
        }

        impl ConfigEnum for $name {
            const WORDS: &'static [(&'static str, i64)] = &[$( $( ($word, $name::$variant as i64) ),+ ),+];

            fn from_raw(raw: i64) -> Self {
                const ALL: &[$name] = &[$( $name::$variant ),+];
                usize::try_from(raw).ok().and_then(|index| ALL.get(index)).copied().unwrap_or(ALL[0])
            }

            fn word(self) -> &'static str {
                let raw = self as i64;
                Self::WORDS.iter().find(|entry| entry.1 == raw).map_or("unknown", |entry| entry.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.word())
            }
        }
    )+};
}

config_enums! {
    /// The keys that may be evicted when memory is full, and their order.
    MaxmemoryPolicy {
        VolatileLru = "volatile-lru", VolatileLfu = "volatile-lfu", VolatileRandom = "volatile-random",
        VolatileTtl = "volatile-ttl", AllkeysLru = "allkeys-lru", AllkeysLfu = "allkeys-lfu",
        AllkeysRandom = "allkeys-random", NoEviction = "noeviction", VolatileLrm = "volatile-lrm",
        AllkeysLrm = "allkeys-lrm",
    }
    /// The syslog facility.
    SyslogFacility {
        User = "user", Local0 = "local0", Local1 = "local1", Local2 = "local2", Local3 = "local3",
        Local4 = "local4", Local5 = "local5", Local6 = "local6", Local7 = "local7",
    }
    /// Minimum level of log lines.
    LogLevel {
        Debug = "debug", Verbose = "verbose", Notice = "notice", Warning = "warning", Nothing = "nothing",
    }
    /// Layout of a log line.
    LogFormat { Legacy = "legacy", Logfmt = "logfmt", Json = "json" }
    /// Format of the time in a log line.
    LogTimestampFormat { Legacy = "legacy", Iso8601 = "iso8601", Milliseconds = "milliseconds" }
    /// The supervisor to notify when the server is ready.
    Supervised { Upstart = "upstart", Systemd = "systemd", Auto = "auto", No = "no" }
    /// When the append-only file is synced to disk.
    AppendFsync { Everysec = "everysec", Always = "always", No = "no" }
    /// Compression that a replica requests from its primary.
    ReplCompression { No = "no", Lz4 = "lz4" }
    /// What an in-sync replica acknowledges: data in memory, or on disk.
    SyncLevel { Memory = "memory", Disk = "disk" }
    /// How a replica loads a full sync from the socket.
    ReplDisklessLoad { Disabled = "disabled", OnEmptyDb = "on-empty-db", Swapdb = "swapdb",
        FlushBeforeLoad = "flush-before-load" }
    /// Whether TLS clients must present a certificate.
    TlsAuthClients { No = "no", Yes = "yes", Optional = "optional" }
    /// The field of a TLS client's certificate that names its user.
    TlsAuthClientsUser { Cn = "CN", Uri = "URI", Off = "off" }
    /// How the process adjusts its OOM score.
    OomScoreAdj { No = "no", Relative = "yes" | "relative", Absolute = "absolute" }
    /// The channels that a new ACL user may use.
    AclPubsubDefault { AllChannels = "allchannels", ResetChannels = "resetchannels" }
    /// Whether values of RESTORE and of loaded files are checked deeply.
    SanitizeDumpPayload { No = "no", Yes = "yes", Clients = "clients" }
    /// Who may perform a dangerous action: nobody, everybody, or connections from this machine.
    ProtectedAction { No = "no", Yes = "yes", Local = "local" }
    /// The kind of address under which clients of a cluster are told to reach a node.
    ClusterEndpointType { Ip = "ip", Hostname = "hostname", UnknownEndpoint = "unknown-endpoint" }
    /// What happens when a replicated command fails.
    PropagationErrorBehavior { Ignore = "ignore", Panic = "panic", PanicOnReplicas = "panic-on-replicas" }
    /// What a failure to write the cluster's file does (accepted without effect).
    ClusterConfigSaveBehavior { Sync = "sync", BestEffort = "best-effort" }
    /// Which files of unknown versions are accepted.
    RdbVersionCheck { Strict = "strict", Relaxed = "relaxed" }
    /// What becomes of a sample whose time a series has already.
    TsDuplicatePolicy {
        Block = "block", First = "first", Last = "last", Min = "min", Max = "max", Sum = "sum",
    }
    /// The encoding of a series (accepted without effect).
    TsEncoding { Compressed = "compressed", Uncompressed = "uncompressed" }
    /// The servers for which snapshots are written.
    RdbTarget {
        Braid = "braid", Valkey9 = "valkey-9", Redis8 = "redis-8", Redis72 = "redis-7.2", Redis70 = "redis-7.0",
        Keydb = "keydb",
    }
}

/// Invokes the macro `$with` with a line for each threading model: the module that implements it
/// in `braid-threading`, its variant of [`ThreadingModel`] and its word.
#[macro_export]
macro_rules! threading_models {
    ($with:ident) => {
        $with! {
            parallel Parallel = "parallel",
            handoff Handoff = "handoff",
            fanout Fanout = "fanout",
            hybrid Hybrid = "hybrid",
            global_lock GlobalLock = "global-lock",
        }
    };
}

macro_rules! threading_model_enum {
    ($($module:ident $variant:ident = $word:literal,)+) => {
        config_enums! {
            /// How threads share the work.
            ThreadingModel { $($variant = $word),+ }
        }
    };
}

threading_models!(threading_model_enum);

/// Shutdown behaviour on a signal; several words may be combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags(pub u8);

impl ShutdownFlags {
    /// Save even without save points.
    pub const SAVE: u8 = 1;
    /// Never save.
    pub const NOSAVE: u8 = 2;
    /// Do not wait for replicas.
    pub const NOW: u8 = 4;
    /// Shut down even if saving fails.
    pub const FORCE: u8 = 8;
    /// Refuse if this node is a primary that owns slots.
    pub const SAFE: u8 = 16;
    /// Let a replica take over first.
    pub const FAILOVER: u8 = 32;
    /// The words with their bits.
    pub const WORDS: &'static [(&'static str, i64)] = &[
        ("default", 0),
        ("save", 1),
        ("nosave", 2),
        ("now", 4),
        ("force", 8),
        ("safe", 16),
        ("failover", 32),
    ];

    /// True if the bit is set.
    pub const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// Limit of the buffers of all clients together (`maxmemory-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientsMemoryLimit {
    /// No limit.
    Unlimited,
    /// This many bytes.
    Bytes(u64),
    /// This many percent of `maxmemory`.
    PercentOfMaxmemory(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_agree() {
        assert_eq!(MaxmemoryPolicy::from_raw(MaxmemoryPolicy::AllkeysLfu.raw()), MaxmemoryPolicy::AllkeysLfu);
        assert_eq!(MaxmemoryPolicy::NoEviction.word(), "noeviction");
        assert_eq!(OomScoreAdj::Relative.word(), "yes");
        assert_eq!(OomScoreAdj::WORDS.len(), 4);
        assert_eq!(AppendFsync::from_raw(99), AppendFsync::Everysec);
        assert_eq!(AppendFsync::from_raw(-1), AppendFsync::Everysec);
    }
}
