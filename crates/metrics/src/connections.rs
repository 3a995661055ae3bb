// SPDX-License-Identifier: BSD-3-Clause
//! Open connections, and the choice of a connection to close when there are too many.
//!
//! A new connection is always accepted. If there is no room, the longest-idle connection is closed:
//! one of the same peer if that peer has used up its share, otherwise one of the peer with the
//! most. Therefore a peer with many connections closes its own; and a request, which is answered
//! immediately, completes long before its connection could be chosen.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use tokio::sync::Notify;

/// Maximum number of open connections.
pub const OPEN_MAX: usize = 32;
/// Maximum number of open connections from one address (for IPv6, from one /64 network).
pub const OF_PEER_MAX: usize = 16;

/// All open connections, longest idle first.
#[derive(Default)]
pub struct Connections(RefCell<Vec<Rc<Connection>>>);

/// An open connection.
pub struct Connection {
    peer: IpAddr,
    /// Signalled when the connection must close.
    closed: Notify,
}

impl Connection {
    /// Waits until the connection must close.
    pub async fn closed(&self) {
        self.closed.notified().await;
    }
}

impl Connections {
    /// Adds a connection. If there is no room, asks another one to close.
    pub fn open(&self, peer: IpAddr) -> Rc<Connection> {
        let mut open = self.0.borrow_mut();
        let connection = Rc::new(Connection { peer: group(peer), closed: Notify::new() });
        let of = |peer: IpAddr| open.iter().filter(|other| other.peer == peer).count();
        let loser = if of(connection.peer) >= OF_PEER_MAX {
            Some(connection.peer)
        } else if open.len() >= OPEN_MAX {
            open.iter().map(|other| other.peer).max_by_key(|peer| of(*peer))
        } else {
            None
        };
        if let Some(place) = loser.and_then(|peer| open.iter().position(|other| other.peer == peer)) {
            // The permit is kept for the task that waits for it or is about to.
            open.remove(place).closed.notify_one();
        }
        open.push(Rc::clone(&connection));
        connection
    }

    /// Records that a connection has sent a request.
    pub fn note_request(&self, connection: &Rc<Connection>) {
        let mut open = self.0.borrow_mut();
        if let Some(place) = open.iter().position(|other| Rc::ptr_eq(other, connection)) {
            open[place..].rotate_left(1);
        }
    }

    /// Removes a connection that has ended.
    pub fn end(&self, connection: &Rc<Connection>) {
        self.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, connection));
    }
}

/// The part of an address that identifies a peer.
fn group(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    /// True if the connection has been told to close.
    fn is_closed(connection: &Connection) -> bool {
        use std::future::Future;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(connection.closed()).poll(&mut context).is_ready()
    }

    #[test]
    fn a_peer_that_opens_too_many_closes_its_own() {
        let connections = Connections::default();
        let other = connections.open(peer(1));
        let mine: Vec<_> = (0..OF_PEER_MAX).map(|_| connections.open(peer(2))).collect();
        connections.note_request(&mine[0]);
        let last = connections.open(peer(2));
        let closed: Vec<bool> = mine.iter().map(|connection| is_closed(connection)).collect();
        // The first connection has just sent a request, so the second has been idle longest.
        assert_eq!(closed.iter().position(|closed| *closed), Some(1));
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(!is_closed(&other) && !is_closed(&last));
    }

    #[test]
    fn when_all_places_are_taken_the_peer_with_most_gives_way() {
        let connections = Connections::default();
        let early = connections.open(peer(1));
        let few: Vec<_> =
            (0..OPEN_MAX - OF_PEER_MAX - 1).map(|number| connections.open(peer(10 + number as u8))).collect();
        let many: Vec<_> = (0..OF_PEER_MAX).map(|_| connections.open(peer(2))).collect();
        let newest = connections.open(peer(3));
        assert!(is_closed(&many[0]) && !is_closed(&many[1]));
        assert!(
            !is_closed(&early) && !is_closed(&newest) && !few.iter().any(|connection| is_closed(connection))
        );
        // A free place is used.
        connections.end(&early);
        connections.end(&early);
        let more = connections.open(peer(4));
        assert!(!is_closed(&many[1]) && !is_closed(&more));
    }

    #[test]
    fn peers_are_grouped_by_network() {
        let same = |one: &str, other: &str| group(one.parse().unwrap()) == group(other.parse().unwrap());
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }
}
