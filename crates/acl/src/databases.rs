// SPDX-License-Identifier: BSD-3-Clause
//! Permissions on databases: the rules `alldbs`, `resetdbs` and `db=0,1`, as in Valkey 9.1.

use braid_base::number::parse_i64;
use braid_spec::{Category, Command, UsedDatabases};

/// The database in which a request runs, and the number of databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InDatabase {
    pub current: u32,
    pub count: u32,
}

/// The databases that a selector may use.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) enum Databases {
    #[default]
    All,
    /// In ascending order.
    Only(Vec<u32>),
}

impl Databases {
    /// These databases.
    pub fn only(mut allowed: Vec<u32>) -> Databases {
        allowed.sort_unstable();
        allowed.dedup();
        Databases::Only(allowed)
    }

    pub fn allow(&self, database: u32) -> bool {
        match self {
            Databases::All => true,
            Databases::Only(allowed) => allowed.binary_search(&database).is_ok(),
        }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The index of the argument that names a forbidden database; 0 if the forbidden one is the
    /// current one, or one of all those that the command uses.
    pub fn check(&self, command: &Command, args: &[&[u8]], place: InDatabase) -> Result<(), usize> {
        if *self == Databases::All {
            return Ok(());
        }
        let current = |is_used: bool| if is_used && !self.allow(place.current) { Err(0) } else { Ok(()) };
        match command.spec.databases {
            UsedDatabases::Current => current(uses_data(command)),
            UsedDatabases::All => {
                if (0..place.count).all(|one| self.allow(one)) {
                    Ok(())
                } else {
                    Err(0)
                }
            }
            UsedDatabases::Named(find) => {
                let number = |at: usize| {
                    parse_i64(args.get(at)?)
                        .and_then(|number| u32::try_from(number).ok())
                        .filter(|one| *one < place.count)
                };
                let named: Option<Vec<(usize, u32)>> =
                    find(args).into_iter().map(|at| number(at).map(|number| (at, number))).collect();
                // A request with an invalid number fails without reaching a database.
                let named = named.unwrap_or_default();
                match named.into_iter().find(|(_, number)| !self.allow(*number)) {
                    Some((at, _)) => Err(at),
                    None => current(command.spec.has_keys()),
                }
            }
        }
    }

    /// The rule, as in ACL GETUSER: empty without any database.
    pub fn rule(&self) -> String {
        match self {
            Databases::All => "alldbs".into(),
            Databases::Only(allowed) if allowed.is_empty() => String::new(),
            Databases::Only(allowed) => {
                let numbers: Vec<String> = allowed.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }
}

/// True if a command reads or writes the current database.
fn uses_data(command: &Command) -> bool {
    let categories = command.spec.categories_all();
    command.spec.has_keys()
        || [Category::KEYSPACE, Category::READ, Category::WRITE].iter().any(|&one| categories.has(one))
}
