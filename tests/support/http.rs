// SPDX-License-Identifier: BSD-3-Clause
//! A minimal HTTP client for a server's HTTP port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The body of the reply to GET from a local port; `None` if there is no reply.
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(socket, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// The value of a metric's only sample; `None` if the server does not expose it.
pub fn metric(port: u16, name: &str) -> Option<f64> {
    let text = get(port, "/metrics")?;
    let value = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit_once(' ')?.1.parse().ok()
    };
    text.lines().find_map(value)
}
