// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets survive a restart: after a kill during changes, after a rewrite in either form, and
//! after a save; and the links are then those from before.

use braid_tests::server::is_braid;
use braid_tests::{RawClient, wait_for};

use super::DataFolder;

/// Adds, replaces and removes elements of a plain and of a projected set.
fn change(client: &mut RawClient, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let values = format!("{} {} {} {}", number % 7, number % 11, number % 13, 1.5 - f64::from(number));
        for command in [
            format!("VADD v VALUES 4 {values} e{number} SETATTR '{{\"n\":{number}}}'"),
            format!("VADD v VALUES 4 2 1 {} 3 e{}", number % 5, number / 2),
            format!("VADD p REDUCE 3 VALUES 4 {values} e{number} NOQUANT M 4"),
            format!("VSETATTR v e{} text{number}", number / 3),
            format!("VREM v e{}", number / 4),
        ] {
            let reply = client.call(&command);
            assert!(!reply.is_error(), "{command}: {reply}");
        }
    }
}

/// What there is to see of both sets.
fn look(client: &mut RawClient) -> Vec<String> {
    let mut seen = vec![client.call("DEBUG DIGEST-VALUE v p").to_string()];
    for number in 0..90 {
        for command in [
            format!("VLINKS v e{number}"),
            format!("VGETATTR v e{number}"),
            format!("VEMB p e{number}"),
            format!("VLINKS p e{number} WITHSCORES"),
            format!("VSIM p VALUES 4 1 {number} 2 3 WITHSCORES"),
        ] {
            seen.push(client.call(&command).to_string());
        }
    }
    seen
}

#[test]
fn vector_sets_survive_kills_rewrites_and_saves() {
    if !is_braid() {
        return;
    }
    for preamble in ["yes", "no"] {
        let place = DataFolder::new();
        let arguments =
            ["--appendfsync", "always", "--aof-use-rdb-preamble", preamble, "--enable-debug-command", "yes"];
        let server = place.start(&arguments);
        let mut client = server.connect();
        change(&mut client, 0..60);
        let before = look(&mut client);
        // Dropping the server kills it.
        drop(server);
        let server = place.start(&arguments);
        let mut client = server.connect();
        assert_eq!(look(&mut client), before);
        client.call("BGREWRITEAOF");
        wait_for("the rewrite is over", || {
            client.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
                && client.info_field("persistence", "aof_last_bgrewrite_status").as_deref() == Some("ok")
                && client.info_field("persistence", "aof_rewrites").as_deref() == Some("1")
        });
        change(&mut client, 60..90);
        let before = look(&mut client);
        drop(server);
        let server = place.start(&arguments);
        let mut client = server.connect();
        assert_eq!(look(&mut client), before);
        client.ok("DEBUG RELOAD");
        assert_eq!(look(&mut client), before);
    }
}
