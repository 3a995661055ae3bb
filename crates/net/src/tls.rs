// SPDX-License-Identifier: BSD-3-Clause
//! TLS: the configuration for handshakes ([`settings`], [`client`]), and the state of one
//! connection over a non-blocking socket ([`connection`]).
//!
//! Handshakes and encryption run on the thread that owns the connection. An idle connection holds
//! no buffers: bytes pass through per-thread scratch memory.

mod client;
mod connection;
mod sessions;
mod settings;

pub use connection::TlsConnection;
pub use rustls::{ClientConfig, ServerConfig};
pub use settings::{ClientCertificates, TlsSettings};

#[cfg(test)]
mod tests;
