// SPDX-License-Identifier: BSD-3-Clause
//! Endpoints that fail, hang, or are not etcd.

use std::time::{Duration, Instant};

use braid_etcd::{Client, Error, Options};
use braid_tests::server::{TestServer, free_port};
use braid_tests::{Etcd, wait_for};

use crate::{client, options};

#[test]
fn etcd_client_fails_over_when_one_member_dies() {
    let Some(mut members) = Etcd::start_cluster(3) else { return };
    let endpoints: Vec<_> = members.iter().map(|member| member.endpoint().to_owned()).collect();
    let client = Client::new(&options(&endpoints.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    client.put(b"k", b"1", None).unwrap();
    assert_eq!(client.endpoint(), endpoints[0]);
    members[0].kill();
    // The first call may find the old connection, or the other members without a leader.
    wait_for("the others to answer", || client.put(b"k", b"2", None).is_ok());
    assert_ne!(client.endpoint(), endpoints[0]);
    assert_eq!(client.get(b"k").unwrap().unwrap().value, b"2");
    // A new client finds the first endpoint unreachable and tries the next one, within a single
    // call.
    let fresh = Client::new(&options(&endpoints.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    assert_eq!(fresh.get(b"k").unwrap().unwrap().value, b"2");
    assert_eq!(fresh.endpoint(), endpoints[1]);
}

#[test]
fn a_stopped_etcd_is_unreachable() {
    let Some(mut etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    client.put(b"k", b"v", None).unwrap();
    etcd.kill();
    // A connection that was left open may be tried first.
    let _ = client.get(b"k");
    let error = client.put(b"k", b"v", None).unwrap_err();
    assert!(matches!(&error, Error::Unreachable(text) if text.contains("connection refused")), "{error:?}");
    assert!(!error.may_have_been_executed());
    etcd.restart();
    assert_eq!(client.get(b"k").unwrap().unwrap().version, 1);
}

#[test]
fn a_paused_etcd_leaves_the_outcome_unknown() {
    let Some(etcd) = Etcd::start() else { return };
    let timeout = Duration::from_secs(1);
    let client = Client::new(&Options { request_timeout: timeout, ..options(&[etcd.endpoint()]) }).unwrap();
    wait_for("etcd to answer", || client.put(b"k", b"1", None).is_ok());
    etcd.pause();
    let start = Instant::now();
    let error = client.put(b"k", b"2", None).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)) && error.may_have_been_executed(), "{error:?}");
    assert!(start.elapsed() >= timeout && start.elapsed() < timeout * 3, "{:?}", start.elapsed());
    // From now on the client asks for the version first, so that it is certain that nothing was
    // executed.
    let error = client.put(b"k", b"3", None).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    etcd.resume();
    wait_for("etcd to answer", || client.get(b"k").is_ok());
    // Either value is right: etcd 3.4 drops a request whose client has disconnected, if it
    // notices in time.
    let value = client.get(b"k").unwrap().unwrap().value;
    assert!(value == b"1" || value == b"2");
}

#[test]
fn something_else_is_no_etcd() {
    let server = TestServer::start(&[]);
    let address = format!("127.0.0.1:{}", server.port());
    let client = Client::new(&options(&[&address])).unwrap();
    let error = client.put(b"k", b"v", None).unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("is not an etcd")), "{error:?}");

    let nobody = format!("127.0.0.1:{}", free_port());
    let client = Client::new(&options(&[&nobody, "no-such-host.invalid:2379"])).unwrap();
    let error = client.get(b"k").unwrap_err();
    let names_both = |text: &String| text.contains(&nobody) && text.contains("no-such-host.invalid");
    assert!(matches!(&error, Error::Unreachable(text) if names_both(text)), "{error:?}");

    // One working endpoint is enough.
    let Some(etcd) = Etcd::start() else { return };
    let client = Client::new(&options(&[&nobody, &address, etcd.endpoint()])).unwrap();
    client.put(b"k", b"v", None).unwrap();
    assert_eq!(client.endpoint(), etcd.endpoint());
}
