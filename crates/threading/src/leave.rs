// SPDX-License-Identifier: BSD-3-Clause
//! Loops that are left by all of their clients, since the number of threads has changed (`CONFIG SET io-threads`); and how a client goes over to another
//! loop at all.
//!
//! A client goes over between two turns, in its box, with everything that it has sent and has not been answered, whatever it does just then: it may wait
//! for a key, listen, monitor, be in a transaction, in the middle of a request, or not read its replies. What others want of it finds it:
//!
//! 1. Pushes (`engine/pubsub`) go to the queue of the new loop from one moment on, for all that it hears. The new loop keeps them.
//! 2. What had come to the old queue before is written into its replies.
//! 3. It is put into the new loop's queue of arrivals.
//! 4. From now on messages (a kill, the reply of who served it) go to the new loop's mailbox. Those that are in the old one still are sent after it.
//!
//! So nothing overtakes anything. Only one case needs more: a client that waits *and* hears must not be served between 1 and 2, since what it is told then
//! has to come behind that reply, which is on its way. For that moment the world is stopped, as clients are served by threads inside the gate.
//!
//! A loop beyond the number of threads ends when nobody is left, and nobody can come any more ([`LoopLoads::set_threads`]).
//!
//! [`LoopLoads::set_threads`]: crate::accept::LoopLoads::set_threads

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::client_flags;
use braid_net::poller::Interest;

use crate::accept::Assigning;
use crate::balance::Balance;
use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::models::Model;

/// Milliseconds between two attempts to hand over who is not at hand, or has something to be done first.
pub const ATTEMPT_MS: i64 = 2;

impl<M: Model> EventLoop<M> {
    /// Looks again what this loop is for. Called when the number of threads has changed.
    #[cold]
    pub(crate) fn follow_thread_count(&mut self) {
        self.loads_version = self.loads.version();
        self.cron.set_loops(self.loads.loops());
        self.balance = Balance::new(self.slot, &self.loads);
        self.is_left = !self.loads.serving().contains(&self.slot);
        M::follow_thread_count(self);
    }

    /// Hands all clients over, as far as that is possible now; ends the loop when it is not needed any more and nobody is left.
    #[cold]
    pub(crate) fn leave(&mut self) {
        if !self.held.is_empty() {
            // That names places.
            return;
        }
        let places: Vec<u32> = self.by_id.values().copied().collect();
        for place in places {
            self.hand_over_anyhow(place);
        }
        if self.slot < self.loads.threads() {
            // It has other duties.
            self.is_left = !self.by_id.is_empty();
            return;
        }
        if self.by_id.is_empty() {
            // Nobody is sent here any more since the number of threads has been changed. Whoever was sent before is here now.
            self.read_mail(true);
            if self.by_id.is_empty() && !self.engine.hub.has_pushes(self.slot) {
                self.stopping = true;
            }
        }
    }

    fn hand_over_anyhow(&mut self, place: u32) -> bool {
        let Some(client) = self.station.clients.get(place) else { return false };
        let busy = client.in_batch || client.awaits_disk || client.trip.is_some();
        let leaves = client.is_finished() || client.session.record.has(client_flags::CLOSE_NOW);
        if busy || leaves {
            return false;
        }
        let waits_and_hears = client.session.blocked.is_some() && client.session.hears();
        let engine = Arc::clone(&self.engine);
        let world = if waits_and_hears {
            let Some(world) = engine.keyspace.gate.close_unless_busy(self.slot) else { return false };
            Some(world)
        } else {
            None
        };
        let is_over =
            |client: &mut Client| client.session.blocked.as_ref().is_some_and(|wait| wait.is_over());
        if self.station.clients.get(place).is_some_and(is_over) {
            // The reply is on its way here.
            return false;
        }
        let loads = Arc::clone(&self.loads);
        let assigning = loads.assign();
        let is_gone = self.send_over(&assigning, place, assigning.least());
        drop(world);
        is_gone
    }

    /// Sends a client to another loop that serves. False if it has to be closed here instead.
    pub(crate) fn send_over(&mut self, assigning: &Assigning<'_>, place: u32, to: usize) -> bool {
        let Some(client) = self.station.clients.get(place) else { return false };
        self.engine.hub.relocate(&mut client.session, to);
        // What was sent to it here.
        self.deliver();
        let Some(client) = self.station.clients.get(place).filter(|client| !client.is_finished()) else {
            return false;
        };
        client.session.change_queue();
        (client.in_write_list, client.in_resume_list, client.lingers) = (false, false, false);
        let (was_postponed, deadline) =
            (client.postponed, client.session.blocked.as_ref().map(|blocked| blocked.deadline_ms));
        let Some(client) = self.station.clients.remove(place) else { return false };
        // Were it polled here still, there would be events for a place without a client; those are passed over.
        let _ = self.poller.remove(&client.socket);
        // Its place may be given to somebody else, who is not to be taken for it.
        self.station.to_write.retain(|&other| other != place);
        self.station.to_resume.retain(|&other| other != place);
        self.feeds.retain(|&other| other != place);
        if was_postponed {
            self.station.postponed.retain(|&other| other != place);
        }
        if let Some(deadline) = deadline {
            self.station.deadlines.remove(&(deadline, place));
        }
        let record = Arc::clone(&client.session.record);
        self.by_id.remove(&record.id);
        self.loads.release(self.slot);
        // Minus one, in wrapping arithmetic.
        self.stats().clients.add(u64::MAX);
        assigning.take(to);
        assigning.hand_over(to, client);
        // Behind the client: who sends to the new loop finds it there.
        record.set_mailbox(&self.engine.mailboxes[to]);
        self.engine.mailboxes[to].ring();
        true
    }

    /// Takes in the clients that other loops have handed over.
    pub(crate) fn take_handed_over(&mut self) {
        let mut is_postponed = false;
        while let Some(mut client) = self.loads.take_handed_over(self.slot) {
            let id = client.session.id();
            let place = self.station.clients.next_place();
            let interest = if client.wants_write { Interest::ReadWrite } else { Interest::Read };
            let killed = client.session.record.has(client_flags::CLOSE_NOW);
            if killed || self.poller.add(&client.socket, u64::from(place), interest).is_err() {
                client.broken = true;
                self.station.to_drop.push(place);
            }
            if client.holds_memory() {
                client.lingers = true;
                self.station.lingering.push(place);
            }
            if client.has_unsent() {
                // It may have been told of something on its way out.
                client.in_write_list = true;
                self.station.to_write.push(place);
            }
            if let Some(blocked) = client.session.blocked.as_ref().filter(|blocked| blocked.deadline_ms > 0) {
                self.station.deadlines.insert((blocked.deadline_ms, place));
            }
            if client.postponed {
                // It may have missed the call to go on.
                self.station.postponed.push(place);
                is_postponed = true;
            }
            if client.feed.is_some() {
                self.feeds.push(place);
            }
            // What it has sent before is no event for the poller.
            client.in_resume_list = true;
            self.station.to_resume.push(place);
            self.station.clients.add(client);
            self.by_id.insert(id, place);
            self.stats().clients.add(1);
        }
        if is_postponed {
            self.resume_postponed();
        }
    }

    /// The loop ends: others do not count on it any more.
    pub(crate) fn sign_off(&self) {
        let stats = self.stats();
        stats.resting.store(false, Relaxed);
        stats.task.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use braid_clients::record::Accepted;
    use braid_clients::{Address, ClientRecord, Message};
    use braid_config::Config;
    use braid_engine::engine::Start;
    use braid_engine::{Engine, Session};
    use braid_net::poller::Poller;
    use braid_notify::Kind;

    use super::*;
    use crate::accept::{Listeners, LoopLoads};

    struct Plain;

    impl Model for Plain {}

    /// Two loops that no thread runs.
    fn loops() -> (Arc<Engine>, Arc<LoopLoads>, [EventLoop<Plain>; 2]) {
        let config = Config::new();
        config.load_text("io-threads 2\nshards 16\n").expect("valid settings");
        let engine =
            Engine::new(Arc::new(config), braid_commands::table(), Start::default()).expect("an engine");
        let loads = Arc::new(LoopLoads::new(2, |threads| 0..threads));
        let event_loop = |slot| {
            let (epoll, listeners) = (Poller::open().expect("a poller"), Arc::<Listeners>::default());
            let counted = (Arc::clone(&loads), loads.version());
            EventLoop::new(Arc::clone(&engine), slot, epoll, counted, listeners, Plain).expect("a loop")
        };
        let both = [event_loop(0), event_loop(1)];
        (engine, loads, both)
    }

    /// Lets a client connect to a loop; the other end of its connection.
    fn connect(engine: &Engine, to: &mut EventLoop<Plain>, id: u64) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a socket that does not block");
        let record = Arc::new(ClientRecord::new(id, 0, Address::Unknown, Address::Unknown, 0));
        record.io_thread.store(to.slot as u32, Relaxed);
        record.set_mailbox(&engine.mailboxes[to.slot]);
        engine.clients.add(Arc::clone(&record));
        to.loads.assign().take(to.slot);
        to.follow(Message::Accepted(Accepted { socket: OwnedFd::from(ours), is_tls: false, record }));
        theirs
    }

    fn session(of: &mut EventLoop<Plain>, id: u64) -> &mut Session {
        let place = of.by_id[&id];
        &mut of.station.clients.get(place).expect("it is here").session
    }

    fn replies(of: &mut EventLoop<Plain>, id: u64) -> String {
        let place = of.by_id[&id];
        let reply = of.station.clients.get(place).expect("it is here").reply.take_vec();
        String::from_utf8(reply).expect("ASCII").replace("\r\n", " ")
    }

    #[test]
    fn what_came_to_the_old_queue_goes_before_what_comes_to_the_new_one() {
        let (engine, loads, [mut first, mut second]) = loops();
        let _peers = [connect(&engine, &mut second, 1), connect(&engine, &mut second, 2)];
        for id in [1, 2] {
            engine.hub.subscribe(session(&mut second, id), Kind::Channel, b"a");
            engine.hub.subscribe(session(&mut second, id), Kind::Channel, b"b");
        }
        engine.hub.publish(0, b"a", b"1", None);
        loads.set_threads(1);
        engine.hub.publish(0, b"b", b"2", None);
        second.follow_thread_count();
        assert!(second.is_left);
        second.leave();
        assert!(second.by_id.is_empty() && second.stopping, "both have gone, and nobody can come");
        engine.hub.publish(1, b"a", b"3", None);
        // The new loop looks for mail before it has seen that somebody has come: it keeps that.
        first.deliver();
        first.take_handed_over();
        first.deliver();
        let message = |channel, text| format!("*3 $7 message $1 {channel} $1 {text} ");
        let expected = [message("a", 1), message("b", 2), message("a", 3)].concat();
        assert_eq!([replies(&mut first, 1), replies(&mut first, 2)], [expected.clone(), expected]);
        assert_eq!((first.stats().clients.get(), second.stats().clients.get()), (2, 0));
    }

    #[test]
    fn messages_go_after_a_client() {
        let (engine, loads, [mut first, mut second]) = loops();
        let _peers = [connect(&engine, &mut second, 1), connect(&engine, &mut second, 2)];
        let record = Arc::clone(&session(&mut second, 1).record);
        // Sent while it is here, read when it has gone.
        record.send(Message::Kill(1));
        loads.set_threads(1);
        second.follow_thread_count();
        second.leave();
        first.read_mail(true);
        assert_eq!(
            first.station.to_drop,
            [first.by_id[&1]],
            "it is told of the kill, and the other one is not"
        );
        engine.clients.get(2).expect("it is connected").send(Message::Kill(2));
        first.read_mail(true);
        assert_eq!(first.station.to_drop.len(), 2);
    }

    #[test]
    fn whoever_has_been_accepted_for_a_loop_that_ends_is_not_lost() {
        let (engine, loads, [mut first, mut second]) = loops();
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a socket that does not block");
        let record = Arc::new(ClientRecord::new(7, 0, Address::Unknown, Address::Unknown, 0));
        {
            let assigning = loads.assign();
            assigning.take(1);
            record.io_thread.store(1, Relaxed);
            record.set_mailbox(&engine.mailboxes[1]);
            engine.clients.add(Arc::clone(&record));
            let accepted = Accepted { socket: OwnedFd::from(ours), is_tls: false, record };
            engine.mailboxes[1].send(Message::Accepted(accepted));
        }
        theirs.write_all(b"PING\r\n").expect("sent");
        loads.set_threads(1);
        second.follow_thread_count();
        second.leave();
        assert!(!second.stopping && second.by_id.contains_key(&7));
        second.leave();
        assert!(second.stopping && second.by_id.is_empty());
        first.take_handed_over();
        assert!(first.by_id.contains_key(&7));
    }
}
