// SPDX-License-Identifier: BSD-3-Clause
//! Roads, and what clients carry on them.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use braid_clients::{Address, ClientRecord};
use braid_config::Config;
use braid_engine::engine::Start;
use braid_engine::{Engine, Session};
use braid_net::stream::Stream;

use super::*;
use crate::client::Keep;
use crate::event_loop::settings;
use crate::steps::Station;

fn engine(threads: usize) -> Arc<Engine> {
    let config = Config::new();
    config.load_text(&format!("io-threads {threads}\nshards 16\n")).expect("valid settings");
    Engine::new(Arc::new(config), braid_commands::table(), Start::default()).expect("an engine")
}

/// A client, and the other end of its connection.
fn client(engine: &Engine, id: u64) -> (Box<Client>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_nonblocking(true).expect("a socket that does not block");
    let record = ClientRecord::new(id, 0, Address::Unknown, Address::Unknown, 0);
    let session = Session::new(Arc::new(record), engine);
    (Box::new(Client::new(Stream::new(OwnedFd::from(ours), None), session)), theirs)
}

/// Waits for a loop's bell; false if it is not rung for long.
fn hears(engine: &Engine, slot: usize) -> bool {
    let mailbox = &engine.mailboxes[slot];
    let notifier = mailbox.notifier();
    let mut polled = [rustix::event::PollFd::new(&notifier, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    let rung = rustix::event::poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0);
    mailbox.acknowledge();
    rung
}

#[test]
fn who_finds_the_ring_full_is_told_when_there_is_room() {
    let engine = engine(2);
    let roads = Roads::new(2, ArrayQueue::new(1));
    assert!(roads.send(1, client(&engine, 1).0).is_ok());
    let refused = roads.send(1, client(&engine, 2).0).expect_err("one has room");
    assert_eq!(refused.session.id(), 2, "it comes back");
    roads.to_main.pop().expect("the first one");
    roads.tell_of_room(&engine);
    assert!(hears(&engine, 1));
    assert!(roads.send(1, refused).is_ok());
}

#[test]
fn no_wake_up_is_lost_on_a_full_ring() {
    const TRIPS: usize = 3000;
    let engine = engine(3);
    let roads = Roads::new(3, ArrayQueue::new(1));
    std::thread::scope(|scope| {
        for slot in 1..3 {
            let (engine, roads) = (&engine, &roads);
            scope.spawn(move || {
                let mut traveller = Some(client(engine, slot as u64).0);
                for trip in 0..TRIPS {
                    let mut next = traveller.take();
                    while let Some(client) = next.take() {
                        match roads.send(slot, client) {
                            Ok(()) => engine.mailboxes[MAIN].ring(),
                            Err(client) => {
                                assert!(hears(engine, slot), "trip {trip}: nobody said that there is room");
                                next = Some(client);
                            }
                        }
                    }
                    while traveller.is_none() {
                        traveller = roads.ways[slot].back.pop();
                        if traveller.is_none() {
                            assert!(hears(engine, slot), "trip {trip}: nobody said that it is back");
                        }
                    }
                }
            });
        }
        let mut trips = 0;
        while trips < 2 * TRIPS {
            assert!(hears(&engine, MAIN), "{trips} trips: nobody said that somebody came");
            while let Some(client) = roads.to_main.pop() {
                let slot = client.session.id() as usize;
                roads.tell_of_room(&engine);
                roads.ways[slot].back.push(client);
                engine.mailboxes[slot].ring();
                trips += 1;
            }
        }
    });
}

/// What a client has with it, as another thread sees it: the arguments of each request, joined.
fn carried(engine: &Engine, mut client: Box<Client>) -> (Vec<String>, Box<Client>) {
    let mut station = Station::new(settings(engine), Arc::clone(&engine.client_bytes));
    let mut trip = client.trip.take().expect("packed");
    let place = station.clients.add(client);
    station.batch.append(&mut trip.batch, place);
    let run = station.begin().expect("something to execute");
    let client = station.clients.get(place).expect("the guest");
    let text = |request| {
        let args = run.arguments(request, &client.query, &client.blobs);
        String::from_utf8_lossy(&args.join(&b' ')).into_owned()
    };
    let requests = run.batch.requests.iter().map(text).collect();
    station.end(engine, run, 0);
    (requests, station.clients.remove(place).expect("the guest"))
}

const SENT: &[u8] = b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nECHO \"b c\"\r\n*2\r\n$3\r\nDEL\r\n$1\r\nx\r\n*2\r\n$3\r\nGE";

#[test]
fn a_client_takes_along_what_was_read_from_it() {
    let engine = engine(2);
    let mut station = Station::new(settings(&engine), Arc::clone(&engine.client_bytes));
    let (traveller, mut peer) = client(&engine, 1);
    let place = station.clients.add(traveller);
    std::io::Write::write_all(&mut peer, SENT).expect("sent");
    station.read(&engine, place);
    station.pack(place);
    assert!(station.batch.is_empty());
    // What is received next goes to where its requests were.
    let (other, mut second_peer) = client(&engine, 2);
    let second = station.clients.add(other);
    std::io::Write::write_all(&mut second_peer, &[b'-'; 200]).expect("sent");
    station.read(&engine, second);
    let (requests, traveller) = carried(&engine, station.clients.lend(place).expect("the client"));
    assert_eq!(requests, ["PING", "GET a", "ECHO b c", "DEL x"]);
    assert_eq!(traveller.query, b"*2\r\n$3\r\nGE", "what is not complete stays with it");
    assert!(!traveller.in_batch);
}

#[test]
fn the_rest_of_what_was_read_can_be_executed_elsewhere() {
    for first in 0..4 {
        for begun in [&b""[..], b"*1\r\n$4\r\nPI"] {
            let engine = engine(2);
            let mut station = Station::new(settings(&engine), Arc::clone(&engine.client_bytes));
            // Others are in the batch before and after it.
            let (before, mut before_peer) = client(&engine, 1);
            let before = station.clients.add(before);
            std::io::Write::write_all(&mut before_peer, b"PING\r\n*1\r\n$4\r\nPING\r\n").expect("sent");
            station.read(&engine, before);
            let (traveller, mut peer) = client(&engine, 2);
            let place = station.clients.add(traveller);
            // With something in its own buffer already, or without.
            if !begun.is_empty() {
                std::io::Write::write_all(&mut peer, begun).expect("sent");
                station.read(&engine, place);
                let run = station.begin().expect("a turn");
                station.end(&engine, run, 0);
                station.read(&engine, before);
                std::io::Write::write_all(&mut peer, b"NG\r\n").expect("sent");
            }
            std::io::Write::write_all(&mut peer, SENT).expect("sent");
            station.read(&engine, place);
            let run = station.begin().expect("requests");
            let own: Vec<usize> =
                (0..run.batch.requests.len()).filter(|&at| run.batch.requests[at].client == place).collect();
            let at = own[own.len() - 4 + first];
            station.clients.get(place).expect("the client").keep_from = Some(Keep::Elsewhere(at));
            station.end(&engine, run, 0);
            assert_eq!(station.to_leave, [place]);
            let traveller = station.clients.lend(place).expect("the client");
            assert!(traveller.in_batch, "nothing more is read from it meanwhile");
            let (requests, traveller) = carried(&engine, traveller);
            assert_eq!(requests, ["PING", "GET a", "ECHO b c", "DEL x"][first..]);
            assert_eq!(traveller.query, b"*2\r\n$3\r\nGE");
        }
    }
}
