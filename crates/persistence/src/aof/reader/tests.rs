// SPDX-License-Identifier: BSD-3-Clause
//! Reading commands: content, truncation points, and robustness against any bytes.

use super::*;
use proptest::prelude::*;

/// Yields `step` bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = out.len().min(self.1).min(self.0.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

type Command = Vec<Vec<u8>>;

/// All commands up to the end or the error, and the reader's `whole` and `usable`.
fn read(bytes: &[u8], step: usize, len_known: bool) -> (Vec<Command>, Result<(), ReadError>, u64, u64) {
    let len = len_known.then_some(bytes.len() as u64);
    let mut reader = CommandReader::new(Drip(bytes, step), len);
    let mut commands = Vec::new();
    let outcome = loop {
        match reader.read() {
            Ok(Some(AofRecord::Command)) => commands.push(reader.args().map(<[u8]>::to_vec).collect()),
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    assert!(reader.usable() <= reader.whole() && reader.whole() <= bytes.len() as u64);
    assert!(reader.buffer.len() <= BUFFER.max(2 * bytes.len()), "the buffer outgrew its input");
    (commands, outcome, reader.whole(), reader.usable())
}

fn written(words: &[&[u8]]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        text.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        text.extend_from_slice(word);
        text.extend_from_slice(b"\r\n");
    }
    text
}

#[track_caller]
fn check(text: &str, commands: &[&[&str]], outcome: &str, usable: usize) {
    for step in [1, 3, 1000] {
        let (found, result, _, cut) = read(text.as_bytes(), step, step == 3);
        let found: Vec<Vec<String>> = found
            .iter()
            .map(|command| command.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect())
            .collect();
        assert_eq!(found, commands, "{text:?}");
        assert_eq!(result.map_or_else(|error| error.to_string(), |()| "good".into()), outcome, "{text:?}");
        assert_eq!(cut, usable as u64, "{text:?}");
    }
}

#[test]
fn commands_and_annotations() {
    check("", &[], "good", 0);
    let text = "#TS:1700000000\r\n*1\r\n$4\r\nPING\r\n# anything\r\n*2\r\n$1\r\n\n\r\n$0\r\n\r\n";
    check(text, &[&["PING"], &["\n", ""]], "good", text.len());
    check("*1\n$4\nPING\r\n", &[&["PING"]], "good", 12);
    let mut reader = CommandReader::new(text.as_bytes(), None);
    assert_eq!(reader.read().unwrap(), Some(AofRecord::Timestamp(1_700_000_000)));
    assert_eq!(reader.read().unwrap(), Some(AofRecord::Command));
    assert_eq!(reader.read().unwrap(), Some(AofRecord::Annotation));
}

#[test]
fn where_a_file_is_cut() {
    let ping = "*1\r\n$4\r\nPING\r\n";
    let multi = "*1\r\n$5\r\nmulti\r\n";
    let exec = "*1\r\n$4\r\nExec\r\n";
    let one = ping.len();
    check(&format!("{ping}*"), &[&["PING"]], "unexpected end of file", one);
    check(&format!("{ping}{multi}{ping}"), &[&["PING"], &["multi"], &["PING"]], "good", one);
    check(
        &format!("{ping}{multi}{ping}*1\r\n$4\r\nE"),
        &[&["PING"], &["multi"], &["PING"]],
        "unexpected end of file",
        one,
    );
    let text = format!("{ping}{multi}{ping}{exec}");
    check(&text, &[&["PING"], &["multi"], &["PING"], &["Exec"]], "good", text.len());
    // Data appended later must not become a part of it.
    check(&format!("{ping}#TS:12"), &[&["PING"]], "unexpected end of file", one);
}

#[test]
fn malformed_records_are_refused() {
    for (text, words) in [
        ("x", "expected '*' or '#' at byte 0"),
        ("\0\0\0", "expected '*' or '#' at byte 0"),
        ("*0\r\n", "expected a number of arguments at byte 1"),
        ("*-1\r\n", "expected a number of arguments at byte 1"),
        ("*\r\n", "expected a number of arguments at byte 1"),
        ("*1x\r\n", "expected a number of arguments at byte 1"),
        ("*2147483648\r\n", "expected a number of arguments at byte 1"),
        ("*99999999999999999999\r\n", "expected a number of arguments at byte 1"),
        ("*1\rx", "expected a number of arguments at byte 1"),
        ("*1\r\n:1\r\n", "expected '$' at byte 4"),
        ("*1\r\n$-1\r\n", "expected the length of an argument at byte 5"),
        ("*1\r\n$18446744073709551615\r\n", "expected the length of an argument at byte 5"),
        ("*1\r\n$1\r\nab\r\n", "expected a line end at byte 9"),
        ("*1\r\n$1\r\na\rx", "expected a line end at byte 9"),
    ] {
        check(text, &[], words, 0);
    }
    let long = format!("#{}", "x".repeat(ANNOTATION_MAX));
    check(&long, &[], "expected an annotation of at most 1024 bytes at byte 0", 0);
    check(&format!("*{}", "1".repeat(50)), &[], "expected a number of arguments at byte 1", 0);
}

#[test]
fn false_numbers_take_no_memory() {
    for text in ["*1\r\n$1099511627776\r\nfew", "*2147483647\r\n$3\r\nfew\r\n"] {
        for len_known in [false, true] {
            let (_, outcome, ..) = read(text.as_bytes(), 5, len_known);
            assert!(matches!(outcome, Err(ReadError::Truncated)), "{outcome:?}");
        }
    }
}

#[test]
fn large_record_is_read_whole_and_its_buffer_is_freed() {
    let large = vec![b'x'; 9 << 20];
    let mut text = written(&[b"SET", b"k", &large]);
    text.extend(written(&[b"PING"]).repeat(50_000));
    let mut reader = CommandReader::new(&text[..], Some(text.len() as u64));
    assert_eq!(reader.read().unwrap(), Some(AofRecord::Command));
    assert!(reader.args().eq([&b"SET"[..], b"k", &large]));
    let mut count = 0;
    while reader.read().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, reader.usable()), (50_000, text.len() as u64));
    assert!(reader.buffer.len() <= BUFFER_KEPT, "{}", reader.buffer.len());
}

#[test]
fn behind_a_dump() {
    let text = written(&[b"PING"]);
    let mut reader =
        CommandReader::resume(&text[3..], Some(100 + text.len() as u64), 100, text[..3].to_vec());
    assert_eq!(reader.usable(), 100);
    assert_eq!(reader.read().unwrap(), Some(AofRecord::Command));
    assert_eq!(reader.usable(), 100 + text.len() as u64);
    assert_eq!(reader.read().unwrap(), None);
}

fn command() -> impl Strategy<Value = Command> {
    let word = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..12),
        1 => Just(b"MULTI".to_vec()),
        1 => Just(b"exec".to_vec()),
        1 => Just(b"*1\r\n$1\r\n".to_vec()),
    ];
    proptest::collection::vec(word, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Of every prefix of a file, the complete commands are read and the rest is cut off.
    #[test]
    fn every_beginning(commands in proptest::collection::vec((command(), any::<bool>()), 0..8), step in 1usize..40) {
        let (mut text, mut ends, mut records) = (Vec::new(), vec![(0, 0)], 0);
        let mut usable = 0;
        let mut open = false;
        let mut boundaries = vec![0];
        for (count, (command, annotated)) in commands.iter().enumerate() {
            if *annotated {
                text.extend_from_slice(b"#TS:7\r\n");
                boundaries.push(text.len());
            }
            let before = ends.last().unwrap().0;
            text.extend(written(&command.iter().map(|word| &word[..]).collect::<Vec<_>>()));
            let name = command[0].to_ascii_uppercase();
            if name == b"MULTI" && !open {
                (open, usable) = (true, before);
            } else if name == b"EXEC" {
                open = false;
            }
            if !open {
                usable = text.len();
            }
            ends.push((text.len(), usable));
            boundaries.push(text.len());
            records = count + 1;
        }
        prop_assert_eq!(ends.len(), records + 1);
        for cut in 0..=text.len() {
            let (found, outcome, whole, cut_at) = read(&text[..cut], step, step % 2 == 0);
            let expected = ends.iter().filter(|(end, _)| *end <= cut).count() - 1;
            prop_assert_eq!(&found[..], &commands[..expected].iter().map(|(command, _)| command.clone()).collect::<Vec<_>>()[..]);
            prop_assert_eq!((whole as usize, cut_at as usize), ends[expected]);
            match outcome {
                Ok(()) => prop_assert!(boundaries.contains(&cut), "{} is within a record", cut),
                Err(ReadError::Truncated) => prop_assert!(!boundaries.contains(&cut)),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    /// The result does not depend on how the bytes arrive, and nothing panics.
    #[test]
    fn any_bytes(mut text in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(&b"*$#123\r\n\r\n"[..])], 0..200), at in 0usize..200) {
        for text in [text.clone(), { let mut good = written(&[b"SET", b"key", b"value"]).repeat(3); let len = good.len(); good[at % len] = text.pop().unwrap_or(0); good }] {
            let (commands, outcome, whole, usable) = read(&text, 1, true);
            for (step, len_known) in [(7, false), (1000, true), (1000, false)] {
                let again = read(&text, step, len_known);
                prop_assert_eq!(&again.0, &commands);
                prop_assert_eq!((again.2, again.3), (whole, usable));
                let words = |outcome: &Result<(), ReadError>| match outcome {
                    Ok(()) => "good".to_owned(),
                    Err(error) => error.to_string(),
                };
                // In a file that is both cut and damaged, the number of bytes in the buffer decides
                // which of the two is reported.
                if !matches!(outcome, Err(ReadError::Truncated)) && !matches!(again.1, Err(ReadError::Truncated)) {
                    prop_assert_eq!(words(&again.1), words(&outcome));
                }
            }
        }
    }
}

/// A file with checksums: any flipped bit before the last of them is detected.
#[test]
fn sums_tell_of_changed_bits() {
    use crate::aof::check::Check;

    let commands = b"*1\r\n$4\r\nPING\r\n#TS:5\r\n*2\r\n$3\r\nGET\r\n$5\r\nab\0\xffc\r\n";
    let sum = Check::Sum(crc64(0, commands)).line();
    let more =
        [b"*1\r\n$1\r\nx\r\n".as_slice(), Check::Begin.line().as_bytes(), commands, sum.as_bytes()].concat();
    let file = [commands.as_slice(), sum.as_bytes(), &more, b"*1\r\n$1\r\ny\r\n"].concat();
    let read = |file: &[u8]| {
        let mut reader = CommandReader::new(file, Some(file.len() as u64));
        let mut checked = 0;
        loop {
            match reader.read() {
                Ok(Some(AofRecord::Checked)) => checked += 1,
                Ok(Some(_)) => {}
                Ok(None) => return Ok(checked),
                Err(error) => return Err(error),
            }
        }
    };
    assert_eq!(read(&file).expect("a good file"), 2);
    for at in 0..commands.len() {
        for bit in 0..8 {
            let mut file = file.clone();
            file[at] ^= 1 << bit;
            assert!(read(&file).is_err(), "bit {bit} of byte {at}");
        }
    }
    let mut file = file;
    file[commands.len() - 3] ^= 1;
    match read(&file) {
        Err(ReadError::Checksum { position }) => assert_eq!(position, commands.len() as u64),
        other => panic!("{other:?}"),
    }
}

/// Commands that are parsed together with a wrong sum are returned before the error, so that the
/// caller does not cut them off with it.
#[test]
fn commands_before_a_wrong_sum_are_returned() {
    use crate::aof::check::Check;

    for count in [0, 1, 5, AHEAD - 1, AHEAD, AHEAD + 1, 3 * AHEAD] {
        let commands = b"*1\r\n$4\r\nPING\r\n".repeat(count);
        let file = [&commands[..], Check::Sum(1).line().as_bytes()].concat();
        let mut reader = CommandReader::new(&file[..], Some(file.len() as u64));
        for _ in 0..count {
            assert!(matches!(reader.read(), Ok(Some(AofRecord::Command))));
        }
        let end = commands.len() as u64;
        assert!(matches!(reader.read(), Err(ReadError::Checksum { position }) if position == end));
        assert_eq!((reader.whole(), reader.usable()), (end, end));
    }
}
