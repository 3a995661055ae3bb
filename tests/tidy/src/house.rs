// SPDX-License-Identifier: BSD-3-Clause
//! The layout that the rules enforce: the floors, and which files may touch what. This is the
//! only place to change it, and always together with docs/architecture.md.

/// Floors from the bottom up. A crate may depend on crates of lower floors and on those to its
/// left.
pub const FLOORS: [&[&str]; 9] = [
    &["base"],
    &["resp", "containers", "vectors", "net", "client", "journal", "etcd", "group"],
    &["config", "rdb", "keyspace", "active", "search"],
    &["persistence", "values", "spec", "scripting"],
    &["clients", "notify", "telemetry", "acl", "replication", "feed", "process"],
    &["executor"],
    &["types", "durable", "replica", "cluster-node", "active-node", "search-node", "node"],
    &["commands"],
    &["metrics", "threading", "server", "check", "bench", "top", "cluster"],
];

/// Crates, folders and files that may use `std::fs`, as path prefixes.
pub const FILE_ACCESS: [&str; 14] = [
    "crates/bench/",
    "crates/check/",
    "crates/client/",
    "crates/config/",
    "crates/persistence/",
    "crates/server/",
    "crates/top/",
    // Certificates and Unix sockets.
    "crates/net/",
    // The kernel's view of this process.
    "crates/base/src/process_title.rs",
    "crates/commands/src/server/system.rs",
    "crates/process/src/memory.rs",
    "crates/process/src/oom_score.rs",
    // The ACL file.
    "crates/acl/src/file.rs",
    // Builds Lua.
    "crates/scripting/build/",
];

/// Files and folders that may take shard locks, or stop the world.
pub const LOCK_TAKERS: [&str; 6] = [
    "crates/base/src/gate.rs",
    "crates/base/src/lock.rs",
    // Transactions, walks, expiry and eviction belong to the keyspace itself.
    "crates/keyspace/src/",
    // For all code above the keyspace.
    "crates/executor/src/locks.rs",
    // Stops the world for services and loops.
    "crates/executor/src/world.rs",
    // Loading threads have shards of their own.
    "crates/persistence/src/load/",
];

/// Methods that take shard locks or stop the world.
pub const LOCK_METHODS: [&str; 4] = ["lock_exclusive", "lock_shared", "stop_world", "stop_world_unless_busy"];

/// Functions of `Txn` that take shard locks.
pub const LOCK_FUNCTIONS: [&str; 4] = ["lock", "lock_all_shared", "lock_shard_exclusive", "world"];

/// Files and folders that may open a connection to another server.
pub const CONNECTION_OPENERS: [&str; 2] = ["crates/net/src/", "crates/process/src/connector.rs"];

/// Files and folders that must not recognise a command by its name: dispatcher, loops, scripts,
/// services. Readers of files know the words of their formats, and active-active replication still
/// translates requests.
pub const NAMELESS: [&str; 15] = [
    "crates/executor/src/dispatch.rs",
    "crates/executor/src/dispatch/",
    "crates/executor/src/blocking.rs",
    "crates/executor/src/blocking/",
    "crates/executor/src/locks.rs",
    "crates/executor/src/session.rs",
    "crates/executor/src/transaction.rs",
    "crates/replica/src/",
    "crates/durable/src/",
    "crates/cluster-node/src/slot_moves/",
    "crates/cluster-node/src/group/",
    "crates/cluster-node/src/forwarding/",
    "crates/node/src/",
    "crates/threading/src/",
    "crates/scripting/src/",
];

/// Maximum lines of a Rust file.
pub const FILE_LINES: usize = 800;
/// Maximum lines of a function, including its signature.
pub const FUNCTION_LINES: usize = 100;
/// Maximum columns of a comment line.
pub const COMMENT_COLUMNS: usize = 100;

/// The files of the root folder.
pub const ROOT_FILES: [&str; 16] = [
    ".dockerignore",
    ".editorconfig",
    // In a linked work tree.
    ".git",
    ".gitignore",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "braid.conf",
    "deny.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// Words that no identifier below `crates/` has, and the field's word for each meaning that they
/// had.
pub const WORDS: [(&str, &str); 16] = [
    ("calm", "fast path"),
    ("crew", "pool of workers"),
    ("fed", "is a replica; check the replica link"),
    ("heeded", "wakes on delete"),
    ("heeds", "wakes on delete"),
    ("linger", "track for the cron"),
    ("news", "wake-up, event"),
    ("seat", "session"),
    ("settle", "finish a change, flush, join, on an outcome, drain"),
    ("settled", "finished, complete, final, synced"),
    ("taker", "pull, reader, peer"),
    ("tend", "on a tick; release"),
    ("trouble", "last error"),
    ("unsettled", "expired hold"),
    ("wish", "options, request"),
    ("wishes", "requests"),
];

/// Identifiers of libraries with such a word: the socket option `SO_LINGER`.
pub const OF_LIBRARIES: [&str; 1] = ["set_linger"];

/// Identifiers that are not used as a whole, although the word may be part of others.
pub const NAMES: [(&str, &str); 12] = [
    ("Asked", "admission context"),
    ("Former", "previous process, obsolete files, demoted clients"),
    ("Hand", "worker"),
    ("Helper", "worker"),
    ("Look", "borrowed or owned"),
    ("Me", "local identity"),
    ("Place", "key, position, span"),
    ("Question", "pull request"),
    ("Room", "pressure, limit, reservation"),
    ("Said", "rejected"),
    ("Told", "peer status"),
    ("come_in", "reenter the gate"),
];
