// SPDX-License-Identifier: BSD-3-Clause
//! The interface between a threading model and the loop: the places where models differ.
//!
//! The provided methods describe a thread that serves its clients by itself (the `parallel`
//! model); a model overrides only those where it differs. The loop is compiled once for all models,
//! and calls its own a few times per turn and client, through a table. A model's state is in cells:
//! the loop, which these methods change, holds the model and may call it again meanwhile. A borrow
//! of a cell must not last while the loop works.
//!
//! Step two is not one of these places: a model decides when a batch is executed and by which
//! thread, never how ([`super::execute`]).

use braid_clients::Message;

use super::EventLoop;
use super::run::Run;
use crate::batch::Request;

/// What the loop does differently for a model.
#[derive(Clone, Copy, Default)]
pub struct Properties {
    /// Another thread may execute some of a client's requests: the loop calls [`Model::migrates`]
    /// for each.
    pub migrates_requests: bool,

    /// Clients occasionally move to another thread and come back.
    pub clients_migrate: bool,

    /// The loop sends its clients' replies itself, so it can hold back replies that must first be
    /// durable (`durable_replies.rs`). Otherwise the loop waits for the disk. Replies that wait
    /// for members of a group are held back in all models.
    pub holds_replies: bool,
}

/// A threading model, as seen by the loop of one of its threads.
pub trait Model {
    /// What the loop does differently. The answer is always the same.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// A client's socket is readable.
    fn read(&self, event_loop: &mut EventLoop, place: u32) {
        event_loop.read_here(place);
    }

    /// A client has received input that is not yet executed.
    fn resume(&self, event_loop: &mut EventLoop, place: u32) {
        event_loop.resume_here(place);
    }

    /// Executes the batch and sends the replies.
    fn execute_and_write(&self, event_loop: &mut EventLoop) {
        event_loop.execute();
        event_loop.write_replies();
    }

    /// Called before a batch is executed, outside the gate.
    fn before_execution(&self, _event_loop: &mut EventLoop) {}

    /// Called after a batch has been executed, outside the gate.
    fn after_execution(&self, _event_loop: &mut EventLoop) {}

    /// Whether another thread executes a request; if so, its client is marked to migrate
    /// (`Deferral::Elsewhere`).
    fn migrates(&self, _event_loop: &mut EventLoop, _run: &Run, _request: &Request) -> bool {
        false
    }

    /// A script of this thread has stopped the world for long, and the loop is about to take a
    /// turn while the script runs.
    fn script_takes_long(&self, _event_loop: &mut EventLoop) {}

    /// A request that runs scripts has been executed. The thread is inside the gate, unless
    /// `outside` is set.
    fn script_has_ended(&self, _event_loop: &mut EventLoop) {}

    /// Called when the loop's notifier was rung: more than mail may have arrived.
    fn take_arrivals(&self, _event_loop: &mut EventLoop) {}

    /// Arrived clients that did not fit into this turn are waiting.
    fn has_arrivals(&self) -> bool {
        false
    }

    /// The number of threads has changed.
    fn follow_thread_count(&self, _event_loop: &mut EventLoop) {}

    /// Keeps a message for an absent client until the client returns. Returns the message if the
    /// client is here.
    fn defer_message(&self, _event_loop: &mut EventLoop, _id: u64, message: Message) -> Option<Message> {
        Some(message)
    }
}
