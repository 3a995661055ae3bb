// SPDX-License-Identifier: BSD-3-Clause
//! The parser against the replies of stock servers, and against itself for every way to split a
//! stream.

use super::*;
use proptest::prelude::*;

/// The meaning of a stream, independent of how it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Request(Vec<Vec<u8>>),
    Error(ProtocolError),
    /// The stream ended here: true if within a request.
    End(bool),
}

/// Simulates an event loop: receives `stream` in pieces that end at `cuts`, and parses after each.
/// Big arguments are received as the contract requires.
fn receive(stream: &[u8], cuts: &[usize], limits: &Limits) -> Vec<Event> {
    let mut parser = RequestParser::default();
    let mut events = Vec::new();
    let mut buf = Vec::new();
    let mut big: Vec<Vec<u8>> = Vec::new();
    let mut receiving: Option<(Vec<u8>, usize)> = None;
    let mut from = 0;
    // Spans of an earlier request of the batch must survive.
    let marker = Span { start: 7, len: 7 };
    let mut spans = vec![marker];
    for cut in cuts.iter().copied().chain([stream.len()]) {
        let mut piece = &stream[from..cut.max(from)];
        from = cut.max(from);
        'piece: loop {
            if let Some((mut bytes, len)) = receiving.take() {
                let take = (len + 2 - bytes.len()).min(piece.len());
                bytes.extend_from_slice(&piece[..take]);
                piece = &piece[take..];
                if bytes.len() < len + 2 {
                    receiving = Some((bytes, len));
                    break 'piece;
                }
                bytes.truncate(len);
                big.push(bytes);
                parser.big_argument_done();
            }
            buf.extend_from_slice(piece);
            piece = &[];
            loop {
                let step = parser.next(&buf, limits, &mut spans);
                if !matches!(step, Step::Request { .. }) {
                    assert_eq!(spans, [marker], "spans changed by {step:?}");
                }
                match step {
                    Step::Request { consumed } => {
                        assert!(consumed <= buf.len());
                        let of = |span: &Span| {
                            if span.is_big() {
                                big[span.len as usize].clone()
                            } else {
                                buf[span.range()].to_vec()
                            }
                        };
                        let arguments = spans[1..].iter().map(of).collect();
                        events.push(Event::Request(arguments));
                        spans.truncate(1);
                        big.clear();
                        buf.drain(..consumed);
                        assert!(!parser.is_mid_request());
                        assert_eq!(parser.partial.capacity(), 0);
                    }
                    Step::Inline { consumed, arguments } => {
                        assert!(consumed <= buf.len());
                        events.push(Event::Request(arguments));
                        buf.drain(..consumed);
                    }
                    Step::Incomplete => break 'piece,
                    Step::BigArgument { start, len } => {
                        assert!(start <= buf.len() && buf.len() < start + len + 2);
                        receiving = Some((buf.split_off(start), len));
                        continue 'piece;
                    }
                    Step::Error(error) => {
                        assert!(!parser.is_mid_request());
                        events.push(Event::Error(error));
                        return events;
                    }
                }
            }
        }
    }
    events.push(Event::End(parser.is_mid_request()));
    events
}

fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        wire.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        wire.extend_from_slice(argument);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

/// Checks a short stream in one piece, byte by byte, and with every single cut.
#[track_caller]
fn check_with(limits: &Limits, stream: &[u8], events: &[Event]) {
    assert_eq!(receive(stream, &[], limits), events);
    let every: Vec<usize> = (0..stream.len()).collect();
    if stream.len() < 4096 {
        assert_eq!(receive(stream, &every, limits), events, "byte by byte");
        for cut in every {
            assert_eq!(receive(stream, &[cut], limits), events, "cut at {cut}");
        }
    }
}

fn words(words: &[&[u8]]) -> Event {
    Event::Request(words.iter().map(|word| word.to_vec()).collect())
}

#[track_caller]
fn check(stream: &[u8], requests: &[&[&[u8]]]) {
    let events: Vec<Event> =
        requests.iter().map(|request| words(request)).chain([Event::End(false)]).collect();
    check_with(&Limits::default(), stream, &events);
}

#[track_caller]
fn check_error(stream: &[u8], error: ProtocolError, text: &str) {
    check_with(&Limits::default(), stream, &[Event::Error(error)]);
    assert_eq!(error.message(), text);
}

#[test]
fn the_parser_is_small() {
    assert!(size_of::<RequestParser>() <= 64);
}

#[test]
fn whole_requests() {
    check(b"", &[]);
    check(b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]]);
    check(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$2\r\n\r\n\r\n", &[&[b"GET", b""], &[b"\r\n"]]);
    let long = [b'x'; 1234];
    let wire = [request(&[b"SET", b"key", &long[..]]), request(&[b"SET", b"key", &long[..100]])].concat();
    check(&wire, &[&[b"SET", b"key", &long], &[b"SET", b"key", &long[..100]]]);
    let many: Vec<&[u8]> = vec![b"ab"; 300];
    check(&request(&many), &[&many]);
    check(&request(&many[..10]), &[&many[..10]]);
}

#[test]
fn empty_requests_have_no_arguments() {
    check(b"*0\r\n*-1\r\n*-5\r\n*1\r\n$1\r\na\r\n", &[&[], &[], &[], &[b"a"]]);
    check(b"\n\r\n  \t\r\n", &[&[], &[], &[]]);
}

#[test]
fn the_bytes_behind_cr_and_behind_an_argument_are_not_looked_at() {
    check(b"*1\rX$4\rYPINGab*1\r\n$1\r\na\r\n", &[&[b"PING"], &[b"a"]]);
}

#[test]
fn inline_requests() {
    check(b"PING\nPING\r\n", &[&[b"PING"], &[b"PING"]]);
    check(b"SET k \"a\\x00\\n b\"\r\nGET k\n", &[&[b"SET", b"k", b"a\0\n b"], &[b"GET", b"k"]]);
    check(b"a\r\r\n$1\r\n", &[&[b"a"], &[b"$1"]]);
    let long = [vec![b'a'; LINE_LEN_MAX], b"\n".to_vec()].concat();
    check(&long, &[&[&long[..LINE_LEN_MAX]]]);
}

#[test]
fn nul_byte_hides_the_line_end() {
    for stream in
        [&b"\0PING\r\n"[..], b"PI\0NG\n", b"*\x001\r\n", b"*1\r\n$\x001\r\na\r\n", b"*1\r\n\0$1\r\n"]
    {
        check_with(&Limits::default(), stream, &[Event::End(true)]);
    }
}

#[test]
fn wrong_counts() {
    let text = "Protocol error: invalid multibulk length";
    for count in ["", "x", "+1", "01", "-0", " 1", "1 ", "1x", "-", "2147483648", "9223372036854775808"] {
        check_error(format!("*{count}\r\n").as_bytes(), ProtocolError::InvalidMultibulkLength, text);
    }
    let filler = vec![b'1'; LINE_LEN_MAX];
    let error = ProtocolError::TooBigMultibulkCountString;
    let text = "Protocol error: too big mbulk count string";
    check_error(&[b"*", &filler[..]].concat(), error, text);
    check_error(&[b"*", &filler[..], b"\r\n"].concat(), error, text);
    check_error(&[b"*\0", &filler[..]].concat(), error, text);
    check_with(&Limits::default(), &[b"*", &filler[1..]].concat(), &[Event::End(true)]);
}

#[test]
fn announced_counts_reserve_nothing() {
    let mut parser = RequestParser::default();
    let mut spans = Vec::new();
    assert_eq!(parser.next(b"*2147483647\r\n$1\r\n", &Limits::default(), &mut spans), Step::Incomplete);
    assert!(parser.is_mid_request());
    assert!(spans.is_empty() && spans.capacity() <= RESERVE_MAX as usize);
    assert_eq!(parser.partial.capacity(), 0);
    parser.reset();
    assert!(!parser.is_mid_request());
}

#[test]
fn wrong_lengths() {
    let text = "Protocol error: invalid bulk length";
    for len in ["", "x", "-1", "04", "+4", "536870913", "9223372036854775808", "4 "] {
        check_error(
            format!("*2\r\n$1\r\na\r\n${len}\r\n").as_bytes(),
            ProtocolError::InvalidBulkLength,
            text,
        );
    }
    let expected = |byte: u8| ProtocolError::ExpectedDollar(byte);
    check_error(b"*1\r\nxyz\r\n", expected(b'x'), "Protocol error: expected '$', got 'x'");
    check_error(b"*1\r\n\r\n", expected(b'\r'), "Protocol error: expected '$', got ' '");
    check_error(b"*1\r\n\n\r\n", expected(b'\n'), "Protocol error: expected '$', got ' '");
    let filler = vec![b'1'; LINE_LEN_MAX];
    let error = ProtocolError::TooBigBulkCountString;
    let text = "Protocol error: too big bulk count string";
    check_error(&[b"*1\r\n$", &filler[..]].concat(), error, text);
    check_error(&[b"*1\r\n\0", &filler[..]].concat(), error, text);
}

#[test]
fn wrong_inline_requests() {
    let error = ProtocolError::UnbalancedQuotes;
    check_error(b"SET \"a b\r\n", error, "Protocol error: unbalanced quotes in request");
    check_error(b"SET 'a'b\n", error, "Protocol error: unbalanced quotes in request");
    let error = ProtocolError::TooBigInlineRequest;
    let filler = vec![b'a'; LINE_LEN_MAX + 1];
    check_error(&filler, error, "Protocol error: too big inline request");
    check_error(&[&filler[..], b"\n"].concat(), error, "Protocol error: too big inline request");
    check_error(&[b"\0", &filler[..]].concat(), error, "Protocol error: too big inline request");
}

#[test]
fn clients_that_must_authenticate_get_little() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let text = "Protocol error: unauthenticated multibulk length";
    check_with(&limits, b"*11\r\n", &[Event::Error(ProtocolError::UnauthenticatedMultibulkLength)]);
    assert_eq!(ProtocolError::UnauthenticatedMultibulkLength.message(), text);
    check_with(&limits, b"*10\r\n", &[Event::End(true)]);
    let text = "Protocol error: unauthenticated bulk length";
    check_with(&limits, b"*1\r\n$16385\r\n", &[Event::Error(ProtocolError::UnauthenticatedBulkLength)]);
    assert_eq!(ProtocolError::UnauthenticatedBulkLength.message(), text);
    check_with(&limits, b"*1\r\n$16384\r\n", &[Event::End(true)]);
    check_with(&limits, b"*1\r\n$536870913\r\n", &[Event::Error(ProtocolError::InvalidBulkLength)]);
    // Refused even if the buffer holds the whole argument.
    let wire = request(&[&[b'a'; 16385]]);
    check_with(&limits, &wire, &[Event::Error(ProtocolError::UnauthenticatedBulkLength)]);
}

#[test]
fn big_arguments_at_every_cut() {
    let limits = Limits { big_argument_min: 20, ..Limits::default() };
    let (one, two) = ([b'1'; 20], [b'2'; 31]);
    let wire = [request(&[b"MSET", b"a", &one, b"b", &two]), request(&[b"GET", b"a"])].concat();
    let events = [words(&[b"MSET", b"a", &one, b"b", &two]), words(&[b"GET", b"a"]), Event::End(false)];
    check_with(&limits, &wire, &events);
    for first in 0..wire.len() {
        for second in first..wire.len() {
            assert_eq!(receive(&wire, &[first, second], &limits), events, "cut at {first} and {second}");
        }
    }
}

#[test]
fn a_big_argument_ends_a_request_without_further_bytes() {
    let limits = Limits { big_argument_min: 4, ..Limits::default() };
    let mut parser = RequestParser::default();
    let mut spans = vec![Span { start: 1, len: 1 }];
    let wire = b"*2\r\n$1\r\na\r\n$4\r\nab";
    assert_eq!(parser.next(wire, &limits, &mut spans), Step::BigArgument { start: 15, len: 4 });
    assert!(parser.is_mid_request());
    assert_eq!(spans.len(), 1);
    parser.big_argument_done();
    assert_eq!(parser.next(&wire[..15], &limits, &mut spans), Step::Request { consumed: 15 });
    assert_eq!(spans[1], Span { start: 8, len: 1 });
    assert!(spans[2].is_big() && spans[2].len == 0);
    assert!(!parser.is_mid_request());
}

#[test]
fn integers_follow_the_strict_rules() {
    for (text, value) in [("0", Some(0)), ("-0", None), ("", None), ("-", None), ("00", None), ("7", Some(7))]
    {
        assert_eq!(integer(text.as_bytes()), value, "{text}");
    }
    for value in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
        assert_eq!(integer(value.to_string().as_bytes()), Some(value));
    }
    assert_eq!(integer(b"9223372036854775808"), None);
    assert_eq!(integer(b"-9223372036854775809"), None);
}

/// A long request in small pieces takes linear time: starting over at each piece would parse 10^10
/// arguments.
#[test]
fn a_long_request_in_small_pieces_is_read_once() {
    let count = 200_000;
    let wire = [format!("*{count}\r\n").into_bytes(), b"$1\r\nx\r\n".repeat(count)].concat();
    let mut parser = RequestParser::default();
    let mut spans = Vec::new();
    for end in (0..wire.len()).step_by(11) {
        assert_eq!(parser.next(&wire[..end], &Limits::default(), &mut spans), Step::Incomplete);
    }
    let step = parser.next(&wire, &Limits::default(), &mut spans);
    assert_eq!(step, Step::Request { consumed: wire.len() });
    assert_eq!(spans.len(), count);
    assert!(spans.iter().all(|span| &wire[span.range()] == b"x"));
}

fn any_request() -> impl Strategy<Value = (Vec<u8>, Vec<Vec<u8>>)> {
    let argument = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 90..130),
        1 => prop::collection::vec(any::<u8>(), 990..1030),
    ];
    let bulk = prop::collection::vec(argument, 1..14).prop_map(|arguments| {
        let slices: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        (request(&slices), arguments)
    });
    let inline = prop::collection::vec("[a-z$]{1,8}", 1..5).prop_map(|line| {
        let arguments = line.iter().map(|word| word.clone().into_bytes()).collect();
        (format!("{}\r\n", line.join(" ")).into_bytes(), arguments)
    });
    prop_oneof![5 => bulk, 1 => inline]
}

/// Bytes that resemble requests often enough to get far.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"*1\r\n".to_vec()),
        Just(b"*3\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"$30\r\nab".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"$".to_vec()),
        Just(b"*".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
        "[0-9]{1,3}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(token, 0..30).prop_map(|tokens| tokens.concat())
}

fn sorted_cuts(cuts: &[prop::sample::Index], len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).collect();
    cuts.sort_unstable();
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn valid_streams_mean_the_same_however_they_are_cut(
        requests in prop::collection::vec(any_request(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        big_argument_min in prop_oneof![Just(32 * 1024), Just(100usize), Just(1)],
    ) {
        let limits = Limits { big_argument_min, ..Limits::default() };
        let stream: Vec<u8> = requests.iter().flat_map(|(wire, _)| wire.iter().copied()).collect();
        let expected: Vec<Event> = requests
            .into_iter()
            .map(|(_, arguments)| Event::Request(arguments))
            .chain([Event::End(false)])
            .collect();
        prop_assert_eq!(&receive(&stream, &[], &limits), &expected);
        prop_assert_eq!(&receive(&stream, &sorted_cuts(&cuts, stream.len()), &limits), &expected);
        let every: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(&receive(&stream, &every, &limits), &expected);
    }

    #[test]
    fn any_bytes_mean_the_same_however_they_are_cut(
        stream in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        authenticated: bool,
    ) {
        let limits = Limits { authenticated, big_argument_min: 25, bulk_len_max: 900 };
        let whole = receive(&stream, &[], &limits);
        prop_assert_eq!(&receive(&stream, &sorted_cuts(&cuts, stream.len()), &limits), &whole);
        let every: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(&receive(&stream, &every, &limits), &whole);
    }
}
