// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the client against a server that gives wrong answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Client, Error, Options, Transaction};

const VERSION: &str = r#"{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}"#;

/// What a server does with a request for the path.
type Answer = dyn Fn(&str, &mut TcpStream) + Send + Sync;

/// A server that answers `/version` as etcd does, and everything else with `answer`. It counts
/// the requests other than `/version`.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    raw(move |path, socket| match path {
        "/version" => reply(socket, 200, VERSION),
        path => answer(path, socket),
    })
}

fn raw(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (answer, count): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            thread::spawn(move || converse(socket.unwrap(), &*answer, &count));
        }
    });
    (address, counted)
}

/// One request per connection, which keeps the fake simple.
fn converse(mut socket: TcpStream, answer: &Answer, count: &AtomicUsize) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    let (head, length) = loop {
        let Ok(size @ 1..) = socket.read(&mut chunk) else { return };
        request.extend_from_slice(&chunk[..size]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
            break (head.to_owned(), length);
        }
    };
    while request.len() < head.len() + 4 + length {
        let Ok(size @ 1..) = socket.read(&mut chunk) else { return };
        request.extend_from_slice(&chunk[..size]);
    }
    let path = head.split(' ').nth(1).unwrap();
    if path != "/version" {
        count.fetch_add(1, Ordering::SeqCst);
    }
    answer(path, &mut socket);
}

fn reply(socket: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    let _ =
        write!(socket, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
}

fn options(endpoints: &[&str]) -> Options {
    Options {
        endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(10),
        ..Options::default()
    }
}

fn client(endpoint: &str) -> Client {
    Client::new(&options(&[endpoint])).unwrap()
}

/// The error of a put that gets this answer. The put is sent exactly once.
fn error_of(status: u16, body: &'static str) -> Error {
    let (address, count) = serve(move |_, socket| reply(socket, status, body));
    let error = client(&address).put(b"k", b"v", None).unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 1, "a request is not repeated: {error:?}");
    error
}

#[test]
fn answers_that_are_not_etcds_are_invalid() {
    for body in ["", "garbage", "[]", "null", "1", "{}", r#"{"header":1}"#, r#"{"header":{"revision":"x"}}"#]
    {
        assert!(matches!(error_of(200, body), Error::Invalid(_)), "{body}");
    }
    for body in [r#"{"header":{"revision":true}}"#, r#"{"header":{"revision":"99999999999999999999"}}"#] {
        assert!(matches!(error_of(200, body), Error::Invalid(_)), "{body}");
    }
    assert!(matches!(error_of(404, "Not Found"), Error::Invalid(text) if text.contains("gateway")));
    assert!(matches!(error_of(418, "{}"), Error::Invalid(_)));
    for status in [301, 302, 307, 308] {
        let (other, redirected) = serve(|_, socket| reply(socket, 200, "{}"));
        let (address, _) = serve(move |_, socket| {
            let _ = write!(
                socket,
                "HTTP/1.1 {status} X\r\nLocation: http://{other}/v3/kv/put\r\nConnection: close\r\n\
                 Content-Length: 0\r\n\r\n"
            );
        });
        let error = client(&address).put(b"k", b"v", None).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("redirect")), "{error:?}");
        assert_eq!(redirected.load(Ordering::SeqCst), 0, "a redirect is not followed");
    }
}

#[test]
fn codes_tell_refusals_from_failures() {
    let refused = |code: u32, status| {
        let body = format!(r#"{{"error":"why","message":"why","code":{code}}}"#);
        error_of(status, body.leak())
    };
    for code in [3, 5, 6, 7, 9, 11] {
        assert!(matches!(refused(code, 400), Error::Refused(text) if text.contains("why")), "{code}");
    }
    // "No space" is also returned for changes that were made.
    for code in [1, 2, 4, 8, 10, 13, 14, 15, 99] {
        assert!(matches!(refused(code, 429), Error::Unknown(_)), "{code}");
    }
    assert!(matches!(refused(3, 500), Error::Unknown(_)), "a server error is not a refusal");
    for body in ["", "bad gateway"] {
        assert!(matches!(error_of(502, body), Error::Unknown(_)));
        assert!(matches!(error_of(401, body), Error::Refused(_)));
        assert!(matches!(error_of(403, body), Error::Refused(_)));
    }
    let gone = r#"{"error":"etcdserver: requested lease not found","code":5}"#;
    assert_eq!(error_of(404, gone), Error::LeaseGone);
    let compacted = r#"{"message":"etcdserver: mvcc: required revision has been compacted","code":11}"#;
    assert_eq!(error_of(400, compacted), Error::Compacted { oldest: 0 });
}

#[test]
fn lost_reply_leaves_the_outcome_unknown() {
    let heads: [&'static str; 4] = [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\":",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{\"header\":",
    ];
    for head in heads {
        let (address, count) = serve(move |_, socket| drop(socket.write_all(head.as_bytes())));
        let error = client(&address).put(b"k", b"v", None).unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{head}: {error:?}");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
    let (address, _) = serve(|_, socket| drop(socket.write_all(b"+PONG\r\n\r\n")));
    assert!(client(&address).put(b"k", b"v", None).unwrap_err().may_have_been_executed());
}

#[test]
fn another_endpoint_is_asked_only_if_nothing_was_sent() {
    let (good, asked) = serve(|_, socket| reply(socket, 200, r#"{"header":{"revision":"7"}}"#));
    let (losing, _) = serve(|_, _| ());
    let (stranger, _) = raw(|_, _| ());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let first = Client::new(&options(&[&losing, &good])).unwrap();
    assert!(matches!(first.put(b"k", b"v", None), Err(Error::Unknown(_))));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // The next call starts with the next endpoint.
    assert_eq!(first.put(b"k", b"v", None), Ok(7));
    assert_eq!(first.endpoint(), format!("http://{good}"));
    let skipping = Client::new(&options(&[&nobody, &stranger, &good])).unwrap();
    assert_eq!(skipping.put(b"k", b"v", None), Ok(7));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn versions_are_checked_before_anything_is_sent() {
    for (version, is_new) in
        [("3.3.27", false), ("3.4.0", true), ("3.6.1", true), ("4.0", true), ("x", false)]
    {
        let (address, count) = raw(move |path, socket| match path {
            "/version" => reply(socket, 200, &json!({"etcdserver": version}).to_string()),
            _ => reply(socket, 200, r#"{"header":{}}"#),
        });
        let result = client(&address).get(b"k");
        assert_eq!(result.is_ok(), is_new, "{version}: {result:?}");
        assert_eq!(count.load(Ordering::SeqCst), usize::from(is_new));
    }
}

#[test]
fn a_call_ends_in_time_however_slowly_the_answer_comes() {
    let drip = |socket: &mut TcpStream, text: &str| {
        for byte in text.bytes().cycle() {
            if socket.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let (in_body, _) = serve(move |_, socket| {
        let _ = socket.write_all(head.as_bytes());
        drip(socket, " ");
    });
    let (in_head, _) = serve(move |_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n");
        drip(socket, "X-Header: y\r\n");
    });
    let (silent, _) = serve(|_, _| thread::sleep(Duration::from_secs(20)));
    for address in [in_body, in_head, silent] {
        let timeout = Duration::from_millis(700);
        let options = Options { request_timeout: timeout, ..options(&[&address]) };
        let client = Client::new(&options).unwrap();
        let start = Instant::now();
        let error = client.put(b"k", b"v", None).unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{error:?}");
        assert!(start.elapsed() < timeout * 4, "{:?}", start.elapsed());
    }
}

#[test]
fn an_endless_answer_is_cut_off() {
    let (address, _) = serve(|_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while socket.write_all(&[b' '; 65536]).is_ok() {}
    });
    let error = client(&address).put(b"k", b"v", None).unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("too long")), "{error:?}");
    let error = client(&address).watch_prefix(b"k", 0, Duration::from_secs(5)).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("too long")), "{error:?}");
}

#[test]
fn no_login_is_needed_while_authentication_is_off() {
    // As etcd 3.5 answers; 3.4 answers with status 412.
    let body = r#"{"error":"etcdserver: authentication is not enabled","code":9}"#;
    let (address, count) = serve(move |path, socket| match path {
        "/v3/auth/authenticate" => reply(socket, 400, body),
        _ => reply(socket, 200, r#"{"header":{"revision":"7"}}"#),
    });
    let client = Client::new(&Options { user: "u".into(), ..options(&[&address]) }).unwrap();
    assert_eq!((client.put(b"k", b"v", None), client.put(b"k", b"v", None)), (Ok(7), Ok(7)));
    assert_eq!((client.has_idle_user(), count.load(Ordering::SeqCst)), (true, 3), "one login, two requests");
}

#[test]
fn a_login_is_renewed_once() {
    let body = r#"{"error":"etcdserver: invalid auth token","code":16}"#;
    let (address, count) = serve(move |path, socket| match path {
        "/v3/auth/authenticate" => reply(socket, 200, r#"{"header":{},"token":"t"}"#),
        _ => reply(socket, 401, body),
    });
    let options = Options { user: "u".into(), ..options(&[&address]) };
    let error = Client::new(&options).unwrap().get(b"k").unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains("invalid auth token")), "{error:?}");
    assert_eq!(count.load(Ordering::SeqCst), 4, "two logins, two requests");
    // An unknown outcome of a login is not an unknown outcome of the request.
    let (address, _) = serve(|_, _| ());
    let options = Options { endpoints: vec![address], ..options };
    assert!(matches!(Client::new(&options).unwrap().get(b"k"), Err(Error::Unreachable(_))));
    // A token that does not fit in a header.
    let (address, _) = serve(|_, socket| reply(socket, 200, "{\"header\":{},\"token\":\"a\\nb\"}"));
    let options = Options { endpoints: vec![address], ..options };
    assert!(Client::new(&options).unwrap().get(b"k").is_err());
}

/// etcd needs longer for a login than calls wait: they do not begin others.
#[test]
fn calls_share_a_login_that_takes_longer_than_they_do() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opened = Arc::clone(&gate);
    let (address, count) = serve(move |path, socket| match path {
        "/v3/auth/authenticate" => {
            let mut is_open = opened.0.lock();
            while !*is_open {
                opened.1.wait(&mut is_open);
            }
            reply(socket, 200, r#"{"header":{},"token":"t"}"#);
        }
        _ => reply(socket, 200, r#"{"header":{"revision":"7"}}"#),
    });
    let timeout = Duration::from_secs(1);
    let options = Options { user: "u".into(), request_timeout: timeout, ..options(&[&address]) };
    let client = Client::new(&options).unwrap();
    std::thread::scope(|scope| {
        let call = || client.put(b"k", b"v", None);
        let calls = [scope.spawn(call), scope.spawn(call), scope.spawn(call)];
        for call in calls {
            let error = call.join().unwrap().unwrap_err();
            assert!(matches!(&error, Error::Unreachable(text) if text.contains("in time")), "{error:?}");
        }
    });
    *gate.0.lock() = true;
    gate.1.notify_all();
    assert_eq!(client.put(b"k", b"v", None), Ok(7));
    assert_eq!(count.load(Ordering::SeqCst), 2, "one login, one request");
}

/// JSON that looks like a reply, with arbitrary fields.
fn replies() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "header",
        "revision",
        "kvs",
        "key",
        "value",
        "mod_revision",
        "version",
        "lease",
        "TTL",
        "ID",
        "more",
        "succeeded",
        "responses",
        "response_range",
        "result",
        "error",
        "created",
        "canceled",
        "events",
        "kv",
        "type",
        "compact_revision",
        "cancel_reason",
        "token",
        "leader",
        "deleted",
        "code",
        "grpc_code",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i64>().prop_map(|number| Value::from(number.to_string())),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9+/=]{0,8}".prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_reply_makes_a_decoder_panic(reply in replies()) {
        let _ = crate::kv::KeyValue::decode_all(&reply);
        let _ = Transaction::default().decode(&reply);
        let _ = crate::json::revision_of(&reply);
        let _ = crate::watch::decode(&reply);
        if let Ok(result) = crate::http::stream_message("a", &reply) {
            let _ = crate::watch::decode(result);
        }
    }

    #[test]
    fn pairs_are_decoded_as_etcd_writes_them(key: Vec<u8>, value: Vec<u8>, revision in 1..i64::MAX) {
        let mut pair = json!({"key": crate::json::encode(&key), "mod_revision": revision.to_string()});
        if !value.is_empty() {
            pair["value"] = crate::json::encode(&value);
        }
        let pair = crate::kv::KeyValue::decode(&pair).unwrap();
        prop_assert_eq!((pair.key, pair.value, pair.mod_revision), (key, value, revision));
        prop_assert_eq!((pair.version, pair.lease), (0, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever bytes an answer has, a call ends with an error or a result.
    #[test]
    fn no_answer_makes_a_call_panic(body in prop_oneof![
        replies().prop_map(|reply| reply.to_string().into_bytes()),
        any::<Vec<u8>>(),
    ], status in prop::sample::select(vec![200, 204, 304, 400, 401, 404, 500])) {
        let (address, _) = serve(move |_, socket| {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = socket.write_all(&[head.as_bytes(), &body].concat());
        });
        let client = client(&address);
        let _ = client.get_prefix(b"k");
        let _ = client.transaction(&Transaction::default());
        let _ = client.keep_alive(client.grant(1).unwrap_or(crate::LeaseId(1)));
        let _ = client.status();
        if let Ok(mut watch) = client.watch_prefix(b"k", 1, Duration::from_secs(1)) {
            let _ = watch.wait();
            let _ = watch.wait();
        }
    }
}

#[test]
fn clock_offset_is_computed_from_the_date_header() {
    let dated = |date: String| {
        let (address, _) = serve(move |_, socket| {
            let body = r#"{"header":{"revision":"5"}}"#;
            let length = body.len();
            let _ = write!(
                socket,
                "HTTP/1.1 200 OK\r\n{date}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        });
        let client = Client::new(&options(&[&address])).unwrap();
        client.get(b"k").unwrap();
        client.seconds_ahead()
    };
    let day = Duration::from_secs(86_400);
    let date = |time| format!("Date: {}\r\n", httpdate::fmt_http_date(time));
    let now = std::time::SystemTime::now();
    let near = |seconds: i64, wanted: i64| (seconds - wanted).abs() < 60;
    assert!(near(dated(date(now - day)), 86_400));
    assert!(near(dated(date(now + day)), -86_400));
    assert_eq!(dated(String::new()), 0);
    assert_eq!(dated("Date: yesterday\r\n".into()), 0);
}
