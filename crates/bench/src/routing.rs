// SPDX-License-Identifier: BSD-3-Clause
//! Cluster routing: sends each request of a thread to the primary of its key's slot.
//!
//! Requests are drawn as for a single server. A request for a primary other than the connection's
//! waits until a connection to its primary takes it, so every drawn key is sent once. (If a primary
//! is slower than the others, requests that would wait for it are dropped and others drawn, unless
//! keys are sequential: then all must be sent.)
//!
//! A redirected request (MOVED) is sent again to the right node; its latency counts from the
//! resend, or in an open loop from its due time. ASK, TRYAGAIN and CLUSTERDOWN count as error
//! replies.
//!
//! HOT PATH: one copy of each request, and the computation of its key's slot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_base::crc::key_hash_slot;

use crate::cluster::{ClusterMap, NOBODY, argument};
use crate::distributions::Pattern;
use crate::recorder::Counting;
use crate::reply_scanner::{Class, Sink};
use crate::request::{Generator, Load};

/// Maximum queue of a slow primary, in batches.
const WAITING_BATCHES: usize = 64;
/// Maximum draws before a connection is left without requests for now.
const DRAWS_MAX: usize = 2_000;
/// Maximum back-off of draws for a primary without keys of the load.
const REST_MAX: u32 = 4_096;
/// Minimum interval between refreshes of the map.
const REFRESH: Duration = Duration::from_millis(100);

/// A drawn request.
struct Request {
    bytes: Vec<u8>,
    kind: u8,
    /// Open loop: its due time in nanoseconds from the start of the pass.
    due: u64,
}

/// A connection's requests in flight, in order.
#[derive(Default)]
pub(crate) struct Flight(VecDeque<Request>);

impl Flight {
    /// The due times of the last `count` requests (open loop).
    pub(crate) fn last_due(&self, count: usize) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().skip(self.0.len().saturating_sub(count)).map(|request| request.due)
    }
}

/// A thread's requests, by primary.
pub(crate) struct Router {
    map: Arc<ClusterMap>,
    version: u64,
    owners: Arc<[u16]>,
    /// The position of the key in each kind of request.
    key_places: Vec<Option<usize>>,
    queues: Vec<VecDeque<Request>>,
    /// The back-off of each primary: draws still to skip, and the length of the last back-off.
    rests: Vec<(u32, u32)>,
    /// Number of primaries to which this thread has connections.
    connected: usize,
    /// Buffers for reuse.
    pool: Vec<Vec<u8>>,
    batch: Vec<u8>,
    /// Maximum number of requests queued for one primary; `None`: unlimited.
    waiting_max: Option<usize>,
    /// All requests have been drawn.
    exhausted: bool,
    /// The last primary that got a request without a key (round-robin).
    turn: usize,
    has_several_kinds: bool,
    refreshed: Option<Instant>,
    pub(crate) redirected: u64,
}

impl Router {
    pub(crate) fn new(map: &Arc<ClusterMap>, load: &Load, pipeline: usize) -> Router {
        let is_sequential = load.kinds.iter().any(|kind| matches!(kind.pattern, Pattern::Sequential));
        let place = |sample: Vec<u8>| map.key_place(&sample);
        Router {
            version: map.version(),
            owners: map.owners(),
            key_places: load.kinds.iter().map(|kind| place(kind.template.sample())).collect(),
            queues: (0..map.node_count()).map(|_| VecDeque::new()).collect(),
            rests: vec![(0, 0); map.node_count()],
            // The last pass may have ended before it saw the newest nodes.
            connected: 0,
            pool: Vec::new(),
            batch: Vec::new(),
            waiting_max: (!is_sequential).then_some(WAITING_BATCHES * pipeline),
            exhausted: false,
            turn: 0,
            has_several_kinds: load.kinds.len() > 1,
            refreshed: None,
            redirected: 0,
            map: map.clone(),
        }
    }

    /// True if requests are queued.
    pub(crate) fn has_requests(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Number of requests queued for a primary.
    pub(crate) fn ready(&self, node: usize) -> usize {
        self.queues.get(node).map_or(0, VecDeque::len)
    }

    /// Picks up changes to the map. True if there are primaries that may have no connection yet.
    pub(crate) fn has_new_nodes(&mut self) -> bool {
        let version = self.map.version();
        if version != self.version {
            (self.version, self.owners) = (version, self.map.owners());
            self.queues.resize_with(self.map.node_count().max(self.queues.len()), VecDeque::new);
        }
        let has_new = self.queues.len() > self.connected;
        self.connected = self.queues.len();
        has_new
    }

    fn node_of(&mut self, request: &[u8], kind: u8) -> usize {
        let place = self.key_places.get(usize::from(kind)).copied().flatten();
        let key = place.and_then(|place| argument(request, place));
        let owner = key.map(|key| self.owners[usize::from(key_hash_slot(key))]);
        match owner {
            Some(NOBODY) => 0,
            Some(owner) => usize::from(owner).min(self.queues.len() - 1),
            None => {
                self.turn = (self.turn + 1) % self.queues.len();
                self.turn
            }
        }
    }

    /// Draws requests until `count` are queued for a primary. `claim` returns how many may still be
    /// drawn.
    pub(crate) fn prepare(
        &mut self,
        node: usize,
        count: usize,
        generator: &mut Generator,
        mut claim: impl FnMut(usize) -> usize,
    ) {
        if self.rests.len() < self.queues.len() {
            self.rests.resize(self.queues.len(), (0, 0));
        }
        if self.ready(node) == 0 && self.rests[node].0 > 0 {
            self.rests[node].0 -= 1;
            return;
        }
        let mut draws = 0;
        while !self.exhausted && self.ready(node) < count && draws < DRAWS_MAX.max(8 * count) {
            draws += 1;
            // Every drawn sequential key must be sent, so it is claimed before the draw: the
            // threads share one sequence, and a key drawn without a claim would be skipped by all.
            let is_claimed = self.waiting_max.is_none();
            if is_claimed && claim(1) == 0 {
                self.exhausted = true;
                return;
            }
            let mut kind = 0;
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(generator.batch(1, |drawn| kind = drawn));
            let owner = self.node_of(&bytes, kind);
            if owner != node && self.waiting_max.is_some_and(|most| self.queues[owner].len() >= most) {
                self.pool.push(bytes);
                continue;
            }
            if !is_claimed && claim(1) == 0 {
                self.exhausted = true;
                return;
            }
            self.queues[owner].push_back(Request { bytes, kind, due: 0 });
        }
        let rest = match self.ready(node) {
            0 => (2 * self.rests[node].1).clamp(1, REST_MAX),
            _ => 0,
        };
        self.rests[node] = (rest, rest);
    }

    /// Open loop: draws the request due now and queues it for its primary. Returns that primary.
    pub(crate) fn draw(&mut self, due: u64, generator: &mut Generator) -> usize {
        let mut kind = 0;
        let mut bytes = self.pool.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(generator.batch(1, |drawn| kind = drawn));
        let owner = self.node_of(&bytes, kind);
        self.queues[owner].push_back(Request { bytes, kind, due });
        owner
    }

    /// The due times of all queued requests (open loop).
    pub(crate) fn waiting_due(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().flatten().map(|request| request.due)
    }

    /// Takes queued requests for a primary, encoded as one batch, and puts them in flight.
    pub(crate) fn take(
        &mut self,
        node: usize,
        count: usize,
        flight: &mut Flight,
        kinds: &mut VecDeque<u8>,
    ) -> &[u8] {
        self.batch.clear();
        for _ in 0..count {
            let Some(request) = self.queues[node].pop_front() else { break };
            self.batch.extend_from_slice(&request.bytes);
            if self.has_several_kinds {
                kinds.push_back(request.kind);
            }
            flight.0.push_back(request);
        }
        &self.batch
    }

    /// Wraps a sink to intercept redirections before replies are counted.
    pub(crate) fn watch<'r, S: Counting>(&'r mut self, flight: &'r mut Flight, inner: S) -> Watched<'r, S> {
        Watched { router: self, flight, inner, moved: None, redirected: 0 }
    }

    /// Handles a redirected request.
    #[cold]
    fn redirect(&mut self, request: Request, text: &str) {
        self.redirected += 1;
        let base = self.map.node(0).0;
        let number = self.map.moved(&base, text);
        if self.refreshed.is_none_or(|at| at.elapsed() > REFRESH) {
            // If the refresh fails, further redirections will update the map.
            let _ = self.map.refresh();
            self.refreshed = Some(Instant::now());
        }
        let number = usize::from(number.unwrap_or(0));
        if self.queues.len() <= number {
            self.queues.resize_with(number + 1, VecDeque::new);
        }
        self.queues[number].push_back(request);
    }
}

/// A sink that intercepts redirections.
pub(crate) struct Watched<'r, S> {
    router: &'r mut Router,
    flight: &'r mut Flight,
    inner: S,
    /// The MOVED error of the reply being received.
    moved: Option<String>,
    redirected: usize,
}

impl<S> Watched<'_, S> {
    /// The inner sink, and the number of redirections.
    pub(crate) fn finish(self) -> (S, usize) {
        (self.inner, self.redirected)
    }
}

impl<S: Counting> Sink for Watched<'_, S> {
    fn replies(&mut self, class: Class, count: usize) {
        if let Some(text) = self.moved.take()
            && class == Class::Error
        {
            for _ in 0..count {
                let Some(request) = self.flight.0.pop_front() else { return };
                self.redirected += 1;
                self.inner.skip();
                self.router.redirect(request, &text);
            }
            return;
        }
        for request in self.flight.0.drain(..count.min(self.flight.0.len())) {
            self.router.pool.push(request.bytes);
        }
        self.inner.replies(class, count);
    }

    fn error(&mut self, text: &[u8]) {
        if text.starts_with(b"MOVED ") {
            self.moved = Some(String::from_utf8_lossy(text).into_owned());
        } else {
            self.inner.error(text);
        }
    }

    fn push(&mut self) {
        self.inner.push();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Keys, RequestKind, Sequences, Template};
    use braid_client::Target;
    use std::cell::RefCell;
    use std::collections::{BTreeSet, HashMap};

    const KEYS: usize = 100;

    /// Every drawn sequential key is sent, however two threads interleave.
    #[test]
    fn no_thread_skips_sequential_keys() {
        let keys = Keys { prefix: "key:".into(), first: 0, count: Some(KEYS as u64) };
        let template = Template::new(&["SET", "__key__", "v"], &keys);
        let places = HashMap::from([(template.sample(), Some(1))]);
        let kind = RequestKind { name: "SET".into(), template, weight: 1, pattern: Pattern::Sequential };
        let load = Load { kinds: vec![kind], keys, sizes: "3".parse().expect("a size"), random_data: false };
        let map = Arc::new(ClusterMap::of_one(Target::local(1), places));
        let sequences = Sequences::new(&load);
        let thread = |seed| (Router::new(&map, &load, 1), Generator::new(&load, &sequences, seed, 1));
        let ((mut one, mut ones), (mut other, others)) = (thread(1), thread(2));
        let left = RefCell::new((KEYS, &mut other, others));
        // The other thread takes everything that is left when this one starts its last step.
        let claim = |wanted: usize| {
            let (left, other, others) = &mut *left.borrow_mut();
            if *left == KEYS / 2 {
                let rest = std::mem::take(left);
                other.prepare(0, rest, others, |wanted| wanted);
            }
            let granted = wanted.min(*left);
            *left -= granted;
            granted
        };
        one.prepare(0, KEYS, &mut ones, claim);
        let sent = one.queues.iter().chain(&other.queues).flatten();
        let sent: Vec<&[u8]> = sent.map(|request| argument(&request.bytes, 1).expect("a key")).collect();
        let distinct: BTreeSet<&[u8]> = sent.iter().copied().collect();
        assert_eq!((sent.len(), distinct.len()), (KEYS, KEYS));
    }
}
