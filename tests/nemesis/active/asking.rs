// SPDX-License-Identifier: BSD-3-Clause
//! Connections to regions, and single requests.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use braid_tests::{RawClient, Value};

use crate::system::PORT;

const CONNECT_PATIENCE: Duration = Duration::from_millis(300);
/// An operator's request may take longer than a client's.
const ASK_PATIENCE: Duration = Duration::from_secs(10);

/// A connection with this time limit for replies.
pub fn connect(address: IpAddr, patience: Duration) -> Option<RawClient> {
    let socket = TcpStream::connect_timeout(&SocketAddr::new(address, PORT), CONNECT_PATIENCE).ok()?;
    let mut client = RawClient::from_tcp(socket).ok()?;
    client.set_patience(patience).ok()?;
    Some(client)
}

/// Sends a request; `None` without a reply, or for an error.
pub fn ask(address: IpAddr, line: &str) -> Option<String> {
    let reply = reply(address, line)?;
    let text = || reply.integer().map_or_else(|| reply.text(), |number| number.to_string());
    (!reply.is_error()).then(text)
}

/// The complete reply.
pub fn reply(address: IpAddr, line: &str) -> Option<Value> {
    let mut client = connect(address, ASK_PATIENCE)?;
    client.try_send(&braid_tests::request(line)).ok()?;
    client.try_read().ok()
}
