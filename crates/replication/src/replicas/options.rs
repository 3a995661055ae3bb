// SPDX-License-Identifier: BSD-3-Clause
//! What a replica asks for before it is sent anything.

/// Which parts of the dataset a full sync has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    pub keys: bool,
    pub functions: bool,
}

/// What a replica says before it asks for changes (REPLCONF).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaOptions {
    /// The port that it listens on; 0 if it did not say.
    pub port: u16,
    /// Its address, if it is another one than that of the connection.
    pub ip: String,
    /// It finds the end of a full sync by a mark.
    pub eof: bool,
    /// It takes a new replication ID with `+CONTINUE`.
    pub psync2: bool,
    /// It takes everything compressed ([`crate::blocks`]).
    pub compressed: bool,
    /// It wants a full sync and no changes.
    pub rdb_only: bool,
    pub filter: Filter,
}

impl Filter {
    /// All of it.
    pub const ALL: Filter = Filter { keys: true, functions: true };
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        let filter = Filter::ALL;
        let (eof, psync2, compressed, rdb_only) = (false, false, false, false);
        ReplicaOptions { port: 0, ip: String::new(), eof, psync2, compressed, rdb_only, filter }
    }
}
