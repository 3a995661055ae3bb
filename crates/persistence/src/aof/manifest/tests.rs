// SPDX-License-Identifier: BSD-3-Clause
//! The manifest: valid and invalid texts with their errors, and changes.

use super::*;
use proptest::prelude::*;

fn info(name: &str, seq: i64) -> FileInfo {
    FileInfo { name: name.into(), seq }
}

#[track_caller]
fn refused(text: &str, words: &str) {
    let error = Manifest::parse(text.as_bytes()).expect_err(text);
    assert_eq!(error.fault.to_string(), words, "{text}");
    assert_eq!(error.messages().first().unwrap(), "*** FATAL AOF MANIFEST FILE ERROR ***");
    assert_eq!(error.messages().last().unwrap(), words);
}

#[test]
fn a_manifest_as_redis_writes_it() {
    let text = "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.1.incr.aof seq 1 type h\n\
                file appendonly.aof.2.incr.aof seq 2 type h\nfile appendonly.aof.4.incr.aof seq 4 type i\n\
                file appendonly.aof.5.incr.aof seq 5 type i\n";
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!(manifest.base, Some(info("appendonly.aof.2.base.rdb", 2)));
    assert_eq!(
        manifest.history,
        [info("appendonly.aof.1.incr.aof", 1), info("appendonly.aof.2.incr.aof", 2)]
    );
    assert_eq!(manifest.incrs, [info("appendonly.aof.4.incr.aof", 4), info("appendonly.aof.5.incr.aof", 5)]);
    assert_eq!(manifest.format(), text.as_bytes());
    let data: Vec<_> = manifest.data().map(|(kind, info)| (kind, info.seq)).collect();
    assert_eq!(data, [(FileKind::Base, 2), (FileKind::Incr, 4), (FileKind::Incr, 5)]);
}

#[test]
fn lenient_manifest_syntax_is_accepted() {
    let text = "#comment\n TYPE incr  Seq 7x\tfile 'a b' startoffset 12 \r\n#another\n";
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!(manifest.incrs, [info("a b", 7)]);
    assert!(Manifest::parse(b"# nothing but a comment\n").unwrap().has_no_data());
    // The rest of a long comment is a line of its own, which here is a comment again.
    let long = format!("#{}#\nfile a seq 1 type b\n", "x".repeat(LINE_MAX - 1));
    assert!(Manifest::parse(long.as_bytes()).is_ok());
    let long = format!("#{}\nfile a seq 1 type b\n", "x".repeat(LINE_MAX));
    assert!(Manifest::parse(long.as_bytes()).is_err());
    // The last value of a repeated key wins.
    let text = b"file a file b seq 1 seq 2 type i type b\n";
    assert_eq!(Manifest::parse(text).unwrap().base, Some(info("b", 2)));
}

#[test]
fn what_is_refused() {
    refused("", "Found an empty AOF manifest");
    for line in [
        "\n",
        " \t\r\n",
        "file a seq 1 type b\n\nfile b seq 1 type i\n",
        "file a seq 1\n",
        "file a seq 1 type b x\n",
        "file 'a seq 1 type b\n",
        "file a seq 0 type b\n",
        "file a seq x type b\n",
        "file a seq 99999999999999999999 type b\n",
        "file a seq 1 type ''\n",
        "file '' seq 1 type b\n",
        "fil a seq 1 type b\n",
        "file a sequence 1 type b\n",
        "file \"a\\x00b\" seq 1 type b\n",
    ] {
        refused(line, "Invalid AOF manifest file format");
    }
    refused("file a/b seq 1 type b\n", "File can't be a path, just a filename");
    refused("file 'a\\b' seq 1 type b\n", "File can't be a path, just a filename");
    refused("file a seq 1 type b\nfile b seq 2 type b\n", "Found duplicate base file information");
    refused("file a seq 2 type i\nfile b seq 2 type i\n", "Found a non-monotonic sequence number");
    refused("file a seq -1 type i\n", "Found a non-monotonic sequence number");
    refused("file a seq 1 type x\n", "Unknown AOF file type");
    refused("file a seq 1 type b", "The AOF manifest file contains too long line");
    refused("file a\0 seq 1 type b\n", "The AOF manifest file contains too long line");
    refused(&format!("{}\n", "x".repeat(LINE_MAX)), "The AOF manifest file contains too long line");
}

#[test]
fn the_place_of_an_error() {
    let error = Manifest::parse(b"file a seq 1 type b\n# c\n file b seq 2 type b \n").unwrap_err();
    assert_eq!(error.line, Some((3, b"file b seq 2 type b".to_vec())));
    assert_eq!(error.messages()[1..3], ["Reading the manifest file, at line 3", ">>> 'file b seq 2 type b'"]);
}

#[test]
fn names_are_quoted_where_they_must_be() {
    for (name, written) in [
        (&b"appendonly.aof"[..], &b"appendonly.aof"[..]),
        (b"a b", b"\"a b\""),
        (b"a'b", b"\"a'b\""),
        (b"\"\\\n\r\t\x07\x08\x00\x7f\xe9", br#""\"\\\n\r\t\a\b\x00\x7f\xe9""#),
    ] {
        let mut out = Vec::new();
        push_word(&mut out, name);
        assert_eq!(out.escape_ascii().to_string(), written.escape_ascii().to_string());
    }
}

#[test]
fn the_way_of_a_rewrite() {
    let mut manifest = Manifest::default();
    assert_eq!(manifest.begin_base("a", true), info("a.1.base.rdb", 1));
    assert_eq!(manifest.begin_incr("a"), info("a.1.incr.aof", 1));
    // A rewrite begins, fails, and is restarted.
    assert_eq!(manifest.begin_incr("a"), info("a.2.incr.aof", 2));
    assert_eq!(manifest.begin_incr("a"), info("a.3.incr.aof", 3));
    // Now it succeeds.
    assert_eq!(manifest.begin_base("a", false), info("a.2.base.aof", 2));
    manifest.retire_incrs(1);
    let text = "file a.2.base.aof seq 2 type b\nfile a.2.incr.aof seq 2 type h\nfile a.1.incr.aof seq 1 type h\n\
                file a.1.base.rdb seq 1 type h\nfile a.3.incr.aof seq 3 type i\n";
    assert_eq!(String::from_utf8(manifest.format()).unwrap(), text);
    // If no append-only file is being written, no increment is kept.
    manifest.retire_incrs(0);
    assert_eq!(manifest.history[0], info("a.3.incr.aof", 3));
    assert_eq!(manifest.begin_incr("a"), info("a.4.incr.aof", 4), "a retired number is not reused");
}

#[test]
fn a_new_file_never_has_a_name_that_is_taken() {
    let text = b"file a.1.base.rdb seq 9 type h\nfile a.2.base.rdb seq 1 type h\n";
    let mut manifest = Manifest::parse(text).unwrap();
    assert_eq!(manifest.begin_base("a", true), info("a.3.base.rdb", 3));
    let mut manifest = Manifest::parse(b"file a seq -5 type b\n").unwrap();
    assert_eq!(manifest.begin_base("a", true), info("a.1.base.rdb", 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read(
        base in proptest::option::of((name(), 1..SEQ_MAX)),
        history in proptest::collection::vec((name(), 1..SEQ_MAX), 0..4),
        incrs in proptest::collection::btree_map(1..SEQ_MAX, name(), 0..4),
    ) {
        let make = |(name, seq): (Vec<u8>, i64)| FileInfo { name: OsString::from_vec(name), seq };
        let manifest = Manifest {
            base: base.map(make),
            history: history.into_iter().map(make).collect(),
            incrs: incrs.into_iter().map(|(seq, name)| make((name, seq))).collect(),
        };
        let text = manifest.format();
        if text.is_empty() {
            prop_assert_eq!(Manifest::parse(&text).unwrap_err().fault, ManifestFault::Empty);
        } else {
            prop_assert_eq!(Manifest::parse(&text).unwrap(), manifest);
        }
    }

    #[test]
    fn no_bytes_are_too_bad(text in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Ok(manifest) = Manifest::parse(&text) {
            prop_assert_eq!(Manifest::parse(&manifest.format()).unwrap_or_default(), manifest);
        }
    }

    #[test]
    fn no_words_are_too_bad(words in proptest::collection::vec("file|seq|type|[bhix]|-?[0-9]{1,20}|\"a|'b'|\n|\n| |#", 0..40)) {
        let text = words.join(" ");
        if let Ok(manifest) = Manifest::parse(text.as_bytes()) {
            prop_assert_eq!(Manifest::parse(&manifest.format()).unwrap_or_default(), manifest);
        }
    }
}

/// Any valid file name, as bytes.
fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        any::<u8>().prop_filter("not in a name", |byte| !b"/\\\0".contains(byte)),
        1..20,
    )
}
