// SPDX-License-Identifier: BSD-3-Clause
//! TLS: the configuration for handshakes ([`settings`], [`client`]), and one connection's state
//! over a non-blocking socket ([`connection`]).
//!
//! Handshake and encryption run on the thread that owns the connection. An idle connection holds no
//! buffers: bytes pass through scratch memory of the thread.

mod client;
mod connection;
mod sessions;
mod settings;

pub use connection::TlsConnection;
pub use rustls::{ClientConfig, ServerConfig};
pub use settings::{ClientCertificates, TlsSettings};

#[cfg(test)]
mod tests;
