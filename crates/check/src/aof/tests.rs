// SPDX-License-Identifier: BSD-3-Clause
//! Messages and exit codes of braid-check-aof; compared with redis-check-aof where it is installed.

use super::*;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PING: &str = "*1\r\n$4\r\nPING\r\n";
const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
const EXEC: &str = "*1\r\n$4\r\nexec\r\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Runs the program; returns the exit code and the output, with the folder's path removed.
    fn run(&self, arguments: &[&str], answer: &str) -> (u8, String) {
        let path = self.0.path().to_str().expect("readable").to_owned() + "/";
        let arguments: Vec<String> = arguments.iter().map(|word| word.replace("DIR/", &path)).collect();
        let mut out = Vec::new();
        let code = main(&arguments, &mut out, &mut answer.as_bytes(), 1_800_000_000_000);
        (code, String::from_utf8_lossy(&out).replace(&path, "DIR/"))
    }

    /// The same for the stock program, if it is installed.
    fn run_stock(&self, arguments: &[&str], answer: &str) -> Option<(u8, String)> {
        let path = self.0.path().to_str().expect("readable").to_owned() + "/";
        let mut command = Command::new("redis-check-aof");
        command.args(arguments.iter().map(|word| word.replace("DIR/", &path)));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok();
        let mut child = child?;
        // The program may end without reading its input.
        let _ = child.stdin.take().expect("a pipe").write_all(answer.as_bytes());
        let output = child.wait_with_output().expect("the program ends");
        let text = String::from_utf8_lossy(&output.stdout).replace(&path, "DIR/");
        Some((output.status.code().expect("a code") as u8, text))
    }
}

#[track_caller]
fn check(content: &str, code: u8, lines: &[&str]) {
    let folder = Folder::new();
    folder.write("x", content);
    let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(folder.run(&["DIR/x"], ""), (code, format!("Start checking Old-Style AOF\n{expected}")));
    if let Some(stock) = folder.run_stock(&["DIR/x"], "") {
        assert_eq!(folder.run(&["DIR/x"], ""), stock, "the stock program's result differs");
    }
}

#[test]
fn single_files() {
    const INVALID: &str = "AOF DIR/x is not valid. Use the --fix option to try fixing it.";
    check("", 0, &["AOF DIR/x is empty"]);
    check(
        &format!("#TS:1\r\n{PING}{MULTI}{PING}{EXEC}"),
        0,
        &[
            "AOF analyzed: filename=DIR/x, size=64, ok_up_to=64, ok_up_to_line=13, diff=0",
            "AOF DIR/x is valid",
        ],
    );
    let broken = |content: &str, error: &str, analyzed: &str| {
        check(content, 1, &[error, &format!("AOF analyzed: filename=DIR/x, {analyzed}"), INVALID]);
    };
    broken(
        "*1\r\n$4\r\nPIN\r\n",
        "0x               8: Expected to read 6 bytes, got 5 bytes",
        "size=13, ok_up_to=0, ok_up_to_line=3, diff=13",
    );
    broken(
        "*1\n$4\r\nPING\r\n",
        "0x               0: Expected \\r\\n, got: 0a00",
        "size=13, ok_up_to=0, ok_up_to_line=1, diff=13",
    );
    broken("x", "AOF DIR/x format error", "size=1, ok_up_to=0, ok_up_to_line=1, diff=1");
    broken(
        &format!("{MULTI}{PING}"),
        "0x              17: Reached EOF before reading EXEC for MULTI",
        "size=29, ok_up_to=0, ok_up_to_line=7, diff=29",
    );
    broken(
        "*1\r\n:4\r\n",
        "0x               4: Expected prefix '$', got: ':'",
        "size=8, ok_up_to=0, ok_up_to_line=2, diff=8",
    );
    broken(
        "*1\r\n$-4\r\n",
        "0x               4: Expected to read string of -4 bytes, which is not in the suitable range",
        "size=9, ok_up_to=0, ok_up_to_line=3, diff=9",
    );
    broken(
        EXEC,
        "0x               8: Unexpected EXEC in AOF DIR/x",
        "size=14, ok_up_to=0, ok_up_to_line=4, diff=14",
    );
}

#[test]
fn aof_check_rejects_commands_without_arguments() {
    let folder = Folder::new();
    folder.write("x", "*0\r\n");
    let (code, text) = folder.run(&["DIR/x"], "");
    assert!(code == 1 && text.contains("Expected at least one argument, got: 0"), "{text}");
}

#[test]
fn usage() {
    let folder = Folder::new();
    for (arguments, code, text) in [
        (
            &[][..],
            1,
            "Usage: braid-check-aof [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>\n",
        ),
        (&["--fix", "a", "b", "c"], 1, "Usage: "),
        (&["--help"], 0, "Usage: "),
        (&["DIR/"], 1, "Cannot read file DIR/: it is a directory; give the manifest in it\n"),
        (&["--nonsense"], 1, "braid-check-aof: unknown option or missing file: '--nonsense'\nUsage: "),
        (&["DIR/nosuch"], 1, "Cannot open file DIR/nosuch: No such file or directory\n"),
        (&["--truncate-to-timestamp", "1x", "DIR/x"], 1, "Invalid timestamp, aborting...\n"),
    ] {
        let (found, said) = folder.run(arguments, "");
        assert!(found == code && said.starts_with(text), "{arguments:?}: {said}");
    }
    let (_, help) = folder.run(&["-h"], "");
    for part in ["--fix", "--truncate-to-timestamp SECONDS", "--version", "Exit status: 0", "Example: "] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}

#[test]
fn fixing_asks_and_cuts() {
    let folder = Folder::new();
    let path = folder.write("x", format!("{PING}*1\r\n$4\r\nPI"));
    for (answer, code) in [("", 1), ("n\n", 1), ("y\n", 0)] {
        let (found, said) = folder.run(&["--fix", "DIR/x"], answer);
        assert_eq!(found, code, "{said}");
        let question =
            "This will shrink the AOF DIR/x from 24 bytes, with 10 bytes, to 14 bytes\nContinue? [y/N]: ";
        assert!(said.contains(question), "{said}");
        let end = if code == 0 { "Successfully truncated AOF DIR/x\n" } else { "Aborting...\n" };
        assert!(said.ends_with(end), "{said}");
        let left = std::fs::read_to_string(&path).expect("text");
        assert_eq!(left == PING, code == 0);
    }
    let said = folder.run(&["--fix", "DIR/x"], "").1;
    assert!(said.ends_with("AOF DIR/x is valid\n"), "{said}");
}

#[test]
fn truncating_to_a_time() {
    let content = format!("#TS:5\r\n{PING}#TS:9\r\n{PING}");
    let folder = Folder::new();
    for (time, code, end, left) in [
        ("9", 0, "Truncate nothing in AOF DIR/x to timestamp 9\nAOF DIR/x is valid\n", 42),
        ("3", 1, "AOF DIR/x has nothing before timestamp 3, aborting...\n", 42),
        ("6", 0, "Successfully truncated AOF DIR/x to timestamp 6\n", 21),
    ] {
        let path = folder.write("x", &content);
        let arguments = ["--truncate-to-timestamp", time, "DIR/x"];
        let (found, said) = folder.run(&arguments, "");
        assert!(found == code && said.ends_with(end), "{said}");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), left);
        folder.write("x", &content);
        if let Some(stock) = folder.run_stock(&arguments, "") {
            assert_eq!(stock, (found, said));
        }
    }
}

#[test]
fn the_zeros_of_a_dump_without_a_checksum_are_its_own() {
    let folder = Folder::new();
    for (content, from) in [(dump_with(false), 0), ([dump_with(false), PING.into()].concat(), 1)] {
        let path = folder.write("x", &content);
        let (code, text) = folder.run(&["--fix", "DIR/x"], "y");
        assert!(code == 0 && text.ends_with("AOF DIR/x is valid\n"), "{from}: {text}");
        assert_eq!(std::fs::read(&path).expect("the file"), content);
    }
}

/// A dump with one key.
fn dump() -> Vec<u8> {
    dump_with(true)
}

fn dump_with(checksum: bool) -> Vec<u8> {
    let mut writer =
        braid_rdb::FileWriter::new(Vec::new(), 10, true, checksum).expect("writing to memory cannot fail");
    writer.database(0, 1, 0).expect("writing to memory cannot fail");
    writer
        .key(b"k", braid_rdb::ValueRef::Text(b"v"), None, braid_rdb::Traits::default())
        .expect("writing to memory cannot fail");
    writer.finish().expect("writing to memory cannot fail")
}

#[test]
fn several_files() {
    let folder = Folder::new();
    folder.write(
        "a.manifest",
        "file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n",
    );
    folder.write("a.1.base.rdb", dump());
    folder.write("a.1.incr.aof", format!("{PING}#TS:7\r\n{PING}"));
    let last = folder.write("a.2.incr.aof", format!("{PING}*"));
    let (code, said) = folder.run(&["DIR/a.manifest"], "");
    assert_eq!(code, 1, "{said}");
    for line in [
        "Start checking Multi Part AOF\nStart to check BASE AOF (RDB format).\n[offset 0] Checking RDB file DIR/a.1.base.rdb\n",
        "RDB preamble is OK, proceeding with AOF tail...\nAOF analyzed: filename=a.1.base.rdb, ",
        "BASE AOF a.1.base.rdb is valid\nStart to check INCR files.\nAOF analyzed: filename=a.1.incr.aof, size=35, ok_up_to=35, \
         ok_up_to_line=7, diff=0\nINCR AOF a.1.incr.aof is valid\n",
        "AOF analyzed: filename=a.2.incr.aof, size=15, ok_up_to=14, ok_up_to_line=10, diff=1\nAOF a.2.incr.aof is not valid.",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    let (code, said) = folder.run(&["--fix", "DIR/a.manifest"], "Yes");
    assert!(
        code == 0
            && said
                .ends_with("Successfully truncated AOF a.2.incr.aof\nAll AOF files and manifest are valid\n"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&last).expect("text"), PING);
    // Only the last file may be truncated.
    let (code, said) = folder.run(&["--truncate-to-timestamp", "6", "DIR/a.manifest"], "");
    assert!(
        code == 1 && said.contains("to offset 14 because it is not the last file.\nIf you insist, "),
        "{said}"
    );
    folder.write("a.1.incr.aof", "x");
    let (code, said) = folder.run(&["--fix", "DIR/a.manifest"], "y");
    assert!(
        code == 1 && said.ends_with("Failed to truncate AOF a.1.incr.aof because it is not the last file\n"),
        "{said}"
    );
    // This means the last one with any data: a rewrite had begun.
    folder.write("a.1.incr.aof", format!("{PING}*"));
    folder.write("a.2.incr.aof", [0; 100]);
    let (code, said) = folder.run(&["--fix", "DIR/a.manifest"], "y");
    assert!(code == 0 && said.contains("Successfully truncated AOF a.1.incr.aof\n"), "{said}");
    let mut bad = dump();
    bad.truncate(20);
    folder.write("a.1.base.rdb", bad);
    let (code, said) = folder.run(&["DIR/a.manifest"], "");
    assert!(code == 1 && said.ends_with("RDB preamble of AOF file is not sane, aborting.\n"), "{said}");
    std::fs::remove_file(&last).expect("the file");
    folder.write("a.manifest", "file a.2.incr.aof seq 1 type i\n");
    let (code, said) = folder.run(&["DIR/a.manifest"], "");
    assert!(
        code == 1 && said.contains("Cannot open file DIR/a.2.incr.aof: No such file or directory"),
        "{said}"
    );
    folder.write("a.manifest", "file a seq 1 type x\n");
    let (code, said) = folder.run(&["DIR/a.manifest"], "");
    assert!(code == 1 && said.contains(">>> 'file a seq 1 type x'\nUnknown AOF file type\n"), "{said}");
}

#[test]
fn damaged_files_give_the_same_result_as_the_stock_program() {
    let folder = Folder::new();
    folder.write("x", "");
    if folder.run_stock(&["DIR/x"], "").is_none() {
        println!("skipped: no redis-check-aof on PATH");
        return;
    }
    let good = format!("{PING}#TS:12\r\n{MULTI}*2\r\n$1\r\na\r\n$12\r\nhello\r\nworld\r\n{EXEC}{PING}");
    let mut random = fastrand::Rng::with_seed(7);
    let mut compared = 0;
    for _ in 0..150 {
        let mut content = good.clone().into_bytes();
        for _ in 0..random.usize(0..3) {
            let at = random.usize(0..content.len());
            match random.u8(0..3) {
                0 => content[at] = random.choice(*b"*$#\r\n0123xX\x80").expect("a byte"),
                1 => drop(content.remove(at)),
                _ => content.truncate(at.max(1)),
            }
        }
        folder.write("x", &content);
        let (own, stock) =
            (folder.run(&["DIR/x"], ""), folder.run_stock(&["DIR/x"], "").expect("the stock program"));
        if own.1.contains("at least one argument") {
            continue;
        }
        assert_eq!(own.0, stock.0, "{}", content.escape_ascii());
        assert_eq!(masked(&own.1), masked(&stock.1), "{}", content.escape_ascii());
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

/// Masks the second byte of an invalid line end: past the end of a file the stock program shows
/// an undefined byte.
fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| match line.contains("Expected \\r\\n, got: ") {
        true => line.split_at(line.len() - 2).0,
        false => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}
