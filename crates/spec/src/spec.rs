// SPDX-License-Identifier: BSD-3-Clause
//! A command's specification: name, arity, flags, keys, scope and documentation.
//!
//! The dispatcher's lock sets and special cases, COMMAND and its subcommands, ACL categories and
//! the compatibility page are derived from it. A command that needs to be treated differently gets
//! a flag here ([`Behavior`]): no code recognizes a command by its name.

/// A property of a request, told from its arguments.
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
            /// Each flag with its name, in the order in which they are listed.
            pub const ALL: &'static [($name, &'static str)] = &[$(($name::$flag, $text)),*];

            /// Both.
            pub const fn and(self, other: $name) -> $name { $name(self.0 | other.0) }

            /// True if all of `other` is set.
            #[inline]
            pub const fn has(self, other: $name) -> bool { self.0 & other.0 == other.0 }

            /// True if any of `other` is set.
            #[inline]
            pub const fn any(self, other: $name) -> bool { self.0 & other.0 != 0 }

            /// The names of what is set.
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
    /// Command flags, named as COMMAND INFO names them (empty name: not listed there).
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
        /// Key positions cannot be told from the first three numbers alone.
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
        /// Allowed to a RESP2 client that is subscribed to channels.
        ALLOWED_SUBSCRIBED = 3, "";
        /// Allowed on the link of a replica.
        ALLOWED_ON_REPLICA_LINK = 4, "";
        /// Ends CLIENT PAUSE, so it runs while clients are paused.
        ENDS_PAUSE = 5, "";
        /// Adds or removes watched keys.
        CHANGES_WATCHES = 6, "";
        /// Removes watched keys if there are any, besides its main work.
        DROPS_WATCHES = 7, "";
        /// Reports that writes are refused, as writes do (PING).
        REPORTS_WRITE_REFUSAL = 8, "";
        /// Marks keys as used even in a connection with CLIENT NO-TOUCH.
        TOUCHES_ALWAYS = 9, "";
        /// Leaves CLIENT CACHING's exception for the next command in place.
        KEEPS_CACHING = 10, "";
        /// Enabled by `enable-module-command`; other protected commands are by `enable-debug-command`.
        MODULE_COMMAND = 11, "";
        /// In an append-only file: selects the database of the commands behind it.
        REPLAY_SELECTS = 12, "";
        /// In an append-only file: opens a transaction.
        REPLAY_OPENS_TRANSACTION = 13, "";
        /// In an append-only file: drops the open transaction.
        REPLAY_DROPS_TRANSACTION = 14, "";
        /// In an append-only file: run although it changes no key (servers before Redis 7 wrote
        /// scripts rather than their effects).
        REPLAYED = 15, "";
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
    }
}

bit_set! {
    /// What a command does with keys, named as COMMAND INFO's key specifications name it.
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

/// How a key specification finds its first key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Begin {
    /// At this argument (0 is the command's name).
    Index(i32),
    /// Behind the first argument that equals the keyword, searched from `from` (negative: from the
    /// end, backwards).
    Keyword { word: &'static str, from: i32 },
    /// Cannot be told.
    Unknown,
}

/// How a key specification goes on from the first key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Find {
    /// Up to `last` (relative to the first key; negative: from the end of the arguments), every
    /// `step`; with a `limit` above 1 only the first 1/limit of what remains.
    Range { last: i32, step: i32, limit: i32 },
    /// As many as the argument `count_at` (relative to the beginning) says, from `first` on
    /// (likewise relative).
    KeyNum { count_at: i32, first: i32, step: i32 },
    /// Cannot be told.
    Unknown,
}

/// Where keys are among the arguments, and what is done with them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    pub flags: KeyFlags,
    pub begin: Begin,
    pub find: Find,
    /// A remark for COMMAND INFO and DOCS.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `index`.
    pub const fn at(index: i32, flags: KeyFlags) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }

    /// Keys from argument `index` to `last` (relative to `index`, or negative from the end) every `step`.
    pub const fn range(index: i32, last: i32, step: i32, flags: KeyFlags) -> KeySpec {
        KeySpec { flags, begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }

    /// A key count at argument `index`, keys behind it.
    pub const fn counted(index: i32, flags: KeyFlags) -> KeySpec {
        let find = Find::KeyNum { count_at: 0, first: 1, step: 1 };
        KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
    }

    /// With a remark.
    pub const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }

    /// True if such keys may be changed.
    pub const fn writes(&self) -> bool {
        !self.flags.has(KeyFlags::RO)
    }
}

/// What of the keyspace a body needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The keys that its key specifications name (perhaps none).
    Keys,
    /// All keys of the database, for reading, at one moment.
    AllKeys,
    /// Nothing locked: the body walks shard by shard (SCAN) or touches no keys at a fixed moment.
    Walk,
    /// Everything, with the world stopped.
    World,
}

/// Number of arguments, the command's name included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    Exactly(u32),
    AtLeast(u32),
}

impl Arity {
    /// As COMMAND INFO has it: negative for a minimum.
    pub const fn number(self) -> i64 {
        match self {
            Arity::Exactly(count) => count as i64,
            Arity::AtLeast(count) => -(count as i64),
        }
    }

    /// True if `count` arguments are right.
    #[inline]
    pub const fn allows(self, count: usize) -> bool {
        match self {
            Arity::Exactly(exact) => count == exact as usize,
            Arity::AtLeast(least) => count >= least as usize,
        }
    }
}

/// The group a command is documented in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Bitmap,
    Cluster,
    Connection,
    Generic,
    Geo,
    Hash,
    HyperLogLog,
    List,
    /// Of types that stock servers have from modules.
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
    /// As COMMAND DOCS has it.
    pub const fn name(self) -> &'static str {
        match self {
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

/// Finds keys where specifications cannot: pairs of argument index and whether it is written.
pub type KeyFinder = fn(&[&[u8]]) -> Option<Vec<(usize, KeyFlags)>>;

/// Tells from a request's arguments what it does with its keys.
pub type KeyFlagsFinder = fn(&[&[u8]]) -> KeyFlags;

/// Whether an argument of a request (its index) is a secret.
pub type SecretFinder = fn(&[&[u8]], usize) -> bool;

/// Finds what of the keyspace a request needs.
pub type ScopeFinder = fn(&[&[u8]]) -> Scope;

/// What a command does with channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelAccess {
    Publish,
    Subscribe,
    Unsubscribe,
}

/// Which arguments are names of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelSpec {
    /// The first of them.
    pub first: usize,
    /// All arguments from there on; otherwise only the first.
    pub all: bool,
    /// They are patterns.
    pub patterns: bool,
    pub access: ChannelAccess,
}

impl ChannelSpec {
    /// The channels among the arguments of a request.
    pub fn find<'s, 'a>(&self, args: &'s [&'a [u8]]) -> &'s [&'a [u8]] {
        let end = if self.all { args.len() } else { self.first + 1 };
        args.get(self.first..end).unwrap_or_default()
    }
}

/// Everything about a command. Built by chaining, in a `const`.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Lower case; a subcommand's own name without its parent's.
    pub name: &'static str,
    /// Has subcommands and no body of its own.
    pub is_container: bool,
    pub arity: Arity,
    pub flags: Flags,
    pub behavior: Behavior,
    /// Categories beyond those that follow from flags and group.
    pub extra_categories: Category,
    pub keys: &'static [KeySpec],
    pub key_finder: Option<KeyFinder>,
    /// What a request really does with its keys, where the specifications only state the most it
    /// may do (`VARIABLE_FLAGS`).
    pub exact_key_flags: Option<KeyFlagsFinder>,
    /// Which arguments are secrets, not to be shown in logs.
    pub secrets: Option<SecretFinder>,
    /// Which arguments are names of channels; permissions are checked by it.
    pub channels: Option<ChannelSpec>,
    pub scope: Scope,
    /// Tells from the arguments that a request needs less than `scope`.
    pub scope_finder: Option<ScopeFinder>,
    pub group: Group,
    pub since: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// Arguments in the notation of `syntax.rs`.
    pub syntax: &'static str,
    /// Pairs of version and change.
    pub history: &'static [(&'static str, &'static str)],
    /// Hints for clients and proxies (COMMAND INFO's tips).
    pub tips: &'static [&'static str],
    /// Version since which it is deprecated, and what to use instead.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Tells of a request whether its keys are locked exclusively though their flags are `RO`:
    /// stock servers mark what changes only a stream's groups as reading, and a client that may
    /// have to wait stands in a queue beside the key.
    pub locks_exclusively: Option<RequestTest>,
    /// Not in the ACL category of its group (SORT works on three types and is in the categories of those).
    pub ungrouped: bool,
    /// What of the command is not supported yet, for the compatibility page; empty if all of it works.
    pub unsupported: &'static str,
}

impl Spec {
    /// The specification of a command that takes any arguments and no keys, and does nothing special.
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
            channels: None,
            locks_exclusively: None,
            scope: Scope::Keys,
            scope_finder: None,
            group,
            since: "1.0.0",
            summary: "",
            complexity: "",
            syntax: "",
            history: &[],
            tips: &[],
            deprecated: None,
            ungrouped: false,
            unsupported: "",
        }
    }

    /// The specification of a command that only has subcommands.
    pub const fn container(name: &'static str, group: Group) -> Spec {
        let mut spec = Spec::new(name, group);
        spec.is_container = true;
        spec.arity = Arity::AtLeast(2);
        spec
    }

    /// Exactly so many arguments, the name (and a subcommand's) included.
    pub const fn exactly(mut self, count: u32) -> Spec {
        self.arity = Arity::Exactly(count);
        self
    }

    /// At least so many arguments, the name (and a subcommand's) included.
    pub const fn at_least(mut self, count: u32) -> Spec {
        self.arity = Arity::AtLeast(count);
        self
    }

    pub const fn flags(mut self, flags: Flags) -> Spec {
        self.flags = flags;
        self
    }

    /// Adds to how the command is treated.
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

    /// A function that finds the keys where specifications cannot.
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

    /// True if requests name keys.
    pub const fn has_keys(&self) -> bool {
        !self.keys.is_empty() || self.key_finder.is_some()
    }

    /// Names the arguments that are channels.
    pub const fn channels(mut self, channels: ChannelSpec) -> Spec {
        self.channels = Some(channels);
        self
    }

    /// True for commands that tell of each subscription by a push of its own instead of a reply.
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

    /// A function that finds what a request needs, where not all need the same; [`Spec::scope`] is the most.
    pub const fn find_scope(mut self, finder: ScopeFinder) -> Spec {
        self.scope_finder = Some(finder);
        self
    }

    /// What of the keyspace a request needs.
    #[inline]
    pub fn scope_of(&self, args: &[&[u8]]) -> Scope {
        self.scope_finder.map_or(self.scope, |finder| finder(args))
    }

    /// Documentation: first version, one sentence, complexity.
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

    /// All ACL categories: those that follow from flags and group, and the extra ones.
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
        // A scripting command that only reads is not a read of the keyspace by itself.
        if self.flags.has(Flags::READONLY) && self.group != Group::Scripting {
            all = all | Category::READ;
        }
        if !self.flags.has(Flags::FAST) {
            all = all | Category::SLOW;
        }
        // Containers are nothing by themselves; their subcommands belong to the group.
        if self.is_container {
            return all;
        }
        let by_group = match self.group {
            _ if self.ungrouped => Category::NONE,
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
