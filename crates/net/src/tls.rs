// SPDX-License-Identifier: BSD-3-Clause
//! TLS: the configuration for handshakes ([`settings`], [`client`]), the state of one connection
//! over a non-blocking socket ([`connection`]), and the names in a client's certificate
//! ([`identity`]).
//!
//! Handshakes and encryption run on the thread that owns the connection. An idle connection holds
//! no buffers: bytes pass through per-thread scratch memory.

mod client;
mod connection;
pub mod identity;
mod sessions;
mod settings;

pub use connection::TlsConnection;
pub use rustls::pki_types::CertificateDer;
pub use rustls::{ClientConfig, ServerConfig};
pub use settings::{ClientCertificates, TlsSettings};

#[cfg(test)]
mod tests;
