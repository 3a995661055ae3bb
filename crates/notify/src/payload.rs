// SPDX-License-Identifier: BSD-3-Clause
//! Payload of a push, and its encoding in each protocol.

use std::sync::Arc;

use braid_resp::reply::{Protocol, ReplyBuffer};

use crate::frame::Frame;
use crate::listener::Listener;

/// The channel of redirected invalidations in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Content of a push.
#[derive(Debug)]
pub enum Payload {
    /// A published message.
    Message(Frame),
    /// A MONITOR line.
    Line(Box<[u8]>),
    /// Invalidated keys.
    Invalidation(Invalidation),
    /// The target of redirected invalidations is gone.
    RedirectBroken(i64),
}

/// More than an invalidation has besides the keys.
const INVALIDATION_HEAD: usize = 64;

impl Payload {
    /// Bytes copied into the replies of a receiver, at most.
    pub fn copied_len(&self) -> usize {
        match self {
            Payload::Message(frame) => frame.copied_len(),
            Payload::Line(line) => line.len(),
            Payload::Invalidation(invalidation) => {
                INVALIDATION_HEAD + invalidation.keys.as_ref().map_or(0, |keys| keys.len())
            }
            Payload::RedirectBroken(_) => INVALIDATION_HEAD,
        }
    }

    /// Appends the payload to a reply buffer.
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

/// Invalidated keys.
#[derive(Debug)]
pub struct Invalidation {
    /// The tracking client.
    pub(crate) owner: u64,
    /// The invalidation is sent to another client.
    pub(crate) redirected: bool,
    /// The encoded array of keys; `None` means all keys.
    pub(crate) keys: Option<Arc<[u8]>>,
}

impl Invalidation {
    /// Appends the invalidation to a reply buffer, if the client's protocol supports it.
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
