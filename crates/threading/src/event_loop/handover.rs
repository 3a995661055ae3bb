// SPDX-License-Identifier: BSD-3-Clause
//! Handover of clients to other loops, and the draining of loops that are no longer needed (`CONFIG
//! SET io-threads`).
//!
//! A client moves between two turns, in its box, with all of its unanswered input, in any state:
//! it may be waiting for a key, subscribed, monitoring, in a transaction, in the middle of a
//! request, or not reading its replies. Everything that other threads send to it follows:
//!
//! 1. From one moment on, pushes (`notify/hub.rs`) go to the new loop's queue. The new loop keeps
//!    them.
//! 2. Pushes in the old queue are written into the client's replies.
//! 3. The client is put into the new loop's queue of arrivals.
//! 4. From then on, messages (a kill, the reply from a thread that served it) go to the new
//!    loop's mailbox. Messages left in the old mailbox are forwarded.
//!
//! So order is preserved. One case needs more: a client that waits for a key *and* receives
//! pushes must not be served between 1 and 2, since later pushes must follow that reply, which is
//! in flight. The world is stopped for that moment, because clients are served by threads inside
//! the gate.
//!
//! A drained loop beyond the number of threads ends once it has no clients and can get no more
//! ([`LoopLoads::set_threads`](crate::loop_loads::LoopLoads::set_threads)).

use braid_executor::world;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::client_flags;

use super::EventLoop;
use super::rebalance::Balance;
use crate::client::Client;
use crate::loop_loads::Assigning;

/// Milliseconds between two attempts to hand over clients that are busy or away.
pub const ATTEMPT_MS: i64 = 2;

impl EventLoop {
    /// Adapts to a changed number of threads.
    #[cold]
    pub(crate) fn follow_thread_count(&mut self) {
        self.loads_version = self.loads.version();
        self.cron.set_loops(self.loads.loops());
        self.balance = Balance::new(self.slot, &self.loads);
        self.is_draining = !self.loads.serving().contains(&self.slot);
        self.model().follow_thread_count(self);
    }

    /// Hands over all clients that can move now. Ends the loop once it is empty and no longer
    /// needed.
    #[cold]
    pub(crate) fn drain(&mut self) {
        if !self.after_script.is_empty() {
            // `after_script` refers to places, which must stay valid.
            return;
        }
        let places: Vec<u32> = self.by_id.values().copied().collect();
        for place in places {
            self.try_hand_over(place);
        }
        if self.slot < self.loads.threads() {
            // The thread stays: it has other duties.
            self.is_draining = !self.by_id.is_empty();
            return;
        }
        if self.by_id.is_empty() {
            // No more clients are assigned to this loop, and all that were assigned before have
            // arrived.
            self.read_mail(true);
            if self.by_id.is_empty() && !self.engine.hub.has_pushes(self.slot) {
                self.stopping = true;
            }
        }
    }

    fn try_hand_over(&mut self, place: u32) -> bool {
        let Some(client) = self.clients.slab.get(place) else { return false };
        let busy = client.listed.in_batch || client.hold.is_on || client.input.parsed.is_some();
        let leaves = client.is_finished() || client.session.record.has(client_flags::CLOSE_NOW);
        if busy || leaves {
            return false;
        }
        let waits_and_hears = client.session.blocked.is_some() && client.session.hears();
        let engine = Arc::clone(&self.engine);
        let world = if waits_and_hears {
            let Some(world) = world::stop_unless_busy(&engine, self.slot) else { return false };
            Some(world)
        } else {
            None
        };
        let is_over =
            |client: &mut Client| client.session.blocked.as_ref().is_some_and(|wait| wait.is_over());
        if self.clients.slab.get(place).is_some_and(is_over) {
            // The reply is in flight to this loop.
            return false;
        }
        let loads = Arc::clone(&self.loads);
        let assigning = loads.assign();
        let is_gone = self.hand_over_to(&assigning, place, assigning.least());
        drop(world);
        is_gone
    }

    /// Hands a client over to another serving loop. False if the client must be closed here
    /// instead.
    pub(crate) fn hand_over_to(&mut self, assigning: &Assigning<'_>, place: u32, to: usize) -> bool {
        let Some(client) = self.clients.slab.get(place) else { return false };
        self.engine.hub.relocate(&mut client.session.listener, to);
        // Deliver this loop's pushes for the client.
        self.deliver();
        let Some(client) = self.clients.slab.get(place).filter(|client| !client.is_finished()) else {
            return false;
        };
        client.session.listener.change_queue();
        (client.listed.to_write, client.listed.to_resume, client.listed.tracked) = (false, false, false);
        let was_postponed = client.postponed;
        let deadline = client.session.blocked.as_ref().map(|blocked| blocked.deadline_ms);
        let deadline = deadline.or_else(|| client.session.delayed_until_ms());
        let Some(client) = self.clients.slab.remove(place) else { return false };
        // An event that is still reported finds an empty place and is skipped.
        let _ = self.poller.remove(&client.socket);
        // The place may be given to another client, which must not be mistaken for this one.
        self.clients.to_write.retain(|&other| other != place);
        self.clients.to_resume.retain(|&other| other != place);
        self.replicas.remove(place);
        if was_postponed {
            self.clients.postponed.retain(|&other| other != place);
        }
        if let Some(deadline) = deadline {
            self.clients.deadlines.remove(&(deadline, place));
        }
        let record = Arc::clone(&client.session.record);
        self.by_id.remove(&record.id);
        self.loads.release(self.slot);
        // Minus one, in wrapping arithmetic.
        self.stats().clients.add(u64::MAX);
        assigning.take(to);
        assigning.hand_over(to, client);
        // After the client, so that a message to the new loop finds it there.
        record.set_mailbox(&self.engine.clients.mailboxes[to]);
        self.engine.clients.mailboxes[to].ring();
        true
    }

    /// Takes in the clients that other loops have handed over.
    pub(crate) fn take_handed_over(&mut self) {
        let mut is_postponed = false;
        while let Some(mut client) = self.loads.take_handed_over(self.slot) {
            let id = client.session.id();
            let place = self.clients.slab.next_place();
            let interest = client.interest();
            let killed = client.session.record.has(client_flags::CLOSE_NOW);
            if killed || self.poller.add(&client.socket, u64::from(place), interest).is_err() {
                client.break_off();
                self.clients.to_drop.push(place);
            }
            if client.holds_memory() {
                client.listed.tracked = true;
                self.clients.tracked.push(place);
            }
            if client.has_unsent() {
                // The client may have received pushes on its way out.
                client.listed.to_write = true;
                self.clients.to_write.push(place);
            }
            if let Some(blocked) = client.session.blocked.as_ref().filter(|blocked| blocked.deadline_ms > 0) {
                self.clients.deadlines.insert((blocked.deadline_ms, place));
            }
            if client.postponed {
                // The client may have missed a `Message::Resume`.
                self.clients.postponed.push(place);
                is_postponed = true;
            }
            if client.replica_output.is_some() {
                self.replicas.add(place);
            }
            // The poller does not report input that was received before.
            client.listed.to_resume = true;
            self.clients.to_resume.push(place);
            self.clients.slab.add(client);
            self.by_id.insert(id, place);
            self.stats().clients.add(1);
        }
        if is_postponed {
            self.resume_postponed();
        }
    }

    /// Signs off when the loop ends, so that other threads no longer count on it.
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
    use std::rc::Rc;

    use braid_clients::record::Accepted;
    use braid_clients::{Address, ClientRecord, Message};
    use braid_config::Config;
    use braid_executor::engine::Start;
    use braid_executor::{Engine, Session};
    use braid_net::poller::Poller;
    use braid_notify::SubscriptionKind;

    use super::*;
    use crate::accept::Listeners;
    use crate::event_loop::Model;
    use crate::loop_loads::LoopLoads;

    struct Plain;

    impl Model for Plain {}

    /// Two loops that are run by no thread.
    fn loops() -> (Arc<Engine>, Arc<LoopLoads>, [EventLoop; 2]) {
        let config = Config::new();
        config.load_text("io-threads 2\nshards 16\n").expect("valid settings");
        let engine =
            braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine");
        let loads = Arc::new(LoopLoads::new(2, |threads| 0..threads));
        let event_loop = |slot| {
            let (epoll, listeners) = (Poller::open().expect("a poller"), Arc::<Listeners>::default());
            let counted = (Arc::clone(&loads), loads.version());
            EventLoop::new(Arc::clone(&engine), slot, epoll, counted, listeners, Rc::new(Plain))
                .expect("a loop")
        };
        let both = [event_loop(0), event_loop(1)];
        (engine, loads, both)
    }

    /// Connects a client to a loop; returns the other end of the connection.
    fn connect(engine: &Engine, to: &mut EventLoop, id: u64) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a socket that does not block");
        let record = Arc::new(ClientRecord::new(id, 0, Address::Unknown, Address::Unknown, 0));
        record.io_thread.store(to.slot as u32, Relaxed);
        record.set_mailbox(&engine.clients.mailboxes[to.slot]);
        engine.clients.registry.add(Arc::clone(&record));
        to.loads.assign().take(to.slot);
        to.handle(Message::Accepted(Accepted { socket: OwnedFd::from(ours), is_tls: false, record }));
        theirs
    }

    fn session(of: &mut EventLoop, id: u64) -> &mut Session {
        let place = of.by_id[&id];
        &mut of.clients.slab.get(place).expect("the client is on this loop").session
    }

    fn replies(of: &mut EventLoop, id: u64) -> String {
        let place = of.by_id[&id];
        let reply = of.clients.slab.get(place).expect("the client is on this loop").reply.take_vec();
        String::from_utf8(reply).expect("ASCII").replace("\r\n", " ")
    }

    #[test]
    fn handover_delivers_old_queue_before_new_queue() {
        let (engine, loads, [mut first, mut second]) = loops();
        let _peers = [connect(&engine, &mut second, 1), connect(&engine, &mut second, 2)];
        for id in [1, 2] {
            session(&mut second, id).subscribe(&engine.hub, SubscriptionKind::Channel, b"a");
            session(&mut second, id).subscribe(&engine.hub, SubscriptionKind::Channel, b"b");
        }
        engine.hub.publish(0, b"a", b"1", None);
        loads.set_threads(1);
        engine.hub.publish(0, b"b", b"2", None);
        second.follow_thread_count();
        assert!(second.is_draining);
        second.drain();
        assert!(second.by_id.is_empty() && second.stopping, "both clients have left, and no more can arrive");
        engine.hub.publish(1, b"a", b"3", None);
        // The new loop looks for pushes before it has seen the client arrive, and keeps them.
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
        // Sent while the client is here, read after it has gone.
        record.send(Message::Kill(1));
        loads.set_threads(1);
        second.follow_thread_count();
        second.drain();
        first.read_mail(true);
        assert_eq!(first.clients.to_drop, [first.by_id[&1]], "only the first client is killed");
        engine.clients.registry.get(2).expect("the client is connected").send(Message::Kill(2));
        first.read_mail(true);
        assert_eq!(first.clients.to_drop.len(), 2);
    }

    #[test]
    fn client_accepted_for_an_ending_loop_is_not_lost() {
        let (engine, loads, [mut first, mut second]) = loops();
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a socket that does not block");
        let record = Arc::new(ClientRecord::new(7, 0, Address::Unknown, Address::Unknown, 0));
        {
            let assigning = loads.assign();
            assigning.take(1);
            record.io_thread.store(1, Relaxed);
            record.set_mailbox(&engine.clients.mailboxes[1]);
            engine.clients.registry.add(Arc::clone(&record));
            let accepted = Accepted { socket: OwnedFd::from(ours), is_tls: false, record };
            engine.clients.mailboxes[1].send(Message::Accepted(accepted));
        }
        theirs.write_all(b"PING\r\n").expect("sent");
        loads.set_threads(1);
        second.follow_thread_count();
        second.drain();
        assert!(!second.stopping && second.by_id.contains_key(&7));
        second.drain();
        assert!(second.stopping && second.by_id.is_empty());
        first.take_handed_over();
        assert!(first.by_id.contains_key(&7));
    }
}
