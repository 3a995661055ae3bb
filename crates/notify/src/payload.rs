// SPDX-License-Identifier: BSD-3-Clause
//! What a push carries, and its form in each protocol.

use std::sync::Arc;

use braid_resp::reply::{Protocol, ReplyBuffer};

use crate::frame::Frame;
use crate::listener::Listener;

/// The channel that RESP2 clients get invalidations of others on.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What is sent.
#[derive(Debug)]
pub enum Payload {
    /// A published message.
    Message(Frame),
    /// A line for those who monitor.
    Line(Box<[u8]>),
    /// Keys that a client shall forget.
    Invalidation(Invalidation),
    /// The client that a tracking one redirects to is gone.
    RedirectBroken(i64),
}

impl Payload {
    /// Adds it to what a client is sent.
    pub fn write(&self, listener: &Listener, reply: &mut ReplyBuffer) {
        match self {
            Payload::Message(frame) => frame.write(reply),
            Payload::Line(line) => reply.raw(line),
            Payload::Invalidation(invalidation) => invalidation.write(listener, reply),
            Payload::RedirectBroken(redirect) => {
                if reply.protocol == Protocol::Resp3 {
                    reply.push(2);
                    reply.bulk(b"tracking-redir-broken");
                    reply.integer(*redirect);
                }
            }
        }
    }
}

/// Keys that a client shall forget.
#[derive(Debug)]
pub struct Invalidation {
    /// The client that tracks.
    pub(crate) owner: u64,
    /// It is told to another one.
    pub(crate) redirected: bool,
    /// The encoded array of keys; nothing: all of them.
    pub(crate) keys: Option<Arc<[u8]>>,
}

impl Invalidation {
    /// Adds it to what a client is sent, if there is a form that the client understands.
    pub(crate) fn write(&self, listener: &Listener, reply: &mut ReplyBuffer) {
        match reply.protocol {
            Protocol::Resp3 => {
                reply.push(2);
                reply.bulk(b"invalidate");
            }
            Protocol::Resp2 if self.redirected && listener.subscriptions.is_some() => {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
            }
            Protocol::Resp2 => return,
        }
        match &self.keys {
            Some(keys) => reply.raw(keys),
            None => reply.null(),
        }
    }
}
