// SPDX-License-Identifier: BSD-3-Clause
//! Tests of routes and of the parsed input that clients carry.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use braid_clients::{Address, ClientRecord};
use braid_config::Config;
use braid_executor::engine::Start;
use braid_executor::{Engine, Session};
use braid_net::stream::Stream;

use super::*;
use crate::client::Deferral;
use crate::client_set::{ClientSet, Settings};

fn engine(threads: usize) -> Arc<Engine> {
    let config = Config::new();
    config.load_text(&format!("io-threads {threads}\nshards 16\n")).expect("valid settings");
    braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine")
}

/// A client, and the other end of its connection.
fn client(engine: &Engine, id: u64) -> (Box<Client>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_nonblocking(true).expect("a socket that does not block");
    let record = ClientRecord::new(id, 0, Address::Unknown, Address::Unknown, 0);
    let session = Session::new(Arc::new(record), &engine.attention, &engine.acl);
    (Box::new(Client::new(Stream::new(OwnedFd::from(ours), None), session)), theirs)
}

/// Waits until a loop's notifier is rung. False after a long time.
fn hears(engine: &Engine, slot: usize) -> bool {
    let mailbox = &engine.clients.mailboxes[slot];
    let notifier = mailbox.notifier();
    let mut polled = [rustix::event::PollFd::new(&notifier, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    let rung = rustix::event::poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0);
    mailbox.acknowledge();
    rung
}

#[test]
fn sender_is_notified_when_full_ring_has_room() {
    let engine = engine(2);
    let routes = Routes::new(2, ArrayQueue::new(1));
    assert!(routes.send(1, client(&engine, 1).0).is_ok());
    let refused = routes.send(1, client(&engine, 2).0).expect_err("the ring has room for one client");
    assert_eq!(refused.session.id(), 2, "the refused client is returned");
    routes.to_main.pop().expect("the first client");
    routes.notify_room(&engine);
    assert!(hears(&engine, 1));
    assert!(routes.send(1, refused).is_ok());
}

#[test]
fn no_wake_up_is_lost_on_a_full_ring() {
    const TRIPS: usize = 3000;
    let engine = engine(3);
    let routes = Routes::new(3, ArrayQueue::new(1));
    std::thread::scope(|scope| {
        for slot in 1..3 {
            let (engine, routes) = (&engine, &routes);
            scope.spawn(move || {
                let mut traveller = Some(client(engine, slot as u64).0);
                for parsed_input in 0..TRIPS {
                    let mut next = traveller.take();
                    while let Some(client) = next.take() {
                        match routes.send(slot, client) {
                            Ok(()) => engine.clients.mailboxes[MAIN].ring(),
                            Err(client) => {
                                assert!(
                                    hears(engine, slot),
                                    "parsed_input {parsed_input}: no notification of room"
                                );
                                next = Some(client);
                            }
                        }
                    }
                    while traveller.is_none() {
                        traveller = routes.loops[slot].back.pop();
                        if traveller.is_none() {
                            assert!(
                                hears(engine, slot),
                                "parsed_input {parsed_input}: no notification of the return"
                            );
                        }
                    }
                }
            });
        }
        let mut trips = 0;
        while trips < 2 * TRIPS {
            assert!(hears(&engine, MAIN), "{trips} trips: no notification of an arrival");
            while let Some(client) = routes.to_main.pop() {
                let slot = client.session.id() as usize;
                routes.notify_room(&engine);
                routes.loops[slot].back.push(client);
                engine.clients.mailboxes[slot].ring();
                trips += 1;
            }
        }
    });
}

/// A client's parsed input as seen by another thread: the arguments of each request, joined.
fn carried(engine: &Engine, mut client: Box<Client>) -> (Vec<String>, Box<Client>) {
    let mut clients = ClientSet::new(Settings::of(engine), Arc::clone(&engine.clients.bytes));
    let mut parsed_input = client.input.parsed.take().expect("packed");
    let place = clients.slab.add(client);
    clients.batch.append(&mut parsed_input.batch, place);
    let run = clients.begin().expect("something to execute");
    let client = clients.slab.get(place).expect("the visitor");
    let text = |request| {
        let args = run.arguments(request, &client.input.query, &client.input.blobs);
        String::from_utf8_lossy(&args.join(&b' ')).into_owned()
    };
    let requests = run.batch.requests.iter().map(text).collect();
    clients.end(engine, run, 0);
    (requests, clients.slab.remove(place).expect("the visitor"))
}

const SENT: &[u8] = b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nECHO \"b c\"\r\n*2\r\n$3\r\nDEL\r\n$1\r\nx\r\n*2\r\n$3\r\nGE";

#[test]
fn migrating_client_keeps_its_unprocessed_input() {
    let engine = engine(2);
    let mut clients = ClientSet::new(Settings::of(&engine), Arc::clone(&engine.clients.bytes));
    let (traveller, mut peer) = client(&engine, 1);
    let place = clients.slab.add(traveller);
    std::io::Write::write_all(&mut peer, SENT).expect("sent");
    clients.read(&engine, place);
    clients.pack(place);
    assert!(clients.batch.is_empty());
    // The next input overwrites the memory of the client's requests.
    let (other, mut second_peer) = client(&engine, 2);
    let second = clients.slab.add(other);
    std::io::Write::write_all(&mut second_peer, &[b'-'; 200]).expect("sent");
    clients.read(&engine, second);
    let (requests, traveller) = carried(&engine, clients.slab.take_out(place).expect("the client"));
    assert_eq!(requests, ["PING", "GET a", "ECHO b c", "DEL x"]);
    assert_eq!(traveller.input.query, b"*2\r\n$3\r\nGE", "the incomplete request stays with the client");
    assert!(!traveller.listed.in_batch);
}

#[test]
fn unexecuted_requests_move_with_a_migrated_client() {
    for first in 0..4 {
        for begun in [&b""[..], b"*1\r\n$4\r\nPI"] {
            let engine = engine(2);
            let mut clients = ClientSet::new(Settings::of(&engine), Arc::clone(&engine.clients.bytes));
            // Other clients are in the batch before and after this one.
            let (before, mut before_peer) = client(&engine, 1);
            let before = clients.slab.add(before);
            std::io::Write::write_all(&mut before_peer, b"PING\r\n*1\r\n$4\r\nPING\r\n").expect("sent");
            clients.read(&engine, before);
            let (traveller, mut peer) = client(&engine, 2);
            let place = clients.slab.add(traveller);
            // With or without input already in the client's own buffer.
            if !begun.is_empty() {
                std::io::Write::write_all(&mut peer, begun).expect("sent");
                clients.read(&engine, place);
                let run = clients.begin().expect("a turn");
                clients.end(&engine, run, 0);
                clients.read(&engine, before);
                std::io::Write::write_all(&mut peer, b"NG\r\n").expect("sent");
            }
            std::io::Write::write_all(&mut peer, SENT).expect("sent");
            clients.read(&engine, place);
            let run = clients.begin().expect("requests");
            let own: Vec<usize> =
                (0..run.batch.requests.len()).filter(|&at| run.batch.requests[at].client == place).collect();
            let at = own[own.len() - 4 + first];
            clients.slab.get(place).expect("the client").input.deferred_from = Some(Deferral::Elsewhere(at));
            clients.end(&engine, run, 0);
            assert_eq!(clients.to_migrate, [place]);
            let traveller = clients.slab.take_out(place).expect("the client");
            assert!(traveller.listed.in_batch, "no more is read from the client meanwhile");
            let (requests, traveller) = carried(&engine, traveller);
            assert_eq!(requests, ["PING", "GET a", "ECHO b c", "DEL x"][first..]);
            assert_eq!(traveller.input.query, b"*2\r\n$3\r\nGE");
        }
    }
}
