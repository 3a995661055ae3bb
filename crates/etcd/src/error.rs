// SPDX-License-Identifier: BSD-3-Clause
//! Errors of calls. Failover relies on the difference between a request that certainly was not
//! executed and one whose outcome is unknown: when in doubt, an error is [`Error::Unknown`].

/// Why a call failed. The text is one sentence for a log; it names the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No endpoint could be reached. The request was not sent, so it was not executed.
    #[error("{0}")]
    Unreachable(String),
    /// The request was sent and its outcome is unknown: no answer in time, a connection lost, or an
    /// error of etcd that does not tell whether the request was executed.
    #[error("{0}; whether the request was executed is unknown")]
    Unknown(String),
    /// etcd refused the request, the login or the certificate. The request was not executed.
    #[error("{0}")]
    Refused(String),
    /// The answer is not one of etcd's, or not understood. Whether a request was executed is
    /// unknown, too.
    #[error("{0}")]
    Invalid(String),
    /// The revision is older than etcd's history, which begins at `oldest` (0 if etcd did not say).
    #[error("etcd's history has been compacted up to revision {oldest}: the keys have to be read anew")]
    Compacted { oldest: i64 },
    /// The lease that a key was to be bound to has expired or been revoked. The request was not
    /// executed.
    #[error("the etcd lease has expired")]
    LeaseGone,
}

impl Error {
    /// Whether the request may have taken effect: its caller must count on both.
    pub fn may_have_been_executed(&self) -> bool {
        matches!(self, Error::Unknown(_) | Error::Invalid(_))
    }
}
