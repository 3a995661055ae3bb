// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents survive a restart: after a kill during changes, after a rewrite in either form,
//! and after a save.

use braid_tests::RawClient;

use super::restarts::Restarts;
use super::rewrite;

/// Changes the document in every way, for each number once.
fn change(client: &mut RawClient, numbers: std::ops::Range<u32>) {
    for number in numbers {
        for command in [
            format!("JSON.ARRAPPEND doc $.list {number} {number}.5"),
            format!("JSON.SET doc $.members.m{number} '{{\"n\":{number}}}'"),
            "JSON.NUMINCRBY doc $.count 1".to_owned(),
            "JSON.NUMINCRBY doc $..n 0.5".to_owned(),
            format!("JSON.MERGE doc $.merged '{{\"m{}\":{number}}}'", number % 7),
            "JSON.ARRPOP doc $.list 0".to_owned(),
            "JSON.TOGGLE doc $.flag".to_owned(),
            format!("JSON.DEL doc $.members.m{}", number / 2),
        ] {
            let reply = client.call(&command);
            assert!(!reply.is_error(), "{command}: {reply}");
        }
    }
}

#[test]
fn documents_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        client.ok("JSON.SET doc $ '{\"list\":[],\"members\":{},\"merged\":{},\"count\":0,\"flag\":true}'");
        change(&mut client, 0..60);
        let text = client.call("JSON.GET doc").to_string();
        assert!(text.contains("\"count\":60") || text.contains("\\\"count\\\":60"), "{text}");
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(client.call("JSON.GET doc").to_string(), text);
        rewrite(&mut client);
        change(&mut client, 60..90);
        let text = client.call("JSON.GET doc").to_string();
        drop(server);
        let (_server, mut client) = restarts.start();
        assert_eq!(client.call("JSON.GET doc").to_string(), text);
        let digest = client.call("DEBUG DIGEST-VALUE doc").to_string();
        client.ok("DEBUG RELOAD");
        assert_eq!(client.call("DEBUG DIGEST-VALUE doc").to_string(), digest);
        assert_eq!(client.call("JSON.GET doc").to_string(), text);
    }
}
