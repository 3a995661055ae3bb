// SPDX-License-Identifier: BSD-3-Clause
//! Why a call failed, and whether it may have been executed nevertheless.

use std::io;

/// A failed call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No endpoint could be connected to: nothing was executed.
    #[error("etcd cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent, and no answer came: it may have been executed, or may still be.
    #[error("etcd did not answer: {0}")]
    Unknown(String),
    /// etcd refused the request; nothing was executed.
    #[error("etcd refused: {0}")]
    Refused(String),
    /// The answer is not one of etcd's.
    #[error("not an answer of etcd: {0}")]
    Invalid(String),
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(String),
}

impl Error {
    /// Whether the request may have been executed.
    pub fn may_have_been_executed(&self) -> bool {
        matches!(self, Error::Unknown(_) | Error::Invalid(_))
    }

    /// Of a request to an endpoint that has not been answered.
    pub(crate) fn of_request(error: &ureq::Error, endpoint: &str) -> Error {
        use ureq::Timeout::{Connect, Resolve};
        let text = format!("{endpoint}: {error}");
        match error {
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::BadUri(_)
            | ureq::Error::Tls(_)
            | ureq::Error::Pem(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::Timeout(Connect | Resolve) => Error::Unreachable(text),
            // Only connect() says so.
            ureq::Error::Io(io) if io.kind() == io::ErrorKind::ConnectionRefused => Error::Unreachable(text),
            ureq::Error::Io(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                Error::Unreachable(text)
            }
            ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::RedirectFailed => {
                Error::Invalid(text)
            }
            _ => Error::Unknown(text),
        }
    }
}
