// SPDX-License-Identifier: BSD-3-Clause
//! Facts about CONFIG that clients and test suites of stock servers rely on, checked against the
//! stock behaviour.

use braid_config::{
    Arguments, ClientClass, ClientsMemoryLimit, Config, ConfigError, Loaded, MaxmemoryPolicy, Origin,
    Request, SECTIONS, is_secret,
};
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn start(arguments: &[&str]) -> Result<Config, String> {
    start_with_input(arguments, b"").map(|(config, _)| config)
}

fn start_with_input(arguments: &[&str], mut input: &[u8]) -> Result<(Config, Loaded), String> {
    let Request::Start(arguments) = Request::parse(arguments.iter().map(OsString::from)) else {
        panic!("not a request to start");
    };
    let config = Config::new();
    let loaded = config.load(&arguments, &mut input).map_err(|error| error.to_string())?;
    Ok((config, loaded))
}

fn one(config: &Config, name: &str) -> String {
    config.get_one(name).unwrap_or_else(|| panic!("{name}"))
}

/// Sets a value and returns the error after its fixed prefix, or "" on success.
fn reason(config: &Config, name: &str, value: &str) -> String {
    match config.set(&[(name, value)]) {
        Ok(_) => String::new(),
        Err(error) => {
            let head = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - ");
            error.strip_prefix(&head).unwrap_or(&error).to_owned()
        }
    }
}

#[test]
fn save_lines() {
    assert_eq!(one(&start(&[]).unwrap(), "save"), "3600 1 300 100 60 10000");
    let (config, _) = start_with_input(&["-"], b"save 100 100").unwrap();
    assert_eq!(one(&config, "save"), "100 100");
    let (config, _) = start_with_input(&["-", "--save", "100", "100"], b"save 900 1").unwrap();
    assert_eq!(one(&config, "save"), "900 1 100 100");
    let (config, _) = start_with_input(&["-", "--save", ""], b"save 900 1\n").unwrap();
    assert_eq!(one(&config, "save"), "");
    let (config, _) = start_with_input(&["-"], b"save 900 1\nsave \"\"\nsave 1 2 3 4\n").unwrap();
    assert_eq!(one(&config, "save"), "1 2 3 4");
    config.set(&[("save", "3000 5")]).unwrap();
    assert_eq!(one(&config, "save"), "3000 5");
    config.set(&[("save", "")]).unwrap();
    assert_eq!(one(&config, "save"), "");
    for wrong in ["1", "1 1 1", "0 1", "900  1", " 900 1", "''", "900 x"] {
        assert_eq!(reason(&config, "save", wrong), "Invalid save parameters", "{wrong}");
    }
}

/// Every mutable directive can be set to its current value.
#[test]
fn config_set_accepts_every_value_from_config_get() {
    let config = start(&["--enable-protected-configs", "yes"]).unwrap();
    let before = config.get(&["*"]);
    let mut live = 0;
    for (name, value) in &before {
        match config.set(&[(name, value)]) {
            Ok(changes) => {
                assert!(changes.is_empty(), "{name}");
                live += 1;
            }
            Err(error) => assert!(error.ends_with("can't set immutable config"), "{name}: {error}"),
        }
    }
    assert!(live > 150);
    assert_eq!(config.get(&["*"]), before);
}

#[test]
fn rewriting_everything_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    let config =
        start(&["--maxmemory", "100mb", "--save", "1", "2", "--requirepass", "a \"b\" \\ c\n"]).unwrap();
    let everything = braid_config::ExtraLines { everything: true, ..Default::default() };
    config.rewrite_with(&file, &everything).unwrap();
    let again = start(&[file.to_str().unwrap()]).unwrap();
    assert_eq!(again.get(&["*"]), config.get(&["*"]));
}

#[test]
fn rewriting_save_and_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    fs::write(&file, "save 900 1\nsave 300 10\n").unwrap();
    let path = file.to_str().unwrap();
    let config = start(&[path]).unwrap();
    config
        .set(&[
            ("save", "3600 1 300 100 60 10000"),
            ("shutdown-on-sigterm", "nosave now"),
            ("shutdown-on-sigint", "save"),
        ])
        .unwrap();
    config.rewrite(&file).unwrap();
    let config = start(&[path]).unwrap();
    assert_eq!(one(&config, "save"), "3600 1 300 100 60 10000");
    assert_eq!(one(&config, "shutdown-on-sigterm"), "nosave now");
    assert_eq!(one(&config, "shutdown-on-sigint"), "save");
    config.set(&[("save", ""), ("shutdown-on-sigterm", "default")]).unwrap();
    config.rewrite(&file).unwrap();
    let config = start(&[path]).unwrap();
    assert_eq!(one(&config, "save"), "");
    assert_eq!(one(&config, "shutdown-on-sigterm"), "default");
}

#[test]
fn rewriting_aliases_and_renamed_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    for text in [
        "hash-max-listpack-entries 20\nhash-max-ziplist-entries 21\nrename-command flushdb badger\n",
        "hash-max-ziplist-entries 20\nhash-max-listpack-entries 21\nrename-command flushdb badger\n",
    ] {
        fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let config = start(&[path]).unwrap();
        assert_eq!(one(&config, "hash-max-listpack-entries"), "21");
        assert_eq!(one(&config, "hash-max-ziplist-entries"), "21");
        config.set(&[("hash-max-listpack-entries", "100")]).unwrap();
        config.rewrite(&file).unwrap();
        let (config, loaded) = start_with_input(&[path], b"").unwrap();
        assert_eq!(one(&config, "hash-max-listpack-entries"), "100");
        assert_eq!(loaded.renamed.len(), 1);
        assert_eq!((&*loaded.renamed[0].command, &*loaded.renamed[0].new_name), ("flushdb", "badger"));
    }
}

#[test]
fn several_at_once() {
    let config = Config::new();
    let changes = config
        .set(&[("maxmemory", "10000001"), ("repl-backlog-size", "10000002"), ("save", "3000 5")])
        .unwrap();
    let names: Vec<&str> = changes.iter().map(|change| change.name).collect();
    assert_eq!(names, ["maxmemory", "repl-backlog-size", "save"]);
    assert_eq!(config.maxmemory(), 10_000_001);
    assert_eq!(one(&config, "repl-backlog-size"), "10000002");
    assert_eq!(one(&config, "save"), "3000 5");
}

#[test]
fn a_wrong_value_changes_nothing() {
    let config = Config::new();
    config.set(&[("maxmemory", "10000002")]).unwrap();
    let version = config.version();
    let error = config
        .set(&[
            ("maxmemory", "10000001"),
            ("maxmemory-clients", "200%"),
            ("client-query-buffer-limit", "invalid"),
        ])
        .unwrap_err();
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
         percentage argument must be less or equal to 100"
    );
    assert_eq!(config.maxmemory(), 10_000_002);
    assert_eq!(one(&config, "maxmemory-clients"), "0");
    assert_eq!(config.version(), version);
}

#[test]
fn a_failing_hook_puts_everything_back() {
    let config = Config::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    config.on_change(&["oom-score-adj", "oom-score-adj-values"], move |config| {
        count.fetch_add(1 + 100 * config.oom_score_adj_values()[0] as usize, Ordering::Relaxed);
        Ok(())
    });
    config.on_change(&["port", "bind"], |config| match config.port() {
        0 => Err("Unable to listen on this port. Check server logs.".into()),
        _ => Ok(()),
    });
    let before = config.get(&["*"]);
    let error = config
        .set(&[
            ("oom-score-adj", "yes"),
            ("oom-score-adj-values", "1 1 1"),
            ("maxmemory", "10000001"),
            ("port", "0"),
            ("client-query-buffer-limit", "10m"),
        ])
        .unwrap_err();
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'port') - \
         Unable to listen on this port. Check server logs."
    );
    assert_eq!(config.get(&["*"]), before);
    // Once with the new values, although two of the hook's directives changed, and once with the
    // old ones.
    assert_eq!(seen.load(Ordering::Relaxed), 102);
    assert_eq!(config.port(), 6379);
}

#[test]
fn hooks_run_for_changes_only() {
    let config = Config::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    config.on_change(&["slave-priority", "tls-cert-file"], move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    config.set(&[("replica-priority", "100")]).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    config.set(&[("replica-priority", "7")]).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    // A certificate file may have changed under the same name.
    config.set(&[("tls-cert-file", "")]).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    config.assign("replica-priority", &["8"]).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[test]
fn error_texts() {
    let config = start(&["--enable-protected-configs", "yes"]).unwrap();
    let one_of = |words: &str| format!("argument(s) must be one of the following: {words}");
    let between = |low: &str, high: &str| format!("argument must be between {low} and {high} inclusive");
    let integer = "argument couldn't be parsed into an integer";
    let cases: Vec<(&str, &str, String)> = vec![
        ("maxmemory", "10x", "argument must be a memory value".into()),
        ("maxmemory", "-1", "argument must be a memory value".into()),
        ("maxmemory", "1%", "argument must be a memory value".into()),
        ("maxmemory-clients", "1x", "argument must be a memory or percent value".into()),
        ("maxmemory-clients", "-5", "argument must be a memory or percent value".into()),
        ("maxmemory-clients", "%", "argument must be a memory or percent value".into()),
        ("maxclients", "0", between("1", "4294967295")),
        ("maxclients", "-1", between("1", "4294967295")),
        ("maxclients", "5000000000", between("1", "4294967295")),
        ("port", "70000", between("0", "65535")),
        ("port", "x", integer.into()),
        ("port", "01", integer.into()),
        ("hz", "+1", integer.into()),
        ("hz", "-1", between("0", "2147483647")),
        ("repl-backlog-size", "0", between("1", "9223372036854775807")),
        ("proto-max-bulk-len", "5", between("1048576", "9223372036854775807")),
        ("appendonly", "x", "argument must be 'yes' or 'no'".into()),
        ("appendfsync", "bla", one_of("everysec, always, no")),
        ("shutdown-on-sigint", "bla", one_of("default, save, nosave, now, force, safe, failover")),
        ("shutdown-on-sigint", "", one_of("default, save, nosave, now, force, safe, failover")),
        (
            "shutdown-on-sigint",
            "save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously".into(),
        ),
        ("oom-score-adj", "x", one_of("no, yes, relative, absolute")),
        ("notify-keyspace-events", "Z", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        (
            "client-output-buffer-limit",
            "x",
            "Wrong number of arguments in buffer limit configuration.".into(),
        ),
        (
            "client-output-buffer-limit",
            "master 1 1 1",
            "Invalid client class specified in buffer limit configuration.".into(),
        ),
        (
            "client-output-buffer-limit",
            "normal 1mb 1 -1",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.".into(),
        ),
        ("dbfilename", "a/b", "dbfilename can't be a path, just a filename".into()),
        ("dir", "no/such/place", "No such file or directory".into()),
        ("oom-score-adj-values", "1", "wrong number of arguments".into()),
        (
            "oom-score-adj-values",
            "1 2 2001",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into(),
        ),
        (
            "latency-tracking-info-percentiles",
            "x",
            "Invalid latency-tracking-info-percentiles parameters".into(),
        ),
        (
            "latency-tracking-info-percentiles",
            "99 ",
            "Invalid latency-tracking-info-percentiles parameters".into(),
        ),
        (
            "latency-tracking-info-percentiles",
            "101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into(),
        ),
        ("proc-title-template", "{x", "template format is invalid or contains unknown variables".into()),
        (
            "cluster-announce-hostname",
            "a_b",
            "Hostnames may only contain alphanumeric characters, hyphens or dots".into(),
        ),
        ("set-proc-title", "no", "can't set immutable config".into()),
        ("slaveof", "a 1", "can't set immutable config".into()),
    ];
    let before = config.get(&["*"]);
    for (name, value, expected) in cases {
        assert_eq!(reason(&config, name, value), expected, "{name} {value}");
    }
    assert_eq!(config.get(&["*"]), before);
}

#[test]
fn names_in_errors() {
    let config = Config::new();
    assert_eq!(
        config.set(&[("x", "y")]).unwrap_err(),
        "ERR Unknown option or number of arguments for CONFIG SET - 'x'"
    );
    assert_eq!(
        config.set(&[("maxmemory", "1"), ("maxmemory", "2")]).unwrap_err(),
        "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter"
    );
    // The error shows the name as given if the name is wrong, and as in the table if the value
    // is.
    assert!(config.set(&[("DAEMONIZE", "yes")]).unwrap_err().contains("'DAEMONIZE'"));
    assert!(config.set(&[("Slave-Priority", "x")]).unwrap_err().contains("'slave-priority'"));
    // A directive and its alias may occur together.
    config.set(&[("slave-priority", "1"), ("replica-priority", "2")]).unwrap();
    assert_eq!(config.replica_priority(), 2);
    assert!(config.set(&[(&b"requirepass"[..], &b"\xff"[..])]).unwrap_err().contains("UTF-8"));
    assert!(config.set(&[(&b"\xff"[..], &b"1"[..])]).unwrap_err().starts_with("ERR Unknown option"));
}

#[test]
fn protected_directives() {
    let no = Config::new();
    let expected = "ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config";
    assert_eq!(no.set(&[("dir", "/")]).unwrap_err(), expected);
    let local = start(&["--enable-protected-configs", "local"]).unwrap();
    local.set(&[("dbfilename", "somename")]).unwrap();
    assert_eq!(local.set_from(Origin::Remote, &[("dir", "/")]).unwrap_err(), expected);
    let yes = start(&["--enable-protected-configs", "yes"]).unwrap();
    yes.set_from(Origin::Remote, &[("dir", "/")]).unwrap();
    assert_eq!(yes.dir().to_str(), Some("/"));
}

#[test]
fn while_loading() {
    let config = start(&["--enable-protected-configs", "yes"]).unwrap();
    config.set_loading(true);
    config.set(&[("loglevel", "debug")]).unwrap();
    assert_eq!(one(&config, "loglevel"), "debug");
    for (name, value) in [("dir", "/"), ("appendonly", "yes"), ("repl-diskless-load", "swapdb")] {
        let error = config.set(&[(name, value)]).unwrap_err();
        assert_eq!(error, "LOADING Redis is loading the dataset in memory", "{name}");
    }
    config.set_loading(false);
    config.set(&[("dir", "/")]).unwrap();
}

#[test]
fn getting() {
    let config = Config::new();
    // Hidden directives need their exact name.
    assert!(!config.get(&["*"]).iter().any(|(name, _)| name == "key-load-delay"));
    assert!(config.get(&["key-*"]).is_empty());
    assert_eq!(config.get(&["key-load-delay"]), [("key-load-delay".to_owned(), "0".to_owned())]);
    // Each name matched by several patterns is returned once, including aliases.
    let answer = config.get(&["maxmemory", "maxmemory*", "bind", "*of"]);
    let mut names: Vec<&str> = answer.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["maxmemory", "maxmemory-samples", "maxmemory-clients", "bind", "replicaof", "slaveof"] {
        assert!(names.contains(&name), "{name}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), answer.len());
    // A name is returned as it was written.
    assert_eq!(config.get(&["MAXMEMORY", "MAXMEMORY"]), [("MAXMEMORY".to_owned(), "0".to_owned())]);
    assert!(config.get(&["nothing"]).is_empty());
    assert_eq!(config.get(&["MAX?LIENTS"])[0].0, "maxclients");
}

#[test]
fn texts_of_values() {
    let config = Config::new();
    let cases = [
        ("notify-keyspace-events", "KEA", "AKE"),
        ("notify-keyspace-events", "KEgx$nm", "g$xnKEm"),
        ("shutdown-on-sigint", "force now save", "save now force"),
        ("shutdown-on-sigint", "failover nosave safe", "nosave safe failover"),
        ("shutdown-on-sigint", "save default", "save"),
        ("latency-tracking-info-percentiles", "50.000 0.1 100 99.9999999", "50 0.1 100 100"),
        ("latency-tracking-info-percentiles", "", ""),
        ("hz", "0", "1"),
        ("hz", "10000", "500"),
        ("maxmemory", "1gb", "1073741824"),
        ("maxmemory", "gb", "0"),
        ("maxmemory", "99999999999999999999", "18446744073709551615"),
        ("maxmemory", "", "0"),
        ("maxmemory-clients", "50%", "50%"),
        ("maxmemory-clients", "0%", "0"),
        ("maxmemory-clients", "1mb", "1048576"),
        ("oom-score-adj", "relative", "yes"),
        ("save", "+900 01", "900 1"),
        ("bind", "", ""),
        ("bind", "127.0.0.1 -::1", "127.0.0.1 -::1"),
        (
            "client-output-buffer-limit",
            "replica 1kb 2mb 3 normal 1 2 3",
            "normal 1 2 3 slave 1024 2097152 3 pubsub 33554432 8388608 60",
        ),
        ("proc-title-template", "a{{b", "a{{b"),
        ("APPENDFSYNC", "ALWAYS", "always"),
    ];
    for (name, value, expected) in cases {
        config.set(&[(name, value)]).unwrap();
        assert_eq!(one(&config, name), expected, "{name} {value}");
    }
}

#[test]
fn typed_values() {
    let config = start(&["--maxmemory-policy", "allkeys-lfu", "--unixsocketperm", "770"]).unwrap();
    assert_eq!(config.maxmemory_policy(), MaxmemoryPolicy::AllkeysLfu);
    assert_eq!(config.unixsocketperm(), 0o770);
    assert_eq!(one(&config, "unixsocketperm"), "770");
    assert_eq!(config.maxmemory_clients(), ClientsMemoryLimit::Unlimited);
    config.set(&[("maxmemory-clients", "10%")]).unwrap();
    assert_eq!(config.maxmemory_clients(), ClientsMemoryLimit::PercentOfMaxmemory(10));
    config.set(&[("maxmemory-clients", "1kb"), ("maxmemory", "18446744073709551615")]).unwrap();
    assert_eq!(config.maxmemory_clients(), ClientsMemoryLimit::Bytes(1024));
    assert_eq!(config.maxmemory(), u64::MAX);
    assert_eq!(config.client_output_buffer_limit(ClientClass::Replica).hard_bytes, 256 << 20);
    assert_eq!(config.timeout_seconds(), 0);
    assert_eq!(config.list_max_listpack_size(), -2);
    assert!(config.replicaof().is_none());
    config.assign("replicaof", &["localhost", "6380"]).unwrap();
    assert_eq!(config.replicaof().unwrap().port, 6380);
    assert_eq!(one(&config, "slaveof"), "localhost 6380");
    config.assign("replicaof", &["no", "one"]).unwrap();
    assert_eq!(one(&config, "replicaof"), "");
}

#[test]
fn the_version_moves() {
    let config = Config::new();
    let version = config.version();
    config.set(&[("maxmemory", "1")]).unwrap();
    assert_ne!(config.version(), version);
}

#[test]
fn command_line_errors() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["--invalid"], "'invalid'", "Bad directive or wrong number of arguments"),
        (&["--port"], "'port'", "wrong number of arguments"),
        (&["--port", "6380", "--loglevel"], "'loglevel'", "wrong number of arguments"),
        (&["--port", "6379", "6380"], "'port \"6379\" \"6380\"'", "wrong number of arguments"),
        (
            &["--port", "--loglevel", "verbose"],
            "'port \"--loglevel\" \"verbose\"'",
            "wrong number of arguments",
        ),
        (
            &["--port", "--bla", "--loglevel", "verbose"],
            "'port \"--bla\"'",
            "argument couldn't be parsed into an integer",
        ),
        (
            &["--proc-title-template", "--my--log--file", "--loglevel", "--bla"],
            "'loglevel \"--bla\"'",
            "argument(s) must be one of the following",
        ),
        (&["--shutdown-on-sigint"], "'shutdown-on-sigint'", "argument(s) must be one of the following"),
        (
            &["--shutdown-on-sigint", "now force", "--shutdown-on-sigterm"],
            "'shutdown-on-sigterm'",
            "argument(s) must be one of the following",
        ),
        (&["--replicaof", "127.0.0.1", "abc"], "'replicaof \"127.0.0.1\" \"abc\"'", "Invalid master port"),
        (
            &["--replicaof", "--127.0.0.1", "abc"],
            "'replicaof \"--127.0.0.1\" \"abc\"'",
            "Invalid master port",
        ),
        (
            &["--replicaof", "--127.0.0.1", "--abc"],
            "'replicaof \"--127.0.0.1\"'",
            "wrong number of arguments",
        ),
    ];
    for (arguments, line, expected) in cases {
        let error = start(arguments).unwrap_err();
        assert!(error.starts_with("\n*** FATAL COMMAND LINE ERROR (Braid "), "{error}");
        assert!(error.contains("\nReading the command line, at option --"), "{error}");
        assert!(error.contains(&format!(">>> {line}\n")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn command_line_forms() {
    let values = |arguments: &[&str], expected: &[(&str, &str)]| {
        let config = start(arguments).unwrap();
        for (name, value) in expected {
            assert_eq!(one(&config, name), *value, "{arguments:?}");
        }
    };
    values(
        &["--maxmemory 700mb", "--maxmemory-policy volatile-lru"],
        &[("maxmemory", "734003200"), ("maxmemory-policy", "volatile-lru")],
    );
    values(
        &["--proc-title-template", "--my--title--template", "--loglevel", "verbose"],
        &[("proc-title-template", "--my--title--template"), ("loglevel", "verbose")],
    );
    values(
        &["--proc-title-template --my--title--template", "--loglevel verbose"],
        &[("proc-title-template", "--my--title--template"), ("loglevel", "verbose")],
    );
    for arguments in [
        &["--save", "--loglevel", "verbose"][..],
        &["--loglevel", "verbose", "--save"],
        &["--save", "", "--loglevel", "verbose"],
        &["--loglevel", "verbose", "--save", ""],
        &["--proc-title-template", "--save", "--save", "", "--loglevel", "verbose"],
    ] {
        values(arguments, &[("save", ""), ("loglevel", "verbose")]);
    }
    values(
        &["--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"],
        &[("shutdown-on-sigint", "nosave now force"), ("shutdown-on-sigterm", "nosave force")],
    );
}

#[test]
fn options_behind_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    // No final line end: the options must not run into the last line.
    fs::write(&file, "port 7000\r\n\tmaxmemory 5mb # no comment here").unwrap();
    let path = file.to_str().unwrap();
    assert!(start(&[path]).unwrap_err().contains("wrong number of arguments"));
    fs::write(&file, "port 7000\r\n\tmaxmemory 5mb\nloglevel debug").unwrap();
    // Words after the file without an option name belong to that file's text, as in stock
    // servers.
    let arguments = [path, "loglevel", "verbose", "--maxmemory '700mb'", "--port", "7001", "-"];
    let (config, loaded) = start_with_input(&arguments, b"\ntimeout 5\nport 9\n").unwrap();
    assert_eq!(one(&config, "port"), "7001");
    assert_eq!(one(&config, "loglevel"), "verbose");
    assert_eq!(one(&config, "maxmemory"), "734003200");
    assert_eq!(one(&config, "timeout"), "5");
    assert_eq!(loaded.file.as_deref(), Some(file.as_path()));
}

#[test]
fn included_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    write("conf.d/1.conf", "port 1\ntimeout 1");
    write("conf.d/2.conf", "port 2");
    write("conf.d/3.CONF", "port 3");
    write("circle.conf", &format!("include {}/circle.conf\n", folder.path().display()));
    let here = folder.path().display();
    let load = |text: String| {
        let config = Config::new();
        config.load_text(&text).map(|_| config)
    };
    let config = load(format!("port 9\ninclude {here}/conf.d/*.conf\nmaxmemory 1")).unwrap();
    assert_eq!((config.port(), config.timeout_seconds(), config.maxmemory()), (2, 1, 1));
    load(format!("include {here}/nothing/*.conf\n")).unwrap();
    load(format!("dir {here}/conf.d\ninclude 1.conf\n")).unwrap();
    let error = load(format!("include {here}/nothing.conf")).unwrap_err();
    assert!(matches!(error, ConfigError::CannotOpen { .. }));
    assert!(error.to_string().starts_with("Fatal error, can't open config file '"), "{error}");
    assert!(error.to_string().ends_with("/nothing.conf': No such file or directory"), "{error}");
    assert!(load(format!("include {here}/circle.conf")).unwrap_err().to_string().contains("too deeply"));
    write("bad.conf", "# one\n\nport x\n");
    let error = load(format!("include {here}/bad.conf")).unwrap_err().to_string();
    assert!(error.contains("/bad.conf, at line 3\n>>> 'port x'\n"), "{error}");
}

#[test]
fn file_errors() {
    let error = |text: &str| Config::new().load_text(text).unwrap_err().to_string();
    assert!(error("requirepass \"a").contains("Unbalanced quotes in configuration line"));
    assert!(error("loadmodule /a/b.so").contains("Modules are not supported"));
    assert!(error("module.setting 1").contains("Modules are not supported"));
    assert!(error("module.setting").contains("Module config specified without value"));
    assert!(error("sentinel monitor a b").contains("sentinel directive while not in sentinel mode"));
    assert!(error("include").contains("Bad directive or wrong number of arguments"));
    assert!(error("lua-replicate-commands").contains("Bad directive"));
    assert!(error("PROT 1").ends_with("wrong number of arguments: unknown directive 'prot'"));
    assert!(
        error("cluster-enabled yes\nreplicaof a 1")
            .contains("replicaof directive not allowed in cluster mode")
    );
    assert!(error("cluster-enabled yes\ngroup-name g").contains("use cluster-name in cluster mode"));
    assert!(error("replicaof a x").contains("Invalid master port"));
    for line in ["replicaof a 1", "slaveof a 1"] {
        let config = Config::new();
        config.load_text(line).unwrap();
        assert_eq!(config.replicaof().map(|primary| primary.port), Some(1), "{line}");
    }
    Config::new().load_text("cluster-enabled no\nreplicaof no one\n").unwrap();
    assert!(
        error("logfile /no/such/place/log")
            .ends_with("Can't open the log file '/no/such/place/log': No such file or directory")
    );
    assert!(error("shards 1000").contains("argument must be a power of two"));
    assert!(error("shards 131072").contains("argument must be between 1 and 65536 inclusive"));
    assert!(error("unixsocketperm 8").contains("argument couldn't be parsed as an octal number"));
    assert!(error("unixsocketperm 1000").contains("argument must be between 0 and 777 inclusive"));
    let secret = error("requirepass one two");
    assert!(!secret.contains("one") && secret.contains("wrong number of arguments"), "{secret}");
    assert!(!error("requirepass \"one").contains("one") && !error("user a >one \"").contains("one"));
    assert!(error("port 1\n\n# x\nport x").contains("Reading the configuration, at line 4\n>>> 'port x'\n"));
}

#[test]
fn errors_name_the_source_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf");
    let path = file.to_str().unwrap();
    let error = |text: &str, input: &str, more: &[&str]| {
        fs::write(&file, text).unwrap();
        start_with_input(&[&[path], more].concat(), input.as_bytes()).unwrap_err()
    };
    let text = error("\n\nport x", "", &[]);
    assert!(text.starts_with("\n*** FATAL CONFIG FILE ERROR (Braid "), "{text}");
    assert!(text.contains(&format!("\nReading the configuration file {path}, at line 3\n>>> 'port x'\n")));
    let text = error("\n\nport 1", "timeout 1\nport y", &["--port", "2", "-"]);
    assert!(text.contains("\nReading the configuration from standard input, at line 2\n>>> 'port y'\n"));
    let text = error("\n\nport 1", "", &["--timeout", "1", "--port", "abc"]);
    assert!(text.contains("\nReading the command line, at option --port\n>>> 'port \"abc\"'\n"), "{text}");
    let text = start(&["-p", "1"]).unwrap_err();
    assert!(text.contains("at option -p\n") && text.ends_with("two hyphens, such as --port"), "{text}");
}

#[test]
fn after_an_error_the_log_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str, options: &[&str]| {
        let file = folder.path().join("a.conf");
        fs::write(&file, text).unwrap();
        let arguments = [&[file.to_str().unwrap()], options].concat();
        let Request::Start(arguments) = Request::parse(arguments.iter().map(OsString::from)) else {
            panic!("not a request to start");
        };
        let config = Config::new();
        config.load(&arguments, &mut std::io::empty()).expect_err("an error");
        config
    };
    let here = folder.path().display();
    let config = load(&format!("port x\nuser \"\nlogfile some.log\nloglevel wrong\ndir {here}"), &[]);
    assert_eq!((&*config.logfile(), config.dir()), ("some.log", folder.path().to_owned()));
    let config = load("logfile some.log", &["--port", "x", "--logfile", "other.log"]);
    assert_eq!(&*config.logfile(), "other.log");
    let config = load("include nosuch.conf\nlogfile some.log", &[]);
    assert_eq!(&*config.logfile(), "some.log");
}

#[test]
fn ineffective_directives_are_named_once() {
    let loaded = Config::new()
        .load_text(
            "io-threads 2\nlocale-collate a\nlocale-collate b\ndynamic-hz no\nactiverehashing yes\n\
             lazyfree-lazy-user-del yes\nactivedefrag no\nreplica-priority 9\nlist-max-ziplist-value 5",
        )
        .unwrap();
    assert_eq!(
        loaded.warnings,
        ["WARNING: Directives that are set but have no effect in this version: locale-collate, dynamic-hz, \
          list-max-ziplist-value"]
    );
    assert!(Config::new().load_text("maxmemory 1\nsave 1 1").unwrap().warnings.is_empty());
}

/// No code reads rows with the "no effect" mark, and some code reads each of the others.
#[test]
fn marks_of_missing_effects_are_true() {
    fn sources(folder: &std::path::Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut read = String::new();
    for entry in fs::read_dir(&crates).unwrap().map(Result::unwrap) {
        if entry.file_name() != "config" && entry.path().join("src").is_dir() {
            sources(&entry.path().join("src"), &mut read);
        }
    }
    let mut rows = String::new();
    sources(&crates.join("config/src/rows"), &mut rows);
    // The accessors of these are not named like the rows, or this crate itself reads them.
    let special = [("save", "save_points"), ("maxmemory_clients_raw", "maxmemory_clients")];
    let special = special.iter().chain(&[("client_output_buffer_limits", "client_output_buffer_limit")]);
    let within = ["enable_protected_configs"];
    // Read only for display, or to report the kind of process.
    let shown = ["cluster_enabled", "supervised"];
    let (mut checked, mut faults) = (0, Vec::new());
    for row in rows.split(";\n") {
        let Some((head, tail)) = row.split_once(" =>").filter(|(_, tail)| tail.contains('"')) else {
            continue;
        };
        let Some((accessor, _)) = head.lines().last().and_then(|line| line.split_once(':')) else { continue };
        let accessor = accessor.trim();
        if accessor.is_empty()
            || !accessor
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric() && !byte.is_ascii_uppercase())
        {
            // Not a row.
            continue;
        }
        let method =
            special.clone().find(|(name, _)| *name == accessor).map_or(accessor, |(_, method)| method);
        let is_read =
            read.contains(&format!("config.{method}(")) || read.contains(&format!("config().{method}("));
        let is_marked = tail.contains("no_effect_yet()") || tail.contains("always_on()");
        checked += 1;
        if is_read == is_marked && !within.contains(&accessor) && !shown.contains(&accessor) {
            faults.push(format!("{accessor}: read {is_read}, marked {is_marked}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let directives: usize = SECTIONS.iter().map(|section| section.directives.len()).sum();
    assert_eq!(checked, directives);
}

#[test]
fn accepted_lines() {
    let config = Config::new();
    let loaded = config
        .load_text(
            "lua-replicate-commands yes\nlist-max-ziplist-entries 5\nPORT 12\n\"port\" '13'\n\
             server-threads 3\nserver-thread-affinity true\ncluster-enabled no\n\
             user a on >secret ~*\nrename-command get \"\"\n",
        )
        .unwrap();
    assert_eq!((config.port(), config.io_threads()), (13, 3));
    assert!(config.server_thread_affinity());
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(loaded.users[0].words, ["a", "on", ">secret", "~*"]);
    assert!(!format!("{loaded:?}").contains("secret"), "{loaded:?}");
    let complaint = loaded.renamed[0].place.error("No such command in rename-command").to_string();
    assert!(complaint.ends_with("No such command in rename-command"), "{complaint}");
}

#[test]
fn secrets_are_not_printed() {
    let config = Config::new();
    let changes = config.set(&[("requirepass", "hunter2"), ("masterauth", "hunter2")]).unwrap();
    assert!(!format!("{changes:?} {config:?} {}", changes[0]).contains("hunter2"));
    assert_eq!(changes[0].new, "hunter2");
    assert!(is_secret("RequirePass") && is_secret("primaryauth") && !is_secret("port") && !is_secret("x"));
    assert_eq!(one(&config, "requirepass"), "hunter2");
}

#[test]
fn no_file_means_defaults() {
    assert_eq!(Request::parse([]), Request::Start(Arguments::default()));
}

#[test]
fn directives_beyond_redis_may_be_given_the_value_they_have() {
    let config = Config::new();
    let shards = config.get_one("shards").expect("a directive");
    assert_eq!(config.set(&[("shards", shards.as_str())]).map(|changes| changes.len()), Ok(0));
    for (name, value) in [("shards", "8"), ("databases", "16")] {
        let error = config.set(&[(name, value)]).expect_err("immutable");
        assert!(error.ends_with("can't set immutable config"), "{name}: {error}");
    }
}

#[test]
fn patterns_list_no_second_spellings() {
    let config = Config::new();
    let names: Vec<String> = config.get(&["*-threads"]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["io-threads", "ts-num-threads"]);
    assert_eq!(config.get(&["server-threads"]).len(), 1, "a second spelling is found by its name");
}
