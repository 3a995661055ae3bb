// SPDX-License-Identifier: BSD-3-Clause
//! Registry of connected clients by ID.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::record::{ClientRecord, Message, client_flags};

/// All connected clients.
#[derive(Default)]
pub struct Registry {
    clients: RwLock<HashMap<u64, Arc<ClientRecord>, foldhash::fast::RandomState>>,
    count: AtomicUsize,
    /// Of these, clients from `priority-subnets`.
    priority: AtomicUsize,
    next_id: AtomicU64,
    /// Connections accepted since start.
    pub accepted: AtomicU64,
    /// Connections refused for `maxclients`.
    pub rejected: AtomicU64,
    /// Of these, connections from `priority-subnets`.
    pub rejected_priority: AtomicU64,
}

impl Registry {
    /// Allocates a client ID.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed) + 1
    }

    /// The last allocated ID.
    pub fn last_id(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    /// Adds a client.
    pub fn add(&self, record: Arc<ClientRecord>) {
        self.count.fetch_add(1, Relaxed);
        self.priority.fetch_add(usize::from(record.has(client_flags::PRIORITY)), Relaxed);
        self.clients.write().insert(record.id, record);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        let removed = self.clients.write().remove(&id);
        if let Some(record) = removed {
            self.count.fetch_sub(1, Relaxed);
            self.priority.fetch_sub(usize::from(record.has(client_flags::PRIORITY)), Relaxed);
        }
    }

    /// Number of clients.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Number of clients from `priority-subnets`.
    pub fn priority_count(&self) -> usize {
        self.priority.load(Relaxed)
    }

    /// A client by ID.
    pub fn get(&self, id: u64) -> Option<Arc<ClientRecord>> {
        self.clients.read().get(&id).cloned()
    }

    /// All clients, ordered by ID.
    pub fn all(&self) -> Vec<Arc<ClientRecord>> {
        let mut all: Vec<_> = self.clients.read().values().cloned().collect();
        all.sort_by_key(|record| record.id);
        all
    }

    /// Closes a client's connection. Its owner does so later; for all other threads the client is
    /// gone at once. False if it was closed before.
    pub fn disconnect(&self, record: &ClientRecord) -> bool {
        let was_told = record.set_flag(client_flags::CLOSE_NOW, true);
        self.remove(record.id);
        // The client is not served after this.
        record.end_wait();
        // A client without an owner is closed by the loop that takes it over.
        record.send(Message::Kill(record.id));
        !was_told
    }
}
