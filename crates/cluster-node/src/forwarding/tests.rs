// SPDX-License-Identifier: BSD-3-Clause
//! Messages between an engine in a cluster and nodes simulated by threads of the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::forwarding;
use crate::testing::cluster_engine;

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

fn forwarding(engine: &Engine) -> &Forwarding {
    forwarding::of(engine).expect("a cluster of several nodes")
}

fn figures(engine: &Engine) -> (u64, u64) {
    (forwarding(engine).sent.load(Relaxed), forwarding(engine).lost.load(Relaxed))
}

fn add_peer(engine: &Engine, id: &str, port: u16) -> Arc<Peer> {
    let address = PeerAddress { host: "127.0.0.1".into(), port, is_tls: false };
    let peer = Arc::new(Peer::new(&id.into(), address));
    let peers = &forwarding(engine).peers;
    let all = peers.load().iter().cloned().chain([Arc::clone(&peer)]).collect();
    peers.store(Arc::new(all));
    peer
}

fn publish(engine: &Engine, message: &str) {
    forwarding::forward(engine, forwarding(engine), b"news", message.as_bytes());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number in a line that begins with `kind`; `None` at the end of the connection.
fn number(link: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    link.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

fn request(link: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let count = number(link, '*')?;
    let mut args = Vec::new();
    for _ in 0..count {
        let len = number(link, '$')?;
        let mut text = vec![0; len + 2];
        link.read_exact(&mut text).ok()?;
        text.truncate(len);
        args.push(String::from_utf8(text).ok()?);
    }
    Some(args)
}

/// A request received by a node, with the number of its connection.
type Received = (usize, Vec<String>);

/// A node that gives the same answer to every request.
fn node(answer: &'static [u8]) -> (u16, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for (number, link) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut link = BufReader::new(link);
            while let Some(request) = request(&mut link) {
                if tell.send((number, request)).is_err() {
                    return;
                }
                if link.get_mut().write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    (port, told)
}

fn next(told: &Receiver<Received>) -> Received {
    told.recv_timeout(PATIENCE).expect("a message")
}

#[test]
fn each_node_gets_every_message_once_and_in_order() {
    const COUNT: usize = 3 * BATCH + 7;
    let folder = tempfile::tempdir().expect("a folder");
    let engine = cluster_engine(&folder, &[]);
    let nodes = [node(b"+OK\r\n"), node(b"+OK\r\n")];
    for (id, (port, _)) in ["b", "c"].into_iter().zip(&nodes) {
        add_peer(&engine, id, *port);
    }
    (0..COUNT).for_each(|number| publish(&engine, &number.to_string()));
    for (_, told) in &nodes {
        for number in 0..COUNT {
            let expected = ["CLUSTER", "FORWARD", "news", &number.to_string()].map(String::from).to_vec();
            assert_eq!(next(told), (0, expected), "over the same connection");
        }
    }
    assert_eq!(figures(&engine), (2 * COUNT as u64, 0));
    let links = forwarding(&engine).links();
    let names: Vec<&str> = links.iter().map(|link| &*link.node).collect();
    assert_eq!(names, ["b", "b", "c", "c"], "to the node and from it");
    assert!(links.iter().all(|link| link.since_ms > 0 && link.bytes == 0));
    for (_, told) in &nodes {
        assert!(told.try_recv().is_err(), "a message arrived twice");
    }
}

#[test]
fn a_node_that_refuses_is_left_alone_for_longer_and_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = cluster_engine(&folder, &[]);
    let (port, told) = node(b"-NOPERM no\r\n");
    let peer = add_peer(&engine, "b", port);
    for pause in [PAUSE, 2 * PAUSE, 4 * PAUSE] {
        wait_until("the pause ends", || {
            peer.queue.lock().alone_until.is_none_or(|until| Instant::now() >= until)
        });
        publish(&engine, "hello");
        next(&told);
        wait_until("the thread ends", || !peer.queue.lock().is_served);
        let queue = peer.queue.lock();
        assert_eq!((queue.pause, queue.connected_ms, queue.bytes), (pause, 0, 0));
        assert!(queue.is_reported && queue.alone_until.is_some() && queue.requests.is_empty());
    }
    // As for a node that has been unreachable for very long.
    peer.queue.lock().alone_until = Some(Instant::now() + PATIENCE);
    let (sent, lost) = figures(&engine);
    publish(&engine, "lost");
    assert_eq!(figures(&engine), (sent, lost + 1));
    assert!(told.try_recv().is_err() && !peer.queue.lock().is_served);
}

#[test]
fn messages_queued_for_an_unreachable_node_count_as_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = cluster_engine(&folder, &[]);
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = unused.local_addr().expect("an address").port();
    drop(unused);
    let peer = add_peer(&engine, "b", port);
    // The request waits for a thread; the next message starts one.
    let before: Arc<[u8]> = (*b"*1\r\n$4\r\nPING\r\n").into();
    {
        let mut queue = peer.queue.lock();
        queue.bytes = before.len();
        queue.requests.push_back(before);
    }
    publish(&engine, "hello");
    wait_until("both are lost", || figures(&engine) == (1, 2));
    wait_until("the thread ends", || !peer.queue.lock().is_served);
    {
        let queue = peer.queue.lock();
        assert_eq!((queue.pause, queue.bytes), (PAUSE, 0));
    }
    // The node is back, and the pause is over.
    let (port, told) = node(b"+OK\r\n");
    forwarding(&engine).peers.store(Arc::default());
    let back = add_peer(&engine, "b", port);
    {
        let mut queue = back.queue.lock();
        (queue.is_reported, queue.pause, queue.alone_until) = (true, PAUSE_MAX, Some(Instant::now()));
    }
    publish(&engine, "again");
    assert_eq!(next(&told).1[3], "again");
    wait_until("the node is trusted again", || {
        let queue = back.queue.lock();
        !queue.is_reported && queue.pause.is_zero() && queue.alone_until.is_none()
    });
    assert_eq!(figures(&engine), (2, 2));
}

#[test]
fn slow_node_has_a_bounded_queue_and_a_removed_one_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = cluster_engine(&folder, &[]);
    let peer = add_peer(&engine, "b", 1);
    // A thread seems to send, but makes no progress.
    peer.queue.lock().is_served = true;
    let message = "x".repeat(QUEUE_BYTES / 4);
    (0..5).for_each(|_| publish(&engine, &message));
    assert_eq!(figures(&engine), (3, 2), "with its header, a message exceeds a fourth of the queue");
    publish(&engine, "short");
    assert_eq!(figures(&engine), (4, 2), "a small message still fits");
    let taken = peer.take(&engine).expect("queued messages");
    assert_eq!((taken.len(), peer.queue.lock().bytes), (4, 0));
    peer.queue.lock().is_gone = true;
    publish(&engine, "late");
    assert_eq!(figures(&engine), (4, 3));
    assert!(peer.take(&engine).is_none(), "the removed node's thread ends");
    assert!(!peer.queue.lock().is_served);
}
