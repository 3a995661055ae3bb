// SPDX-License-Identifier: BSD-3-Clause
//! A command's specification: name, arity, flags, keys, scope and documentation.
//!
//! The dispatcher's lock sets and special cases, COMMAND and its subcommands, ACL categories and
//! the compatibility page are derived from it. A command that needs special treatment gets a flag
//! here ([`Behavior`]): no code may recognize a command by its name.

/// A property of a request, computed from its arguments.
pub type RequestTest = fn(&[&[u8]]) -> bool;

macro_rules! bit_set {
    ($(#[$outer:meta])* $name:ident: $repr:ty { $($(#[$doc:meta])* $flag:ident = $bit:expr, $text:expr;)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$doc])* pub const $flag: $name = $name(1 << $bit);)*

            /// Nothing set.
            pub const NONE: $name = $name(0);
            /// Each flag with its name, in listing order.
            pub const ALL: &'static [($name, &'static str)] = &[$(($name::$flag, $text)),*];

            /// Union.
            pub const fn and(self, other: $name) -> $name { $name(self.0 | other.0) }

            /// True if all of `other` is set.
            #[inline]
            pub const fn has(self, other: $name) -> bool { self.0 & other.0 == other.0 }

            /// True if any of `other` is set.
            #[inline]
            pub const fn any(self, other: $name) -> bool { self.0 & other.0 != 0 }

            /// Names of the flags that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::ALL.iter().filter(move |(flag, name)| self.has(*flag) && !name.is_empty()).map(|(_, name)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name { self.and(other) }
        }
    };
}

bit_set! {
    /// Command flags, with their names in COMMAND INFO (empty: not listed).
    Flags: u32 {
        WRITE = 0, "write";
        READONLY = 1, "readonly";
        DENYOOM = 2, "denyoom";
        ADMIN = 3, "admin";
        PUBSUB = 4, "pubsub";
        NOSCRIPT = 5, "noscript";
        BLOCKING = 6, "blocking";
        LOADING = 7, "loading";
        STALE = 8, "stale";
        SKIP_MONITOR = 9, "skip_monitor";
        SKIP_SLOWLOG = 10, "skip_slowlog";
        ASKING = 11, "asking";
        FAST = 12, "fast";
        NO_AUTH = 13, "no_auth";
        MAY_REPLICATE = 14, "may_replicate";
        NO_MANDATORY_KEYS = 15, "no_mandatory_keys";
        NO_ASYNC_LOADING = 16, "no_async_loading";
        NO_MULTI = 17, "no_multi";
        ALLOW_BUSY = 18, "allow_busy";
        /// The first three key numbers do not cover all keys.
        MOVABLE_KEYS = 19, "movablekeys";
        PROTECTED = 20, "";
        SENTINEL = 21, "";
    }
}

bit_set! {
    /// How the dispatcher and the loops treat a command. Never shown to clients.
    Behavior: u32 {
        /// Runs scripts or functions, whose calls decide what is journalled, monitored and sampled.
        RUNS_SCRIPTS = 0, "";
        /// Executes the commands queued since MULTI.
        EXECUTES_QUEUE = 1, "";
        /// Executed within MULTI rather than queued.
        NEVER_QUEUED = 2, "";
        /// Allowed for a RESP2 client that is subscribed to channels.
        ALLOWED_SUBSCRIBED = 3, "";
        /// Allowed on the link of a replica.
        ALLOWED_ON_REPLICA_LINK = 4, "";
        /// Ends CLIENT PAUSE, so it runs while clients are paused.
        ENDS_PAUSE = 5, "";
        /// Adds or removes watched keys.
        CHANGES_WATCHES = 6, "";
        /// Removes watched keys, if any, in addition to its main work.
        DROPS_WATCHES = 7, "";
        /// Reports that writes are refused, as writes do (PING).
        REPORTS_WRITE_REFUSAL = 8, "";
        /// Marks keys as used even on a connection with CLIENT NO-TOUCH.
        TOUCHES_ALWAYS = 9, "";
        /// Leaves CLIENT CACHING's exception for the next command in place.
        KEEPS_CACHING = 10, "";
        /// Enabled by `enable-module-command`; other protected commands are enabled by
        /// `enable-debug-command`.
        MODULE_COMMAND = 11, "";
        /// In an append-only file: selects the database of the following commands.
        REPLAY_SELECTS = 12, "";
        /// In an append-only file: opens a transaction.
        REPLAY_OPENS_TRANSACTION = 13, "";
        /// In an append-only file: drops the open transaction.
        REPLAY_DROPS_TRANSACTION = 14, "";
        /// In an append-only file: replayed although it changes no key (servers before Redis 7
        /// wrote scripts rather than their effects).
        REPLAYED = 15, "";
        /// Moves keys to another node: works on slots in migration.
        MOVES_KEYS = 16, "";
        /// Changes the cluster's slots: a transaction of nothing else is one change.
        CHANGES_SLOTS = 17, "";
    }
}

bit_set! {
    /// ACL categories, in the order ACL CAT lists them.
    Category: u32 {
        KEYSPACE = 0, "keyspace";
        READ = 1, "read";
        WRITE = 2, "write";
        SET = 3, "set";
        SORTEDSET = 4, "sortedset";
        LIST = 5, "list";
        HASH = 6, "hash";
        STRING = 7, "string";
        BITMAP = 8, "bitmap";
        HYPERLOGLOG = 9, "hyperloglog";
        GEO = 10, "geo";
        STREAM = 11, "stream";
        PUBSUB = 12, "pubsub";
        ADMIN = 13, "admin";
        FAST = 14, "fast";
        SLOW = 15, "slow";
        BLOCKING = 16, "blocking";
        DANGEROUS = 17, "dangerous";
        CONNECTION = 18, "connection";
        TRANSACTION = 19, "transaction";
        SCRIPTING = 20, "scripting";
        BLOOM = 21, "bloom";
        JSON = 22, "json";
        SEARCH = 23, "search";
        CUCKOO = 24, "cuckoo";
        CMS = 25, "cms";
        TOPK = 26, "topk";
        TDIGEST = 27, "tdigest";
        TIMESERIES = 28, "timeseries";
        ARRAY = 29, "array";
    }
}

bit_set! {
    /// How a command uses its keys, as in COMMAND INFO's key specifications.
    KeyFlags: u16 {
        RO = 0, "RO";
        RW = 1, "RW";
        OW = 2, "OW";
        RM = 3, "RM";
        ACCESS = 4, "access";
        UPDATE = 5, "update";
        INSERT = 6, "insert";
        DELETE = 7, "delete";
        NOT_KEY = 8, "not_key";
        INCOMPLETE = 9, "incomplete";
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

/// How a key specification finds the first key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Begin {
    /// At this argument (0 is the command's name).
    Index(i32),
    /// After the first argument that equals the keyword, searched from `from` (negative: backwards
    /// from the end).
    Keyword { word: &'static str, from: i32 },
    /// Not known in advance.
    Unknown,
}

/// How a key specification continues from the first key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Find {
    /// Up to `last` (relative to the first key; negative: from the end of the arguments), every
    /// `step`; with a `limit` above 1, only the first 1/limit of the remaining arguments.
    Range { last: i32, step: i32, limit: i32 },
    /// As many keys as argument `count_at` states, starting at `first` (both relative to the
    /// start).
    KeyNum { count_at: i32, first: i32, step: i32 },
    /// Not known in advance.
    Unknown,
}

/// A key specification: positions and flags.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    pub flags: KeyFlags,
    pub begin: Begin,
    pub find: Find,
    /// Note for COMMAND INFO and DOCS.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `index`.
    pub const fn at(index: i32, flags: KeyFlags) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }

    /// Keys from argument `index` to `last` (relative to `index`, or negative from the end) every
    /// `step`.
    pub const fn range(index: i32, last: i32, step: i32, flags: KeyFlags) -> KeySpec {
        KeySpec { flags, begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }

    /// A key count at argument `index`, followed by the keys.
    pub const fn counted(index: i32, flags: KeyFlags) -> KeySpec {
        let find = Find::KeyNum { count_at: 0, first: 1, step: 1 };
        KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
    }

    /// Adds a note.
    pub const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }

    /// True if the keys may be written.
    pub const fn writes(&self) -> bool {
        !self.flags.has(KeyFlags::RO)
    }
}

/// The part of the keyspace that a body needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The keys of the key specifications (possibly none).
    Keys,
    /// All keys of the database, for a consistent read.
    AllKeys,
    /// Nothing locked: the body walks shard by shard (SCAN), or does not touch keys at one fixed
    /// moment.
    Walk,
    /// Everything, with the world stopped.
    World,
}

/// Number of arguments, including the command's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    Exactly(u32),
    AtLeast(u32),
}

impl Arity {
    /// As in COMMAND INFO: negative for a minimum.
    pub const fn number(self) -> i64 {
        match self {
            Arity::Exactly(count) => count as i64,
            Arity::AtLeast(count) => -(count as i64),
        }
    }

    /// True if `count` arguments are valid.
    #[inline]
    pub const fn allows(self, count: usize) -> bool {
        match self {
            Arity::Exactly(exact) => count == exact as usize,
            Arity::AtLeast(least) => count >= least as usize,
        }
    }
}

/// Documentation group of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Array,
    Bitmap,
    Cluster,
    Connection,
    Generic,
    Geo,
    Hash,
    HyperLogLog,
    List,
    /// Types that modules provide in stock servers.
    Module,
    PubSub,
    Scripting,
    Server,
    Set,
    SortedSet,
    Stream,
    String,
    Transactions,
}

impl Group {
    /// Name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Array => "array",
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::Module => "module",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

/// Finds keys that specifications cannot express. Returns argument indices with flags.
pub type KeyFinder = fn(&[&[u8]]) -> Option<Vec<(usize, KeyFlags)>>;

/// Computes how a request uses its keys, from the arguments.
pub type KeyFlagsFinder = fn(&[&[u8]]) -> KeyFlags;

/// True if the argument with this index is a secret.
pub type SecretFinder = fn(&[&[u8]], usize) -> bool;

/// The databases that a command uses.
#[derive(Clone, Copy, Debug)]
pub enum UsedDatabases {
    /// The selected one, if the command uses any.
    Current,
    All,
    /// Those named by the arguments at the returned indexes, and the selected one if the command
    /// has keys.
    Named(fn(&[&[u8]]) -> Vec<usize>),
}

/// Computes the scope of a request.
pub type ScopeFinder = fn(&[&[u8]]) -> Scope;

/// How a command uses channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelAccess {
    Publish,
    Subscribe,
    Unsubscribe,
}

/// The channel arguments of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelSpec {
    /// Index of the first channel argument.
    pub first: usize,
    /// All arguments from there on are channels; otherwise only one.
    pub all: bool,
    /// The channels are patterns.
    pub patterns: bool,
    pub access: ChannelAccess,
}

impl ChannelSpec {
    /// The channels of a request.
    pub fn find<'s, 'a>(&self, args: &'s [&'a [u8]]) -> &'s [&'a [u8]] {
        let end = if self.all { args.len() } else { self.first + 1 };
        args.get(self.first..end).unwrap_or_default()
    }
}

/// A command's specification. Built by chaining, in a `const`.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Lower case; for a subcommand, its own name without the parent's.
    pub name: &'static str,
    /// Has subcommands and no body of its own.
    pub is_container: bool,
    pub arity: Arity,
    pub flags: Flags,
    pub behavior: Behavior,
    /// Categories beyond those derived from flags and group.
    pub extra_categories: Category,
    pub keys: &'static [KeySpec],
    pub key_finder: Option<KeyFinder>,
    /// How a request actually uses its keys, where the specifications state the maximum
    /// (`VARIABLE_FLAGS`).
    pub exact_key_flags: Option<KeyFlagsFinder>,
    /// Identifies secret arguments, which are hidden from logs.
    pub secrets: Option<SecretFinder>,
    /// The databases that requests use, for permission checks.
    pub databases: UsedDatabases,
    /// Channel arguments, for permission checks.
    pub channels: Option<ChannelSpec>,
    pub scope: Scope,
    /// Computes from the arguments whether a request needs less than `scope`.
    pub scope_finder: Option<ScopeFinder>,
    pub group: Group,
    pub since: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// Arguments in the notation of `syntax.rs`.
    pub syntax: &'static str,
    /// Redis's first version with a command that Valkey got later; empty: `since`.
    pub since_in_redis: &'static str,
    /// Redis's arguments where Valkey has more; empty: `syntax`.
    pub syntax_in_redis: &'static str,
    /// Pairs of version and change.
    pub history: &'static [(&'static str, &'static str)],
    /// Hints for clients and proxies (COMMAND INFO's tips).
    pub tips: &'static [&'static str],
    /// Version of the deprecation, and the replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// True if a request's keys are locked exclusively although their flags are `RO`: stock
    /// servers mark changes of a stream's groups as reads, and a blocking client is queued at the
    /// key.
    pub locks_exclusively: Option<RequestTest>,
    /// Not in its group's ACL category (SORT works on three types and is in their categories).
    pub ungrouped: bool,
    /// Unsupported parts, for the compatibility page; empty if everything works.
    pub unsupported: &'static str,
}

impl Spec {
    /// A command with any number of arguments, no keys and no flags.
    pub const fn new(name: &'static str, group: Group) -> Spec {
        Spec {
            name,
            is_container: false,
            arity: Arity::AtLeast(1),
            flags: Flags::NONE,
            behavior: Behavior::NONE,
            extra_categories: Category::NONE,
            keys: &[],
            key_finder: None,
            exact_key_flags: None,
            secrets: None,
            databases: UsedDatabases::Current,
            channels: None,
            locks_exclusively: None,
            scope: Scope::Keys,
            scope_finder: None,
            group,
            since: "1.0.0",
            summary: "",
            complexity: "",
            syntax: "",
            since_in_redis: "",
            syntax_in_redis: "",
            history: &[],
            tips: &[],
            deprecated: None,
            ungrouped: false,
            unsupported: "",
        }
    }

    /// A command that has only subcommands.
    pub const fn container(name: &'static str, group: Group) -> Spec {
        let mut spec = Spec::new(name, group);
        spec.is_container = true;
        spec.arity = Arity::AtLeast(2);
        spec
    }

    /// Exactly `count` arguments, including the name (and a subcommand's).
    pub const fn exactly(mut self, count: u32) -> Spec {
        self.arity = Arity::Exactly(count);
        self
    }

    /// At least `count` arguments, including the name (and a subcommand's).
    pub const fn at_least(mut self, count: u32) -> Spec {
        self.arity = Arity::AtLeast(count);
        self
    }

    pub const fn flags(mut self, flags: Flags) -> Spec {
        self.flags = flags;
        self
    }

    /// Adds behaviour flags.
    pub const fn behavior(mut self, behavior: Behavior) -> Spec {
        self.behavior = self.behavior.and(behavior);
        self
    }

    pub const fn categories(mut self, categories: Category) -> Spec {
        self.extra_categories = categories;
        self
    }

    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Spec {
        self.keys = keys;
        self
    }

    /// Sets a function that finds keys which specifications cannot express.
    pub const fn find_keys(mut self, finder: KeyFinder) -> Spec {
        self.key_finder = Some(finder);
        self
    }

    /// See [`Spec::exact_key_flags`].
    pub const fn exact_key_flags(mut self, finder: KeyFlagsFinder) -> Spec {
        self.exact_key_flags = Some(finder);
        self
    }

    /// See [`Spec::secrets`].
    pub const fn secrets(mut self, finder: SecretFinder) -> Spec {
        self.secrets = Some(finder);
        self
    }

    /// See [`Spec::databases`].
    pub const fn databases(mut self, databases: UsedDatabases) -> Spec {
        self.databases = databases;
        self
    }

    /// True if requests have keys.
    pub const fn has_keys(&self) -> bool {
        !self.keys.is_empty() || self.key_finder.is_some()
    }

    /// Sets the channel arguments.
    pub const fn channels(mut self, channels: ChannelSpec) -> Spec {
        self.channels = Some(channels);
        self
    }

    /// True for commands that reply with one push per subscription.
    pub fn replies_with_pushes(&self) -> bool {
        self.channels.is_some_and(|channels| channels.access != ChannelAccess::Publish)
    }

    /// See [`Spec::locks_exclusively`].
    pub const fn locks_exclusively(mut self, locks: RequestTest) -> Spec {
        self.locks_exclusively = Some(locks);
        self
    }

    pub const fn scope(mut self, scope: Scope) -> Spec {
        self.scope = scope;
        self
    }

    /// Sets a function that computes a request's scope; [`Spec::scope`] is the maximum.
    pub const fn find_scope(mut self, finder: ScopeFinder) -> Spec {
        self.scope_finder = Some(finder);
        self
    }

    /// The scope of a request.
    #[inline]
    pub fn scope_of(&self, args: &[&[u8]]) -> Scope {
        self.scope_finder.map_or(self.scope, |finder| finder(args))
    }

    /// Documentation: first version, summary, complexity.
    pub const fn docs(
        mut self,
        since: &'static str,
        summary: &'static str,
        complexity: &'static str,
    ) -> Spec {
        self.since = since;
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    /// Arguments, in the notation of `syntax.rs`.
    pub const fn syntax(mut self, syntax: &'static str) -> Spec {
        self.syntax = syntax;
        self
    }

    /// What Redis 8 documents, if that differs: first version and arguments. Empty: no difference.
    pub const fn in_redis(mut self, since: &'static str, syntax: &'static str) -> Spec {
        self.since_in_redis = since;
        self.syntax_in_redis = syntax;
        self
    }

    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Spec {
        self.history = history;
        self
    }

    pub const fn tips(mut self, tips: &'static [&'static str]) -> Spec {
        self.tips = tips;
        self
    }

    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Spec {
        self.deprecated = Some((since, instead));
        self
    }

    /// See [`Spec::ungrouped`].
    pub const fn ungrouped(mut self) -> Spec {
        self.ungrouped = true;
        self
    }

    /// See [`Spec::unsupported`].
    pub const fn unsupported(mut self, what: &'static str) -> Spec {
        self.unsupported = what;
        self
    }

    /// All ACL categories, derived and extra.
    pub fn categories_all(&self) -> Category {
        let mut all = self.extra_categories;
        let follows = [
            (Flags::WRITE, Category::WRITE),
            (Flags::ADMIN, Category::ADMIN | Category::DANGEROUS),
            (Flags::PUBSUB, Category::PUBSUB),
            (Flags::FAST, Category::FAST),
            (Flags::BLOCKING, Category::BLOCKING),
        ];
        for (flag, category) in follows {
            if self.flags.has(flag) {
                all = all | category;
            }
        }
        // A read-only scripting command by itself is not a read of the keyspace.
        if self.flags.has(Flags::READONLY) && self.group != Group::Scripting {
            all = all | Category::READ;
        }
        if !self.flags.has(Flags::FAST) {
            all = all | Category::SLOW;
        }
        // Containers have no category; their subcommands belong to the group.
        if self.is_container {
            return all;
        }
        let by_group = match self.group {
            _ if self.ungrouped => Category::NONE,
            Group::Array => Category::ARRAY,
            Group::Bitmap => Category::BITMAP,
            Group::Connection => Category::CONNECTION,
            Group::Generic => Category::KEYSPACE,
            Group::Geo => Category::GEO,
            Group::Hash => Category::HASH,
            Group::HyperLogLog => Category::HYPERLOGLOG,
            Group::List => Category::LIST,
            Group::Scripting => Category::SCRIPTING,
            Group::Set => Category::SET,
            Group::SortedSet => Category::SORTEDSET,
            Group::Stream => Category::STREAM,
            Group::String => Category::STRING,
            Group::Transactions => Category::TRANSACTION,
            Group::Module | Group::PubSub | Group::Cluster | Group::Server => Category::NONE,
        };
        all | by_group
    }
}
