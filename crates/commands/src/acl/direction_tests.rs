// SPDX-License-Identifier: BSD-3-Clause
//! Read and write permissions on keys, by selectors: reading a key needs one, changing it the
//! other, however the request arrives. The expectations follow from Redis's key specifications.

use crate::testing::Tester;

/// The access that a request needs to key `x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    Read,
    Write,
    Both,
    /// Only the key's existence or length: any permission on the key will do.
    Any,
}

use Needs::{Any, Both, Read, Write};

const REQUESTS: &[(&str, Needs)] = &[
    // Sources.
    ("GET x", Read),
    ("MGET a x", Read),
    ("GETRANGE x 0 1", Read),
    ("DIGEST x", Read),
    ("SINTERSTORE a x", Read),
    ("SINTERSTORE a a x", Read),
    ("SUNIONSTORE a x", Read),
    ("SDIFFSTORE a a x", Read),
    ("ZRANGESTORE a x 0 -1", Read),
    ("ZUNIONSTORE a 2 a x", Read),
    ("ZINTERSTORE a 1 x", Read),
    ("ZDIFFSTORE a 2 a x", Read),
    ("BITOP AND a a x", Read),
    ("PFMERGE a x", Read),
    ("COPY x a", Read),
    ("COPY x a DB 1 REPLACE", Read),
    ("SORT x STORE a", Read),
    ("SORT_RO x", Read),
    ("GEORADIUS x 1 1 1 m", Read),
    ("GEORADIUS x 1 1 1 m STORE a", Read),
    ("GEORADIUSBYMEMBER x m 1 m STOREDIST a", Read),
    ("GEOSEARCHSTORE a x FROMLONLAT 1 1 BYRADIUS 1 m", Read),
    ("XREAD STREAMS x 0", Read),
    ("XREADGROUP GROUP g c STREAMS a x > >", Read),
    ("LCS a x", Read),
    ("DUMP x", Read),
    // Destinations.
    ("SET x 1", Write),
    ("MSET a 1 x 1", Write),
    ("APPEND x 1", Write),
    ("SINTERSTORE x a", Write),
    ("SUNIONSTORE x a", Write),
    ("SDIFFSTORE x a", Write),
    ("ZRANGESTORE x a 0 -1", Write),
    ("ZUNIONSTORE x 1 a", Write),
    ("ZINTERSTORE x 1 a", Write),
    ("ZDIFFSTORE x 1 a", Write),
    ("BITOP AND x a a", Write),
    ("COPY a x", Write),
    ("COPY a x DB 1 REPLACE", Write),
    ("RENAME a x", Write),
    ("SORT a STORE x", Write),
    ("GEORADIUS a 1 1 1 m STORE x", Write),
    ("GEORADIUS a 1 1 1 m STOREDIST x", Write),
    ("GEORADIUSBYMEMBER a m 1 m STORE x", Write),
    ("GEOSEARCHSTORE x a FROMLONLAT 1 1 BYRADIUS 1 m", Write),
    ("LMOVE a x LEFT LEFT", Write),
    ("RPOPLPUSH a x", Write),
    ("SMOVE a x m", Write),
    ("LPUSH x 1", Write),
    ("ZADD x 1 m", Write),
    ("XADD x * f v", Write),
    ("XDELEX x IDS 1 1-0", Write),
    ("XACKDEL x g IDS 1 1-0", Write),
    ("DEL x", Write),
    ("DELEX x", Write),
    ("EXPIRE x 100", Write),
    ("RESTORE x 0 nothing", Write),
    // Requests that return what they change.
    ("INCR x", Both),
    ("GETSET x 1", Both),
    ("SET x 1 GET", Both),
    ("SET x 1 EX 10 IFNE 2", Both),
    ("SET x 1 IFDEQ 0123456789abcdef", Both),
    ("DELEX x IFEQ 1", Both),
    ("GETDEL x", Both),
    ("LPOP x", Both),
    ("LMOVE x a LEFT LEFT", Both),
    ("SMOVE x a m", Both),
    ("SPOP x", Both),
    ("ZPOPMIN x", Both),
    ("RENAME x a", Both),
    ("PFMERGE x a", Both),
    ("BITFIELD x SET u4 0 1", Both),
    // Requests that reveal nothing of the content.
    ("EXISTS x", Any),
    ("STRLEN x", Any),
    ("TYPE x", Any),
    ("LLEN x", Any),
];

/// A script that runs its arguments as a command; another that first reads an allowed key.
const RUN: &str = "return redis.pcall(unpack(ARGV))";
const READ_AND_RUN: &str = "redis.pcall('get', 'a') return redis.pcall(unpack(ARGV))";

#[test]
fn sources_want_the_right_to_read_and_destinations_the_right_to_write() {
    for (right, allowed) in [("%R~x", [Read, Any]), ("%W~x", [Write, Any])] {
        let mut tester = Tester::new();
        let library = format!(
            "#!lua name=l\nredis.register_function('run', function(KEYS, ARGV) {RUN} end) \
             redis.register_function{{function_name='look', flags={{'no-writes'}}, callback=function(KEYS, ARGV) {RUN} end}}"
        );
        assert!(tester.run_args(0, &[b"FUNCTION", b"LOAD", library.as_bytes()]).starts_with(b"$1"));
        tester.client();
        // The permission comes from a selector; the user's own rules cover another key.
        let user = format!("ACL SETUSER u on nopass allcommands ~a (allcommands ~a {right})");
        assert_eq!(tester.run(&user), "+OK\r\n");
        assert_eq!(tester.run_as(1, "AUTH u x"), "+OK\r\n");
        for (line, needs) in REQUESTS {
            let expected = allowed.contains(needs);
            let words: Vec<&str> = line.split(' ').collect();
            let mut run = |request: &[&str]| {
                let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
                String::from_utf8_lossy(&tester.run_args(1, &words)).into_owned()
            };
            let mut attempt = |way: &str, request: &[&str]| {
                let reply = run(request);
                let refused = reply.contains("No permissions") || reply.contains("ACL failure");
                assert_eq!(!refused, expected, "{right}, {way}: {line}: {reply}");
            };
            attempt("directly", &words);
            attempt("in a script", &[&["EVAL", RUN, "0"][..], &words].concat());
            attempt("in a function", &[&["FCALL", "run", "0"][..], &words].concat());
            let reads = matches!(needs, Read | Any);
            let writes_elsewhere = ["STORE", "DB", "BITOP", "PFMERGE", "COPY", "XREADGROUP"]
                .iter()
                .any(|word| line.contains(word))
                || line.starts_with("GEORADIUS");
            if reads && !writes_elsewhere {
                // Under the locks of its declared keys the script needs an undeclared key, with
                // this request or with the preceding one.
                for declared in ["a", "x"] {
                    // Running a script requires permissions on its declared keys.
                    if declared == "x" && right == "%W~x" {
                        continue;
                    }
                    attempt("by a reader", &[&["EVAL_RO", READ_AND_RUN, "1", declared][..], &words].concat());
                }
                attempt("by a function that reads", &[&["FCALL_RO", "look", "1", "a"][..], &words].concat());
            }
            run(&["MULTI"]);
            let queued = run(&words);
            assert_eq!(queued == "+QUEUED\r\n", expected, "{right}, queued: {line}: {queued}");
            let ended = run(&["EXEC"]);
            assert_eq!(!ended.contains("EXECABORT"), expected, "{right}: {line}: {ended}");
            assert!(!ended.contains("NOPERM"), "{right}: {line}: {ended}");
        }
    }
}
