// SPDX-License-Identifier: BSD-3-Clause
//! Synchronous writes: replies that wait for every in-sync member of a group, and the fence. The
//! replicas are connections of the test, which controls their acknowledgements; DEBUG IN-SYNC and
//! DEBUG SERVE-UNTIL replace the group's decisions.
//!
//!   cargo test -p braid-tests --test sync
//!
//! Each held reply is shown to be held (nothing arrives for a while), and then to arrive.

mod fence;
mod holding;
mod member;
mod minimum;
mod settings;
mod timing;

use std::time::Duration;

use braid_tests::{RawClient, TestServer, Value, request};

pub use member::Member;

/// Time without any bytes after which a reply counts as held.
const A_WHILE: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(20);

pub const UNCERTAIN: &str =
    "UNCERTAIN The outcome is unknown: not every in-sync replica has acknowledged in time.";

/// A group's primary, and a client whose replies do not wait.
pub struct Group {
    pub server: TestServer,
    pub admin: RawClient,
}

impl Group {
    pub fn start(arguments: &[&str]) -> Group {
        let usual = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1000",
            "--enable-debug-command",
            "yes",
            "--sync-timeout",
            "20000",
        ];
        let server = TestServer::start(&[&usual[..], arguments].concat());
        let admin = server.connect();
        Group { server, admin }
    }

    /// A group with these members in addition to the primary, at epoch 1; all have acknowledged.
    pub fn with(members: &[&str], arguments: &[&str]) -> (Group, Vec<Member>) {
        let mut group = Group::start(arguments);
        group.set(1, members);
        let mut attached: Vec<Member> = members.iter().map(|name| Member::attach(&group, name, 1)).collect();
        for member in &mut attached {
            member.catch_up(&mut group.admin);
            member.acknowledge();
        }
        (group, attached)
    }

    pub fn set(&mut self, epoch: u64, members: &[&str]) {
        let size = members.len() + 1;
        self.admin.ok(format!("DEBUG IN-SYNC {epoch} {size} {}", members.join(" ")).trim_end());
    }

    /// A client whose replies wait.
    pub fn durable(&self) -> RawClient {
        let mut client = self.server.connect();
        client.ok("CLIENT DURABLE ON");
        client
    }
}

/// Sends a request whose reply is held.
#[track_caller]
pub fn send_held(client: &mut RawClient, text: &str) {
    client.send(&request(text));
    assert_held(client);
}

#[track_caller]
pub fn assert_held(client: &mut RawClient) {
    client.set_patience(A_WHILE).expect("a time-out");
    if let Ok(early) = client.try_read() {
        panic!("the reply is not held: {early:?}");
    }
    client.set_patience(LONG).expect("a time-out");
}

/// Asserts that an error replaces all pending replies, and that the connection then ends.
#[track_caller]
pub fn assert_uncertain(client: &mut RawClient) {
    assert_eq!(client.read().text(), UNCERTAIN);
    assert_eq!(client.read_to_close(), Some(Vec::new()));
}

pub fn integer(value: i64) -> Value {
    Value::Integer(value)
}
