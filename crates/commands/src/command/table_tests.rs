// SPDX-License-Identifier: BSD-3-Clause
//! Checks every row of every family against Redis 7.2, and generates the compatibility page from
//! both.
//!
//! `testdata/redis-7.2-commands.tsv` holds a stock server's replies to COMMAND and COMMAND DOCS, a
//! line for each command and subcommand: name, arity, flags, key positions, categories, tips,
//! group, since, deprecated since, key specifications, arguments in the notation of `syntax.rs`,
//! complexity. Empty fields are hyphens.

use std::collections::BTreeMap;
use std::fmt::Write;

use braid_spec::spec::Spec;
use braid_spec::{Begin, Command, Find, Flags, KeySpec, absent, syntax};

use super::describe::{Positions, command_flags};
use crate::rows;

const STOCK: &str = include_str!("../../testdata/redis-7.2-commands.tsv");

/// Commands that take more arguments than in Redis 7.2, or do more with keys: their arguments,
/// arity and key specifications differ on purpose.
const EXTENDED: &[&str] = &[
    "bitcount",
    "bitop",
    "client|kill",
    "failover",
    "geosearch",
    "geosearchstore",
    "hscan",
    "move",
    "set",
    "shutdown",
    "xadd",
    "xread",
    "xreadgroup",
    "xtrim",
    "zinter",
    "zinterstore",
    "zunion",
    "zunionstore",
];

/// Commands that are answered during loading, as in Valkey 9.
const ALSO_WHILE_LOADING: &[&str] = &["cluster|info", "cluster|myid", "cluster|myshardid", "cluster|nodes"];

/// Commands that have the flags of Redis 8 and Valkey: they block, and scripts may call them.
const BLOCKING_SINCE_8: &[&str] = &["wait", "waitaof"];

/// Commands whose destination is only written to, as since Redis 8 and in Valkey.
const OVERWRITES_SINCE_8: &[&str] = &["sinterstore"];

/// Complexities longer than this are prose, which rows phrase in their own words.
const PROSE_LEN_MIN: usize = 90;

struct Stock<'a> {
    arity: &'a str,
    flags: &'a str,
    positions: &'a str,
    categories: &'a str,
    tips: &'a str,
    group: &'a str,
    since: &'a str,
    deprecated: &'a str,
    keys: &'a str,
    syntax: &'a str,
    complexity: &'a str,
}

fn stock() -> BTreeMap<&'static str, Stock<'static>> {
    let rows = STOCK.lines().map(|line| {
        let mut columns = line.split('\t').map(|column| if column == "-" { "" } else { column });
        let mut next = || columns.next().unwrap_or_else(|| panic!("too few columns: {line}"));
        let name = next();
        let row = Stock {
            arity: next(),
            flags: next(),
            positions: next(),
            categories: next(),
            tips: next(),
            group: next(),
            since: next(),
            deprecated: next(),
            keys: next(),
            syntax: next(),
            complexity: next(),
        };
        assert_eq!(columns.next(), None, "too many columns: {line}");
        (name, row)
    });
    rows.collect()
}

/// A key specification without its notes.
pub(super) fn key_text(key: &KeySpec) -> String {
    let flags: Vec<&str> = key.flags.names().collect();
    let begin = match key.begin {
        Begin::Index(index) => index.to_string(),
        Begin::Keyword { word, from } => format!("{word}^{from}"),
        Begin::Unknown => "?".to_owned(),
    };
    let find = match key.find {
        Find::Range { last, step, limit } => format!("range:{last}:{step}:{limit}"),
        Find::KeyNum { count_at, first, step } => format!("keynum:{count_at}:{first}:{step}"),
        Find::Unknown => "?".to_owned(),
    };
    format!("{}@{begin}@{find}", flags.join("+"))
}

/// Records every fact in which a row differs.
fn compare(command: &Command, stock: &Stock<'_>, faults: &mut String) {
    let spec: &Spec = command.spec;
    let name = &command.full_name;
    let mut fact = |what: &str, ours: &str, theirs: &str| {
        if ours != theirs {
            let _ = writeln!(faults, "{name}: {what} is '{ours}', stock has '{theirs}'");
        }
    };
    let added = |flag: &&str| *flag == "loading" && ALSO_WHILE_LOADING.contains(&&**name);
    let flags: Vec<&str> = command_flags(spec).filter(|flag| !added(flag)).collect();
    let mut categories: Vec<&str> = spec.categories_all().names().collect();
    if BLOCKING_SINCE_8.contains(&&**name) {
        fact("flags", &flags.join(","), "blocking");
        categories.retain(|category| *category != "blocking");
    } else {
        fact("flags", &flags.join(","), stock.flags);
    }
    fact("categories", &categories.join(","), stock.categories);
    fact("tips", &spec.tips.join(","), stock.tips);
    fact("group", spec.group.name(), stock.group);
    fact("since", spec.since, stock.since);
    fact("deprecated", spec.deprecated.map_or("", |(since, _)| since), stock.deprecated);
    if stock.complexity.len() < PROSE_LEN_MIN {
        fact("complexity", spec.complexity, stock.complexity);
    }
    if EXTENDED.contains(&&**name) {
        return;
    }
    fact("arity", &spec.arity.number().to_string(), stock.arity);
    let keys = spec.keys.iter().map(key_text).collect::<Vec<_>>().join(" ");
    let overwrites = OVERWRITES_SINCE_8.contains(&&**name);
    fact("keys", &if overwrites { keys.replace("OW+", "RW+") } else { keys }, stock.keys);
    let Positions { first, last, step, .. } = Positions::of(spec.keys);
    fact("positions", &format!("{first},{last},{step}"), stock.positions);
    match (syntax::parse(spec.syntax), syntax::parse(stock.syntax)) {
        (Ok(ours), Ok(theirs)) if ours == theirs => {}
        (Ok(_), Ok(_)) => fact("syntax", spec.syntax, stock.syntax),
        (Err(error), _) | (_, Err(error)) => fact("syntax", &error, "a valid text"),
    }
}

/// Reports all differences in one list, so that a single run is enough.
#[test]
fn every_row_matches_stock_servers() {
    let (stock, table) = (stock(), rows().table);
    let mut faults = String::new();
    for command in table.all() {
        if let Some(stock) = stock.get(&*command.full_name) {
            compare(command, stock, &mut faults);
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// Configurations that stock servers accept may name any stock command in ACL rules and in
/// `rename-command`.
#[test]
fn every_stock_command_is_known() {
    let table = rows().table;
    let stock = stock();
    let unknown: Vec<&str> =
        stock.keys().copied().filter(|name| table.find_full(name.as_bytes()).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_row_is_documented_in_its_own_words() {
    for command in rows().table.all() {
        let spec = command.spec;
        let name = &command.full_name;
        assert!(spec.summary.ends_with('.') && spec.summary.is_ascii(), "{name}: '{}'", spec.summary);
        if let Err(error) = syntax::parse(spec.syntax) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn the_notation_holds_every_stock_command() {
    let stock = stock();
    assert_eq!(stock.len(), 370);
    for (name, row) in &stock {
        if let Err(error) = syntax::parse(row.syntax) {
            panic!("{name}: {error}");
        }
    }
}

/// The page: the supported part of Redis 7.2, by group.
fn page() -> String {
    let (stock, table) = (stock(), rows().table);
    let known = |name: &str| table.all().iter().find(|command| command.full_name == name);
    let mut text = String::from(
        "# Compatibility\n\n\
         <!-- Made from the command rows. Do not edit: BLESS=1 cargo test -p braid-commands compatibility -->\n\n\
         Braid follows Redis 7.2: names, arguments, replies, errors and what COMMAND says of each command. The tables list every\n\
         command and subcommand of Redis 7.2, and the commands that came later elsewhere and are here too. The version that INFO and HELLO \
         report is 7.2.4; the directive `redis-version` sets another one for clients that decide by it.\n\n\
         Where Redis and Valkey give one name to different commands, Braid has Redis's, and options of Valkey's that do not contradict:\n\
         INCREX replies with the value and the amount that was added, and knows `NX` and `XX`.\n\n\
         BITRANGEINTARRAY, BLESS and HIMPORT follow redis.io's pages of Redis 8.10 and 8.12. Those do not say everything; here LIMIT of\n\
         BITRANGEINTARRAY is at least 1, a protection (BLESS SET) stays when the value is replaced, goes where RENAME and MOVE take the\n\
         value, is not copied by COPY, and is no part of a DUMP; and the field sets of a connection take at most a mebibyte.\n\n\
         Files and replicas get these newer commands in forms that every server since 6.2 repeats. Stock servers lack the names of a stream's \
         entries then (XADD with IDMP), and entries released by XNACK belong to a consumer without a name there. HIMPORT SET is HSET there, and a stock replica refuses BLESS,\n\
         without which it has the same data.\n\n",
    );
    let here: Vec<&Command> = stock.keys().filter_map(|name| known(name)).collect();
    let unsupported = here.iter().filter(|command| !command.spec.unsupported.is_empty()).count();
    let _ = writeln!(
        text,
        "Known to ACL rules, `rename-command` and COMMAND: {} of {}. Supported: {}; the rest says \"not yet\" below, \
         with what it answers.\n",
        here.len(),
        stock.len(),
        here.len() - unsupported
    );
    text.push_str(
        "## What is absent\n\n\
         | absent | found in |\n|---|---|\n\
         | modules: `loadmodule` and MODULE LOAD are refused | Redis, Valkey, KeyDB |\n",
    );
    for family in absent::FAMILIES {
        let _ = writeln!(text, "| {}: {} | {} |", family.title, family.commands(), family.from);
    }
    text.push_str(
        "| CLUSTER FLUSHSLOT | Valkey 9.1 |\n\
         | hashes that share the names of their fields (compact hashes): HIMPORT makes hashes as others \
         ([why](design/036-names-of-fields.md)) | Redis 8.10 |\n\
         | compressed bitmaps: BITRANGEINTARRAY reads strings | Redis 8.12 |\n\
         | the section Keysizes of INFO, unless it is asked for by name (`INFO keysizes`) | Redis 8 |\n\
         | the cluster bus: nodes agree through etcd ([cluster.md](cluster.md)), and stock nodes cannot join | Redis, Valkey |\n\n\
         An error for an unknown command of these families says so. Directives without effect are marked in\n\
         [configuration.md](configuration.md).\n\n",
    );
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, row) in &stock {
        groups.entry(row.group).or_default().push(name);
    }
    for (group, names) in &groups {
        let _ = writeln!(text, "## {group}\n\n| command | since | state |\n|---|---|---|");
        for name in names {
            let state = match known(name) {
                Some(command) if !command.spec.unsupported.is_empty() => {
                    format!("not yet: {}", command.spec.unsupported)
                }
                Some(_) if EXTENDED.contains(name) => "yes, with more options".to_owned(),
                Some(_) => "yes".to_owned(),
                None => "not yet".to_owned(),
            };
            let _ = writeln!(text, "| {} | {} | {state} |", written(name), stock[name].since);
        }
        text.push('\n');
    }
    let newer: Vec<&Command> =
        table.all().iter().filter(|command| !stock.contains_key(&*command.full_name)).collect();
    if !newer.is_empty() {
        let _ = writeln!(text, "## Beyond Redis 7.2\n\n| command | since | what it does |\n|---|---|---|");
        for command in newer {
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                written(&command.full_name),
                command.spec.since,
                command.spec.summary
            );
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

fn written(name: &str) -> String {
    name.replace('|', " ").to_ascii_uppercase()
}

#[test]
fn compatibility_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let present = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        present == page,
        "docs/compatibility.md differs from the rows; renew it: BLESS=1 cargo test -p braid-commands compatibility"
    );
}

/// Replies of containers with a subcommand that reads or writes data wait for synchronous replicas
/// (`dispatch/data.rs`). Those of CLUSTER must not: they are needed when members are missing.
#[test]
fn no_cluster_subcommand_reads_or_writes_data() {
    let tester = crate::testing::Tester::new();
    let data = Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE;
    let touches = |command: &&Command| command.spec.flags.any(data);
    let of_cluster = |command: &&Command| command.full_name.starts_with("cluster|");
    let found: Vec<&str> = tester
        .engine
        .commands
        .all()
        .iter()
        .filter(of_cluster)
        .filter(touches)
        .map(|command| &*command.full_name)
        .collect();
    assert!(found.is_empty(), "{found:?}");
}
