// SPDX-License-Identifier: BSD-3-Clause
//! The `hybrid` model: commands that need at most one key are executed by the thread that read
//! them, under the key's lock; the others (several keys, transactions, scripts, commands on all
//! keys) go to the main thread over a bounded ring.
//!
//! A client migrates with such a request and all later input, so order is preserved. When the
//! ring is full, the client waits at its origin, unread, until there is room: the back-pressure
//! slows down senders that overload the main thread, and nothing is lost. The main thread serves
//! its own clients as well.

use braid_clients::Message;
use braid_executor::dispatch::{self, Reach};
use crossbeam_queue::ArrayQueue;

use super::{Row, Starting};
use crate::batch::Request;
use crate::client::Deferral;
use crate::event_loop::run::Run;
use crate::event_loop::{EventLoop, Model, Properties};
use crate::models::migration;
use crate::models::migration::origin::Origin;
use crate::pool::Starter;

/// A loop per thread; the first is the main thread.
pub(super) const ROW: Row = Row::new(starter);

/// Capacity of the ring in clients.
const RING: usize = 1024;

/// A thread that executes requests with at most one key, and sends the others to the main thread.
struct Io {
    origin: Origin,
}

impl Model for Io {
    fn properties(&self) -> Properties {
        Properties { migrates_requests: true, clients_migrate: true, ..Properties::default() }
    }

    fn read(&self, event_loop: &mut EventLoop, place: u32) {
        if self.origin.is_away(place) {
            self.origin.mute(&event_loop.poller, place);
        } else {
            event_loop.read_here(place);
        }
    }

    fn execute_and_write(&self, event_loop: &mut EventLoop) {
        event_loop.execute();
        for place in std::mem::take(&mut event_loop.clients.to_migrate) {
            self.origin.send_to_main(event_loop, place);
        }
        self.origin.ring_main(&event_loop.engine);
        event_loop.write_replies();
    }

    fn migrates(&self, event_loop: &mut EventLoop, run: &Run, request: &Request) -> bool {
        let EventLoop { engine, clients, .. } = event_loop;
        let Some(client) = clients.slab.get(request.client) else { return false };
        if client.skips_requests() {
            return false;
        }
        let reach = match dispatch::reach(engine, &client.session, request.prepared) {
            Reach::Depends => {
                let args = run.arguments(request, &client.input.query, &client.input.blobs);
                dispatch::reach_of(engine, request.prepared, &args)
            }
            reach => reach,
        };
        if reach == Reach::OneKey {
            return false;
        }
        client.input.deferred_from = Some(Deferral::Elsewhere(run.at));
        true
    }

    fn take_arrivals(&self, event_loop: &mut EventLoop) {
        self.origin.take_back(event_loop);
    }

    fn defer_message(&self, event_loop: &mut EventLoop, id: u64, message: Message) -> Option<Message> {
        self.origin.defer_message(event_loop, id, message)
    }
}

fn starter(starting: Starting) -> Starter {
    migration::starter(starting, ArrayQueue::new(RING), |origin| Io { origin })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use braid_clients::{Address, ClientRecord};
    use braid_config::Config;
    use braid_executor::dispatch::{Reach, prepare, reach, reach_of};
    use braid_executor::engine::Start;
    use braid_executor::transaction::Queue;
    use braid_executor::{Engine, Session};

    /// The reach of a request, as the loop determines it.
    fn found(engine: &Engine, session: &Session, line: &str) -> Reach {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let prepared = prepare(engine, &args);
        match reach(engine, session, prepared) {
            Reach::Depends => reach_of(engine, prepared, &args),
            reach => reach,
        }
    }

    #[test]
    fn commands_executed_in_place_use_at_most_one_key() {
        let engine = braid_node::start(Arc::new(Config::new()), braid_commands::rows(), Start::default());
        let engine = engine.expect("an engine");
        let record = ClientRecord::new(1, 0, Address::Unknown, Address::Unknown, 0);
        let mut session = Session::new(Arc::new(record), &engine.attention, &engine.acl);
        for line in [
            "GET a",
            "set a 1",
            "INCR a",
            "DEL a",
            "MGET a",
            "LPUSH l 1 2 3",
            "BLPOP a 0",
            "OBJECT ENCODING a",
            "XADD s * f v",
            "PING",
            "CLIENT LIST",
            "CONFIG GET *",
            "MULTI",
            "nosuch a b",
            "MSET",
            "SORT l",
            "EXPIRE a 1",
            "SUBSCRIBE a",
            "GEOSEARCH g FROMMEMBER m BYRADIUS 1 m",
            "ZUNION 1 a",
        ] {
            assert_eq!(found(&engine, &session, line), Reach::OneKey, "{line}");
        }
        for line in [
            "MSET a 1 b 2",
            "MGET a b",
            "DEL a b",
            "RENAME a b",
            "LMOVE a b LEFT LEFT",
            "BLPOP a b 0",
            "ZUNION 2 a b",
            "EXEC",
            "EVAL x 0",
            "FCALL f 0",
            "FLUSHALL",
            "SWAPDB 0 1",
            "WATCH a b",
            "SUNIONSTORE a b",
            "SORT l BY w_* GET #",
            "COPY a b",
        ] {
            assert_eq!(found(&engine, &session, line), Reach::Wide, "{line}");
        }
        // In a transaction every command but EXEC is only queued.
        session.transaction.queue = Some(Box::new(Queue::default()));
        for (line, reach) in
            [("MSET a 1 b 2", Reach::OneKey), ("EVAL x 0", Reach::OneKey), ("exec", Reach::Wide)]
        {
            assert_eq!(found(&engine, &session, line), reach, "{line}");
        }
    }
}
