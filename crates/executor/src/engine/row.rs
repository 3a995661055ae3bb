// SPDX-License-Identifier: BSD-3-Clause
//! Rows of command families: a specification, the body, and the rows of subcommands.
//!
//! A family's file is a list of rows, built by chaining in a `const`. Everything but the body is in
//! the [`Spec`].

use braid_keyspace::txn::KeyRef;
use braid_spec::spec::{
    Behavior, Category, ChannelSpec, Flags, Group, KeyFinder, KeyFlagsFinder, KeySpec, RequestTest, Scope,
    ScopeFinder, SecretFinder, Spec, UsedDatabases,
};
use braid_spec::{Command, CommandResult, CommandTable, table};

use crate::engine::Engine;
use crate::engine::call::Call;
use crate::engine::request::Request;

/// A command's body.
pub type Handler = fn(&mut Call) -> CommandResult;

/// The flags that a request declares in place of its command's (WRITE, DENYOOM and STALE); `None`
/// if it declares none.
pub type Declared = fn(&Engine, &[&[u8]]) -> Option<Flags>;

/// Executes a request without a lock and replies. False if it needs the lock; then nothing is done,
/// but what the body can find may be left for it (`ahead.rs`).
pub type LockFree = fn(&mut Request<'_>, &KeyRef<'_>) -> bool;

/// Implementation of a command.
#[derive(Clone, Copy)]
pub struct Body {
    pub run: Handler,
    /// Reads the flags that a request declares, which are more exact than the command's; for
    /// scripts.
    pub declares: Option<Declared>,
    /// Lock-free implementation, for commands with one key. Tried first, for requests of clients
    /// outside of transactions and scripts.
    pub lock_free: Option<LockFree>,
}

/// A command: specification and body.
#[derive(Clone, Copy)]
pub struct Row {
    pub spec: Spec,
    /// `None` for containers.
    pub body: Option<Body>,
    pub subcommands: &'static [Row],
}

impl table::Row for Row {
    fn spec(&'static self) -> &'static Spec {
        &self.spec
    }

    fn subcommands(&'static self) -> &'static [Row] {
        self.subcommands
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $kind:ty),*);)*) => {
        $(
            #[doc = concat!("See [`Spec::", stringify!($name), "`].")]
            pub const fn $name(mut self, $($arg: $kind),*) -> Row {
                self.spec = self.spec.$name($($arg),*);
                self
            }
        )*
    };
}

impl Row {
    /// A command with a body.
    pub const fn new(name: &'static str, group: Group, run: Handler) -> Row {
        Row {
            spec: Spec::new(name, group),
            body: Some(Body { run, declares: None, lock_free: None }),
            subcommands: &[],
        }
    }

    /// A command that only has subcommands.
    pub const fn container(name: &'static str, group: Group, subcommands: &'static [Row]) -> Row {
        Row { spec: Spec::container(name, group), body: None, subcommands }
    }

    /// Adds subcommands to a command that also has a body of its own (COMMAND).
    pub const fn with_subcommands(mut self, subcommands: &'static [Row]) -> Row {
        self.subcommands = subcommands;
        self
    }

    /// See [`Body::declares`].
    pub const fn declares(mut self, read: Declared) -> Row {
        if let Some(body) = &mut self.body {
            body.declares = Some(read);
        }
        self
    }

    /// See [`Body::lock_free`].
    pub const fn lock_free(mut self, read: LockFree) -> Row {
        if let Some(body) = &mut self.body {
            body.lock_free = Some(read);
        }
        self
    }

    forward! {
        exactly(count: u32);
        at_least(count: u32);
        flags(flags: Flags);
        behavior(behavior: Behavior);
        categories(categories: Category);
        keys(keys: &'static [KeySpec]);
        find_keys(finder: KeyFinder);
        exact_key_flags(finder: KeyFlagsFinder);
        secrets(finder: SecretFinder);
        databases(databases: UsedDatabases);
        channels(channels: ChannelSpec);
        locks_exclusively(locks: RequestTest);
        scope(scope: Scope);
        find_scope(finder: ScopeFinder);
        docs(since: &'static str, summary: &'static str, complexity: &'static str);
        syntax(syntax: &'static str);
        in_redis(since: &'static str, syntax: &'static str);
        history(history: &'static [(&'static str, &'static str)]);
        tips(tips: &'static [&'static str]);
        deprecated(since: &'static str, instead: &'static str);
        ungrouped();
        unsupported(what: &'static str);
    }
}

/// All commands: the table, and the bodies by command id.
#[derive(Clone)]
pub struct Rows {
    pub table: CommandTable,
    /// By command id.
    bodies: Box<[Option<Body>]>,
}

impl Rows {
    /// Builds the table from families of rows.
    pub fn new(families: &[&'static [Row]]) -> Rows {
        let (table, rows) = CommandTable::new(families);
        Rows { table, bodies: rows.into_iter().map(|row| row.body).collect() }
    }

    /// The body of a command that is not a container.
    #[inline]
    pub(crate) fn body_of(&self, command: &Command) -> Handler {
        self.bodies[command.id as usize].expect("containers are resolved to their subcommands").run
    }

    /// The function that reads a request's declared flags, if the command has one; see
    /// [`Body::declares`].
    pub(crate) fn declares_of(&self, command: &Command) -> Option<Declared> {
        self.bodies[command.id as usize].and_then(|body| body.declares)
    }

    /// The command's lock-free implementation, if it has one.
    #[inline]
    pub(crate) fn lock_free_of(&self, command: &Command) -> Option<LockFree> {
        self.bodies[command.id as usize].and_then(|body| body.lock_free)
    }
}

impl std::ops::Deref for Rows {
    type Target = CommandTable;

    #[inline]
    fn deref(&self) -> &CommandTable {
        &self.table
    }
}
