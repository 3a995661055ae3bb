// SPDX-License-Identifier: BSD-3-Clause
//! Suggestions survive a restart: after a kill, after a rewrite in either form, and after a save;
//! and a replica has them.

use braid_tests::RawClient;

use super::restarts::{Restarts, digests};

fn add(client: &mut RawClient, texts: std::ops::Range<u32>) {
    for number in texts {
        let payload = if number % 3 == 0 { format!(" PAYLOAD p{number}") } else { String::new() };
        let added = client.call(&format!("FT.SUGADD words text:{number} {}{payload}", number % 7 + 1));
        assert!(!added.is_error(), "{added}");
    }
}

fn digest(client: &mut RawClient) -> String {
    assert_eq!(client.call("TYPE empty").text(), "trietype0");
    digests(client, &["words", "empty"])
}

#[test]
fn suggestions_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let mut parts = [0..300, 300..400, 400..410].into_iter();
        let change = |client: &mut RawClient| {
            add(client, parts.next().expect("another part"));
            if parts.len() == 2 {
                assert_eq!(client.call("FT.SUGADD words text:5 1.5 INCR").to_string(), "(integer) 300");
                assert_eq!(client.call("FT.SUGDEL words text:6").to_string(), "(integer) 1");
                assert_eq!(client.call("FT.SUGADD empty x 0").to_string(), "(integer) 0");
            }
        };
        restarts.keep(change, digest);
    }
}
