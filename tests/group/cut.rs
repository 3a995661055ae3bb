// SPDX-License-Identifier: BSD-3-Clause
//! The primary is cut off from its replicas, while all of them reach etcd and the clients.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use braid_tests::server::free_port;
use braid_tests::{Etcd, wait_for};

use crate::Group;
use crate::writer::Writer;

/// The way by which other members reach a server. It can be cut.
#[derive(Clone)]
struct Way {
    port: u16,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn to(server: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let way = Way { port, is_cut: Arc::default(), open: Arc::default() };
        let own = way.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                own.pass(client, server);
            }
        });
        way
    }

    fn pass(&self, client: TcpStream, server: u16) {
        let mut open = self.open.lock().expect("no panic");
        if self.is_cut.load(SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        open.extend([client, server]);
    }

    fn cut(&self) {
        self.is_cut.store(true, SeqCst);
        for socket in self.open.lock().expect("no panic").drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// A group of three whose primary is the only one that can be reached no more. Synchronous writes
/// need `minimum` replicas.
fn cut_off_primary(minimum: &str) -> Option<(Group, usize, Writer)> {
    let more = ["--sync-writes", "yes", "--min-sync-replicas", minimum].map(String::from).into();
    let mut group = Group { etcd: Etcd::start()?, servers: Vec::new(), more };
    let mut ways = Vec::new();
    for index in 0..3 {
        let port = free_port();
        let way = Way::to(port);
        let own = ["--replica-announce-port".to_owned(), way.port.to_string()];
        group.servers.push(group.start_server_with(index, Some(port), &own));
        ways.push(way);
    }
    group.wait_until_in_sync();
    let primary = group.wait_for_primary();
    let writer = Writer::start(&group.servers, true);
    wait_for("some writes", || writer.acknowledged() > 50);
    ways[primary].cut();
    Some((group, primary, writer))
}

#[test]
fn a_primary_that_hears_no_replica_lets_another_member_lead() {
    let Some((group, primary, writer)) = cut_off_primary("1") else { return };
    let second = group.wait_for_other(primary);
    let before = writer.acknowledged();
    wait_for("writes go on", || writer.acknowledged() > before + 50);
    let log = group.servers[primary].log();
    assert!(log.contains("This primary gives up its lease"), "{log}");
    assert_eq!(group.primary(), Some(second), "{}", group.logs());
    // The former primary reaches the new one, and joins it.
    group.wait_until_in_sync();
    assert_eq!((group.primary(), group.epoch()), (Some(second), 2), "{}", group.logs());
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
}

#[test]
fn a_primary_stays_if_no_other_member_could_write_either() {
    let Some((group, primary, writer)) = cut_off_primary("2") else { return };
    wait_for("the primary is alone in sync", || {
        group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 1)
    });
    assert_eq!((group.primary(), group.epoch()), (Some(primary), 1), "{}", group.logs());
    assert!(!group.servers[primary].log().contains("gives up its lease"));
    let _ = writer.stop();
}
