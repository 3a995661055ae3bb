// SPDX-License-Identifier: BSD-3-Clause
//! Logins, and TLS with server and client certificates.

use std::time::Duration;

use braid_etcd::{Client, Error, Options};
use braid_tests::Etcd;
use braid_tests::certificates::{certificates, client_config};

use crate::{client, options};

fn as_user(etcd: &Etcd, user: &str, password: &str) -> Client {
    let options = Options { user: user.into(), password: password.into(), ..options(&[etcd.endpoint()]) };
    Client::new(&options).unwrap()
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, Error>, with: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains(with)), "{error:?}");
    assert!(!error.may_have_been_executed());
}

#[test]
fn logins_are_checked_and_renewed() {
    let Some(mut etcd) = Etcd::start() else { return };
    etcd.enable_auth("bob", "pw", "/b/", "/b0");
    is_refused(as_user(&etcd, "bob", "wrong").get(b"/b/k"), "invalid user ID or password");
    is_refused(as_user(&etcd, "nobody", "pw").get(b"/b/k"), "invalid user ID or password");
    is_refused(client(&etcd).get(b"/b/k"), "user name is empty");
    let bob = as_user(&etcd, "bob", "pw");
    bob.put(b"/b/k", b"1", None).unwrap();
    is_refused(bob.put(b"/c", b"1", None), "permission denied");
    is_refused(bob.watch_prefix(b"/c", 0, Duration::from_secs(2)).map(drop), "permission denied");
    // A restarted etcd does not know its earlier tokens.
    etcd.stop();
    etcd.restart();
    let _ = bob.get(b"/b/k");
    bob.put(b"/b/k", b"2", None).unwrap();
    etcd.stop();
    etcd.restart();
    let _ = bob.status();
    let mut watch = bob.watch_prefix(b"/b/", 0, Duration::from_secs(2)).unwrap();
    let lease = bob.grant(30).unwrap();
    assert_eq!(bob.keep_alive(lease).unwrap(), Some(30));
    bob.put(b"/b/k", b"3", Some(lease)).unwrap();
    assert_eq!(watch.wait().unwrap().unwrap().events.len(), 1);
}

/// All calls of a client with a user, on a key that the user may change.
fn calls_succeed(client: &Client, round: &[u8]) {
    client.put(b"/b/k", round, None).unwrap();
    assert_eq!(client.get(b"/b/k").unwrap().unwrap().value, round);
    let lease = client.grant(30).unwrap();
    assert_eq!(client.keep_alive(lease).unwrap(), Some(30));
    let mut watch = client.watch_prefix(b"/b/", 0, Duration::from_secs(2)).unwrap();
    client.put(b"/b/l", round, Some(lease)).unwrap();
    assert_eq!(watch.wait().unwrap().unwrap().events.len(), 1);
    assert!(client.revoke(lease).unwrap());
}

#[test]
fn authentication_is_switched_on_and_off_under_a_client_with_a_user() {
    let Some(etcd) = Etcd::start() else { return };
    let bob = as_user(&etcd, "bob", "pw");
    calls_succeed(&bob, b"off");
    assert!(bob.has_idle_user());
    etcd.enable_auth("bob", "pw", "/b/", "/b0");
    calls_succeed(&bob, b"on");
    assert!(!bob.has_idle_user());
    is_refused(bob.put(b"/c", b"1", None), "permission denied");
    // Each kind of call may be the first one after the switch.
    let lease = bob.grant(30).unwrap();
    let firsts: [&dyn Fn(); 5] = [
        &|| drop(bob.get(b"/b/k").unwrap()),
        &|| assert!(bob.put(b"/b/k", b"1", None).unwrap() > 0),
        &|| assert_eq!(bob.keep_alive(lease).unwrap(), Some(30)),
        &|| drop(bob.watch_prefix(b"/b/", 0, Duration::from_secs(2)).unwrap()),
        &|| assert!(bob.grant(30).is_ok()),
    ];
    for first in firsts {
        etcd.disable_auth("pw");
        first();
        calls_succeed(&bob, b"off again");
        etcd.enable_auth_again();
        first();
        calls_succeed(&bob, b"on again");
    }
    is_refused(client(&etcd).get(b"/b/k"), "user name is empty");
    is_refused(as_user(&etcd, "bob", "wrong").get(b"/b/k"), "invalid user ID or password");
}

#[test]
fn certificates_of_both_sides_are_checked() {
    let (folder, other) = (certificates(), certificates());
    let (right, wrong) = (folder.path(), other.path());
    let Some(etcd) = Etcd::start_tls(right, true) else { return };
    let with = |config| Client::new(&Options { tls: Some(config), ..options(&[etcd.endpoint()]) }).unwrap();
    let client = with(client_config(right, Some(right)));
    client.put(b"k", b"v", None).unwrap();
    let mut watch = client.watch_prefix(b"k", 0, Duration::from_secs(2)).unwrap();
    // Larger than a TLS record.
    client.put(b"k", &vec![b'x'; 100_000], None).unwrap();
    assert_eq!(watch.wait().unwrap().unwrap().events.len(), 1);
    assert_eq!(watch.wait().unwrap(), None, "a pause does not break the stream");
    assert_eq!(client.get(b"k").unwrap().unwrap().value.len(), 100_000);
    client.delete(b"k").unwrap();
    assert_eq!(watch.wait().unwrap().unwrap().events.len(), 1);

    is_refused(with(client_config(wrong, Some(right))).get(b"k"), "certificate");
    for stranger in [client_config(right, None), client_config(right, Some(wrong))] {
        let error = with(stranger).get(b"k").unwrap_err();
        let is_told =
            matches!(&error, Error::Refused(text) | Error::Unreachable(text) if text.contains("certificate"));
        assert!(is_told, "{error:?}");
    }
    // Without TLS.
    let address = format!("http://127.0.0.1:{}", etcd.port());
    let error = Client::new(&options(&[&address])).unwrap().put(b"k", b"v", None).unwrap_err();
    assert!(matches!(error, Error::Invalid(_) | Error::Unreachable(_)), "{error:?}");
}

#[test]
fn etcd_without_tls_is_reported_as_unreachable() {
    let folder = certificates();
    let Some(etcd) = Etcd::start() else { return };
    let address = format!("https://127.0.0.1:{}", etcd.port());
    let options = Options { tls: Some(client_config(folder.path(), None)), ..options(&[&address]) };
    let error = Client::new(&options).unwrap().put(b"k", b"v", None).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
}
