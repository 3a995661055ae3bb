// SPDX-License-Identifier: BSD-3-Clause
//! The HTTP port of a server, asked without a library.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The body of what a port of this machine answers to GET; nothing if it does not answer.
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(socket, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// The value of a metric's only sample; none if the server does not have it.
pub fn metric(port: u16, name: &str) -> Option<f64> {
    let text = get(port, "/metrics")?;
    let value = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit_once(' ')?.1.parse().ok()
    };
    text.lines().find_map(value)
}
