// SPDX-License-Identifier: BSD-3-Clause
//! Invalid users, and partly valid files.

use std::sync::Arc;

use braid_config::Config;

use braid_clients::attention::{Attention, PAUSED};
use braid_clients::{Mailboxes, Registry};
use braid_notify::Hub;
use braid_spec::spec::Spec;
use braid_spec::table::{CommandTable, Row};
use braid_spec::{CommandError, Group};

use crate::log::{AclLog, Event, Origin, Reason};
use crate::rules::{RuleError, merge_selectors};
use crate::{Acl, Server};

struct Rows(Spec, &'static [Rows]);

impl Row for Rows {
    fn spec(&'static self) -> &'static Spec {
        &self.0
    }

    fn subcommands(&'static self) -> &'static [Rows] {
        self.1
    }
}

const SUBCOMMANDS: &[Rows] =
    &[Rows(Spec::new("get", Group::Server), &[]), Rows(Spec::new("set", Group::Server), &[])];
const COMMANDS: &[Rows] = &[
    Rows(Spec::container("config", Group::Server), SUBCOMMANDS),
    Rows(Spec::new("get", Group::String), &[]),
    Rows(Spec::new("select", Group::Connection), &[]),
];

struct Engine {
    acl: Acl,
    commands: CommandTable,
    config: Config,
    attention: Attention,
    clients: Registry,
    hub: Hub,
}

impl Engine {
    fn server(&self) -> Server<'_> {
        let Engine { commands, config, attention, clients, hub, .. } = self;
        Server { commands, config, attention, clients, hub }
    }

    fn set_user(&self, name: &[u8], rules: &[&str]) -> Result<(), CommandError> {
        self.acl.set_user(self.server(), name, rules)
    }
}

fn engine(settings: &str) -> Engine {
    let config = Config::new();
    config.load_text(&format!("io-threads 1\nshards 16\n{settings}\n")).unwrap();
    let (commands, _) = CommandTable::new(&[COMMANDS]);
    Engine {
        acl: Acl::new(&config, &commands),
        commands,
        config,
        attention: Attention::default(),
        clients: Registry::default(),
        hub: Hub::new(&Arc::new(Mailboxes::new(1))),
    }
}

fn describe(engine: &Engine, name: &str) -> String {
    String::from_utf8(engine.acl.user(name.as_bytes()).unwrap().describe()).unwrap()
}

#[test]
fn a_fault_changes_nothing() {
    let engine = engine("");
    engine.set_user(b"u", &["on", "nopass", "~a"]).unwrap();
    let before = describe(&engine, "u");
    assert_eq!(before, "user u on nopass sanitize-payload ~a resetchannels -@all");
    let generation = engine.attention.generation();
    for rules in [&["off", "+nosuch"][..], &["off", "("], &["off", "%X~a"], &["off", "~* "], &["<x"]] {
        assert!(engine.set_user(b"u", rules).is_err(), "{rules:?}");
        assert!(engine.set_user(b"new", rules).is_err(), "{rules:?}");
    }
    assert_eq!(describe(&engine, "u"), before);
    assert!(engine.acl.user(b"new").is_none());
    assert_eq!(engine.attention.generation(), generation);
}

#[test]
fn a_change_moves_the_generation_and_leaves_states_alone() {
    let engine = engine("");
    engine.attention.set(PAUSED, true);
    let generation = engine.attention.generation();
    engine.set_user(b"u", &["on"]).unwrap();
    assert_ne!(engine.attention.generation(), generation);
    assert_eq!(engine.attention.get(), PAUSED);
}

#[test]
fn definitions_of_a_configuration() {
    let engine = engine("requirepass x");
    let lines = |texts: &[&str]| -> Vec<Vec<String>> {
        texts.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    };
    let define = |texts: &[&str]| engine.acl.define_users(engine.server(), &lines(texts));
    assert_eq!(
        define(&["a on", "b on", "a off"]).unwrap_err(),
        (2, format!("Error in user declaration 'a': {}", RuleError::Duplicate))
    );
    assert_eq!(
        define(&["c on >secret #12"]).unwrap_err().1,
        format!("Error in user declaration '#12': {}", RuleError::NoHash)
    );
    assert!(!define(&["c on <secret"]).unwrap_err().1.contains("secret"));
    define(&["default on nopass ~* +@all -config (~x +get )"]).unwrap();
    assert_eq!(
        describe(&engine, "default"),
        "user default on nopass sanitize-payload ~* resetchannels +@all -config (~x resetchannels -@all +get)"
    );
    assert_eq!(engine.acl.default_user().identity.number, 0);
}

#[test]
fn acl_file_is_loaded_atomically() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let engine = engine(&format!("aclfile {}", path.display()));
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        engine.acl.load_file(engine.server(), 0)
    };
    load("\nuser a on (+get ~rw*)\r\n\nuser b on >p +@all").unwrap();
    assert_eq!(engine.acl.users().len(), 3);
    let a = engine.acl.user(b"a").unwrap();
    for (text, part) in [
        ("user a on\nuser a on\n", "Duplicate user 'a' found on line 2."),
        ("a on\n", ":1 should start with user keyword followed by the username."),
        ("user a +nosuch\n", "1: Error in applying operation '+nosuch': Unknown command"),
        ("user a (+get\n", ":1: Unmatched parenthesis in selector definition."),
        ("user c on\nuser a #x\n", ":2: The password hash must be exactly 64"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(error.ends_with("no change to the previously active ACL rules was performed"), "{error}");
    }
    assert_eq!(*engine.acl.user(b"a").unwrap().identity, *a.identity);
    engine.acl.save_file(&engine.config).unwrap();
    let saved = std::fs::read_to_string(&path).unwrap();
    load(&saved).unwrap();
    engine.acl.save_file(&engine.config).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), saved);
    assert!(saved.contains(
        "\nuser b on sanitize-payload #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 "
    ));
    // A user that the file still has stays the same one, with the file's rules.
    let b = engine.acl.user(b"b").unwrap();
    load("user a on +select").unwrap();
    assert_eq!(engine.acl.current(&a.identity).unwrap().root().command_rules(), b"-@all +select");
    assert!(engine.acl.current(&b.identity).is_none());
    assert!(engine.acl.current(&engine.acl.default_user().identity).is_some());
}

#[test]
fn selectors_are_put_together() {
    let merge = |text: &str| merge_selectors(&text.split(',').collect::<Vec<_>>());
    assert_eq!(merge("on,(+a,~b ),x").unwrap(), [&b"on"[..], b"(+a ~b )", b"x"]);
    assert_eq!(merge("(a,(b,c)").unwrap(), [b"(a (b c)"]);
    assert_eq!(merge("a,(b,c").unwrap_err(), b"(b");
}

#[test]
fn alike_events_are_one_entry() {
    let event = |object: &str| Event {
        reason: Reason::Key,
        origin: Origin::TopLevel,
        object: object.into(),
        user: b"u".to_vec(),
        client: Vec::new(),
    };
    let log = AclLog::default();
    log.push(event("a"), 1000, 3);
    log.push(event("b"), 2000, 3);
    log.push(event("a"), 61_000, 3);
    let seen: Vec<_> = log.latest(9).iter().map(|entry| (entry.id, entry.count, entry.created_ms)).collect();
    assert_eq!(seen, [(0, 2, 1000), (1, 1, 2000)]);
    // Too far apart to be grouped.
    log.push(event("a"), 121_001, 3);
    assert_eq!(log.latest(1)[0].id, 2);
    log.push(event("c"), 121_001, 2);
    assert_eq!(log.latest(9).len(), 2);
    log.clear();
    assert!(log.latest(9).is_empty());
}

#[test]
fn patterns_match_as_the_general_way_does() {
    use crate::selector::{Access, KeyPattern};
    use braid_base::glob::matches;
    use proptest::prelude::*;
    proptest!(ProptestConfig::with_cases(2000), |(pattern in "[ab*?\\\\\\[]{0,5}", key in "[ab*]{0,5}")| {
        let (pattern, key) = (pattern.as_bytes(), key.as_bytes());
        let quick = KeyPattern::new(Access::READ, pattern).matches(key);
        prop_assert_eq!(quick, matches(pattern, key, false), "{:?} {:?}", pattern, key);
    });
}
