//! A connected client as its owning thread holds it.

use std::os::fd::OwnedFd;

use braid_base::blob::Blob;
use braid_engine::Session;
use braid_resp::error::ProtocolError;
use braid_resp::parse::RequestParser;
use braid_resp::reply::ReplyBuffer;

/// A big argument on its way in.
pub struct Incoming {
    pub blob: Blob,
    /// Length of the argument; the line end behind it is received too and then cut off.
    pub len: usize,
}

impl Incoming {
    /// Bytes still to come, the line end included.
    pub fn missing(&self) -> usize {
        self.len + 2 - self.blob.len()
    }
}

/// One client: its socket, what was received and not yet executed, what is to be sent.
pub struct Client {
    pub socket: OwnedFd,
    pub session: Session,
    pub reply: ReplyBuffer,
    pub parser: RequestParser,
    /// Received bytes that could not be executed from the loop's shared buffer: a request's beginning.
    pub query: Vec<u8>,
    /// A big argument being received.
    pub incoming: Option<Incoming>,
    /// Big arguments of the request being received.
    pub blobs: Vec<Blob>,
    /// Its requests wait until it is resumed.
    pub postponed: bool,
    /// Execution of a batch stopped at this offset of the client's buffer: what follows is kept.
    pub keep_from: Option<usize>,
    /// To be reported, and the connection closed, when all requests before it are executed.
    pub protocol_error: Option<ProtocolError>,
    /// Polled for writing too.
    pub wants_write: bool,
    /// The connection is gone or to be dropped at once.
    pub broken: bool,
    /// On the loop's list of clients with something to send.
    pub in_write_list: bool,
    /// Since when (ms) its replies have been above the soft limit.
    pub over_soft_limit_since: Option<i64>,
}

impl Client {
    /// A client that has just connected.
    pub fn new(socket: OwnedFd, session: Session) -> Client {
        Client {
            socket,
            session,
            reply: ReplyBuffer::default(),
            parser: RequestParser::default(),
            query: Vec::new(),
            incoming: None,
            blobs: Vec::new(),
            postponed: false,
            keep_from: None,
            protocol_error: None,
            wants_write: false,
            broken: false,
            in_write_list: false,
            over_soft_limit_since: None,
        }
    }

    /// Bytes received and not yet executed.
    pub fn query_bytes(&self) -> usize {
        self.query.len() + self.incoming.as_ref().map_or(0, |incoming| incoming.blob.len())
    }

    /// Memory held for this client, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let blobs: usize = self.blobs.iter().map(|blob| blob.capacity()).sum();
        let incoming = self.incoming.as_ref().map_or(0, |incoming| incoming.blob.capacity());
        size_of::<Client>() + self.query.capacity() + blobs + incoming + self.reply.memory_bytes()
    }

    /// True when the client is to be dropped once (or even before) its replies are sent.
    pub fn is_finished(&self) -> bool {
        self.broken || (self.session.close_after_reply && self.reply.is_empty())
    }
}
