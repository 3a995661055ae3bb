// SPDX-License-Identifier: BSD-3-Clause
//! Errors of calls. Failover relies on the difference between a request that was certainly not
//! executed and one whose outcome is unknown: when in doubt, an error is [`Error::Unknown`].

/// Reasons why a call failed. The text is one sentence for a log; it names the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No endpoint could be reached. The request was not sent, so it was not executed.
    #[error("{0}")]
    Unreachable(String),
    /// The request was sent and its outcome is unknown: no answer in time, a lost connection, or
    /// an error from etcd that does not tell whether the request was executed.
    #[error("{0}; whether the request was executed is unknown")]
    Unknown(String),
    /// etcd refused the request, the login or the certificate. The request was not executed.
    #[error("{0}")]
    Refused(String),
    /// The answer is not from etcd, or cannot be parsed. Whether the request was executed is
    /// unknown as well.
    #[error("{0}")]
    Invalid(String),
    /// The revision is older than etcd's history, which begins at `oldest` (0 if etcd does not
    /// say).
    #[error("etcd's history has been compacted up to revision {oldest}: the keys must be read again")]
    Compacted { oldest: i64 },
    /// The lease for the key has expired or been revoked. The request was not executed.
    #[error("the etcd lease has expired")]
    LeaseGone,
}

impl Error {
    /// True if the request may have taken effect: the caller must be prepared for both outcomes.
    pub fn may_have_been_executed(&self) -> bool {
        matches!(self, Error::Unknown(_) | Error::Invalid(_))
    }
}
