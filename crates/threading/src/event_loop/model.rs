// SPDX-License-Identifier: BSD-3-Clause
//! The interface between a threading model and the loop: the places where models differ.
//!
//! The provided methods describe a thread that serves its clients by itself (the `parallel`
//! model); a model overrides only those where it differs. Every call is resolved at compile time.
//! Step two is not one of these places: a model decides when a batch is executed and by which
//! thread, never how ([`super::execute`]).

use braid_clients::Message;

use super::EventLoop;
use super::run::Run;
use crate::batch::Request;

/// A threading model, as seen by the loop of one of its threads.
pub trait Model: Sized {
    /// Another thread may execute some of a client's requests: the loop calls [`Model::migrates`]
    /// for each.
    const MIGRATES_REQUESTS: bool = false;

    /// Clients occasionally move to another thread and come back.
    const CLIENTS_MIGRATE: bool = false;

    /// The loop sends its clients' replies itself, so it can hold back replies that must first be
    /// durable (`durable_replies.rs`). Otherwise the loop waits for the disk. Replies that wait
    /// for members of a group are held back in all models.
    const HOLDS_REPLIES: bool = false;

    /// A client's socket is readable.
    #[inline]
    fn read(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.read_here(place);
    }

    /// A client has received input that is not yet executed.
    #[inline]
    fn resume(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.resume_here(place);
    }

    /// Executes the batch and sends the replies.
    #[inline]
    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        event_loop.execute();
        event_loop.write_replies();
    }

    /// Called before a batch is executed, outside the gate.
    #[inline]
    fn before_execution(_event_loop: &mut EventLoop<Self>) {}

    /// Called after a batch has been executed, outside the gate.
    #[inline]
    fn after_execution(_event_loop: &mut EventLoop<Self>) {}

    /// Whether another thread executes a request; if so, its client is marked to migrate
    /// (`Deferral::Elsewhere`).
    #[inline]
    fn migrates(_event_loop: &mut EventLoop<Self>, _run: &Run, _request: &Request) -> bool {
        false
    }

    /// A script of this thread has stopped the world for long, and the loop is about to take a
    /// turn while the script runs.
    fn script_takes_long(_event_loop: &mut EventLoop<Self>) {}

    /// A request that runs scripts has been executed. The thread is inside the gate, unless
    /// `outside` is set.
    #[inline]
    fn script_has_ended(_event_loop: &mut EventLoop<Self>) {}

    /// Called when the loop's notifier was rung: more than mail may have arrived.
    #[inline]
    fn take_arrivals(_event_loop: &mut EventLoop<Self>) {}

    /// Arrived clients that did not fit into this turn are waiting.
    #[inline]
    fn has_arrivals(_event_loop: &EventLoop<Self>) -> bool {
        false
    }

    /// The number of threads has changed.
    fn follow_thread_count(_event_loop: &mut EventLoop<Self>) {}

    /// Keeps a message for an absent client until the client returns. Returns the message if the
    /// client is here.
    #[inline]
    fn defer_message(_event_loop: &mut EventLoop<Self>, _id: u64, message: Message) -> Option<Message> {
        Some(message)
    }
}
