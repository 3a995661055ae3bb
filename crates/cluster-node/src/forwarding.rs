// SPDX-License-Identifier: BSD-3-Clause
//! PUBLISH in a cluster of several nodes: a message goes to the subscribers of all nodes.
//!
//! A publisher's node sends each message to every other live node (CLUSTER FORWARD), in the
//! publisher's order, over one connection per node. The sending thread lives only while there are
//! messages. As between stock nodes, delivery is at most once: a message that a node cannot be
//! given, because it is unreachable or too slow, is lost for its subscribers, and counted.
//!
//! A publisher never waits for another node. Servers outside of such a cluster do none of this.

pub mod peers;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;
use braid_net::target::{Broken, Connection};
use braid_process::connector::Connector;
use braid_resp::request;
use peers::{Forwarding, Peer, PeerAddress};

use crate::{forwarding, identity};

/// Maximum bytes queued for one node; further messages are lost.
const QUEUE_BYTES: usize = 32 << 20;
/// Maximum messages sent before their replies are read.
const BATCH: usize = 1024;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(5);
/// Minimum and maximum time for which an unreachable node is left alone.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The forwarder of PUBLISH messages to the cluster's other nodes; `None` unless it has
/// several.
#[inline]
pub fn of(engine: &Engine) -> Option<&Forwarding> {
    engine.cluster_map()?;
    Some(&identity::of(engine)?.forwarding)
}

/// Sends a message that was published here to all other nodes of the cluster.
#[cold]
pub fn forward(engine: &Engine, forwarding: &Forwarding, channel: &[u8], message: &[u8]) {
    let peers = forwarding.peers.load();
    if peers.is_empty() {
        return;
    }
    let mut bytes = Vec::with_capacity(channel.len() + message.len() + 64);
    let args = [b"CLUSTER", &b"FORWARD"[..], channel, message];
    request::push_count(&mut bytes, args.len());
    args.iter().for_each(|arg| request::push_bulk(&mut bytes, arg));
    let request: Arc<[u8]> = bytes.into();
    for peer in peers.iter() {
        if peer.push(engine, &request) {
            forwarding.sent.fetch_add(1, Relaxed);
        } else {
            forwarding.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Peer {
    /// Queues a request. False if the node is being left alone or its queue is full.
    fn push(self: &Arc<Peer>, engine: &Engine, request: &Arc<[u8]>) -> bool {
        let mut queue = self.queue.lock();
        let is_alone = queue.alone_until.is_some_and(|until| Instant::now() < until);
        if queue.is_gone || is_alone || queue.bytes + request.len() > QUEUE_BYTES {
            return false;
        }
        queue.bytes += request.len();
        queue.requests.push_back(Arc::clone(request));
        if queue.is_served {
            if queue.requests.len() == 1 {
                self.has_more.notify_one();
            }
            return true;
        }
        let (engine, peer) = (engine.weak(), Arc::clone(self));
        let thread = std::thread::Builder::new().name("forward".into());
        queue.is_served = thread.spawn(move || peer.serve(&engine)).is_ok();
        if !queue.is_served {
            queue.clear();
        }
        queue.is_served
    }

    /// Sends the queue, until it has been empty for a while or the node is unreachable.
    fn serve(&self, engine: &Weak<Engine>) {
        let Some(engine) = engine.upgrade() else { return };
        // After a regular end the queue has been released already, and may have another thread by
        // now.
        let Err(why) = self.send_all(&engine) else { return };
        let mut queue = self.queue.lock();
        (queue.is_served, queue.connected_ms) = (false, 0);
        if let Some(forwarding) = forwarding::of(&engine) {
            forwarding.lost.fetch_add(queue.requests.len() as u64, Relaxed);
        }
        queue.clear();
        queue.pause = (queue.pause * 2).clamp(PAUSE, PAUSE_MAX);
        queue.alone_until = Some(Instant::now() + queue.pause);
        if !queue.is_gone && !std::mem::replace(&mut queue.is_reported, true) {
            let PeerAddress { host, port, .. } = &self.address;
            log::warn!("PUBLISH messages do not reach node {} ({host}:{port}): {why}", self.id);
        }
    }

    fn send_all(&self, engine: &Engine) -> Result<(), String> {
        let mut connection = self.connect(engine)?;
        self.queue.lock().connected_ms = unix_ms();
        let broken = |broken: Broken| match broken.timed_out {
            true => "no reply in time".to_owned(),
            false => "the connection was lost".to_owned(),
        };
        while let Some(requests) = self.take(engine) {
            for request in &requests {
                connection.push_encoded(request).map_err(broken)?;
            }
            connection.flush().map_err(broken)?;
            let mut refusal = None;
            for _ in &requests {
                let line = connection.line().map_err(broken)?;
                let error = line.strip_prefix(b"-");
                refusal = error.map(|error| String::from_utf8_lossy(error).into_owned()).or(refusal);
            }
            if let Some(error) = refusal {
                return Err(error);
            }
            let mut queue = self.queue.lock();
            (queue.pause, queue.alone_until) = (Duration::ZERO, None);
            if std::mem::take(&mut queue.is_reported) {
                log::info!("PUBLISH messages reach node {} again", self.id);
            }
        }
        Ok(())
    }

    fn connect(&self, engine: &Engine) -> Result<Connection, String> {
        let PeerAddress { host, port, is_tls } = &self.address;
        let patience = Duration::from_millis(u64::from(engine.config.lease_time_ms()));
        let broken = |_| "the connection was lost".to_owned();
        Connector::new(&engine.config, *is_tls, patience).open_logged_in(host, *port, broken)
    }

    /// The next requests to send; `None` if the thread must end.
    fn take(&self, engine: &Engine) -> Option<Vec<Arc<[u8]>>> {
        let mut queue = self.queue.lock();
        if queue.requests.is_empty() && !queue.is_gone {
            self.has_more.wait_for(&mut queue, IDLE);
        }
        if queue.requests.is_empty() || queue.is_gone || engine.shutdown.is_requested() {
            // Set under the lock: the next queued request starts a new thread.
            (queue.is_served, queue.connected_ms) = (false, 0);
            return None;
        }
        let count = queue.requests.len().min(BATCH);
        let taken: Vec<Arc<[u8]>> = queue.requests.drain(..count).collect();
        queue.bytes -= taken.iter().map(|request| request.len()).sum::<usize>();
        Some(taken)
    }
}

#[cfg(test)]
mod tests;
