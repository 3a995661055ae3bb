// SPDX-License-Identifier: BSD-3-Clause
//! Settings of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::Error;

/// How to reach etcd and log in.
#[derive(Clone)]
pub struct Options {
    /// Members of one cluster: `host:port`, `http://host:port` or `https://host:port`. Without a
    /// scheme, TLS is used if `tls` is set.
    pub endpoints: Vec<String>,
    /// Empty: no login.
    pub user: String,
    pub password: String,
    /// The trusted authorities and the client's certificate, as loaded by the caller.
    pub tls: Option<Arc<ClientConfig>>,
    /// Time limit for finding, connecting to and checking one endpoint, including the TLS
    /// handshake.
    pub connect_timeout: Duration,
    /// Time limit for a whole call: name lookup, connecting, sending, and receiving the last
    /// byte.
    pub request_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoints: Vec::new(),
            user: String::new(),
            password: String::new(),
            tls: None,
            connect_timeout: Duration::from_millis(500),
            request_timeout: Duration::from_secs(2),
        }
    }
}

impl fmt::Debug for Options {
    /// Without the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The endpoints as `scheme://host:port`.
    pub(crate) fn addresses(&self) -> Result<Vec<String>, Error> {
        if self.endpoints.is_empty() {
            return Err(Error::Invalid("no etcd endpoint is given".into()));
        }
        self.endpoints.iter().map(|endpoint| self.address(endpoint)).collect()
    }

    fn address(&self, endpoint: &str) -> Result<String, Error> {
        let wrong = |reason: &str| Error::Invalid(format!("'{endpoint}' is not an etcd endpoint: {reason}"));
        let (scheme, rest) = match endpoint.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return Err(wrong("only http:// and https:// are supported")),
            None => (if self.tls.is_some() { "https" } else { "http" }, endpoint),
        };
        if scheme == "https" && self.tls.is_none() {
            return Err(wrong("https:// requires TLS to be configured"));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let Some((host, port)) = rest.rsplit_once(':') else { return Err(wrong("it has no port")) };
        if port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(wrong("its port is not a number from 1 to 65535"));
        }
        if host.is_empty() || host.contains(['/', '@', '?', '#']) {
            return Err(wrong("it is not host:port"));
        }
        let address = format!("{scheme}://{rest}");
        match address.parse::<ureq::http::Uri>() {
            Ok(_) => Ok(address),
            Err(error) => Err(wrong(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_converted_to_urls() {
        let address = |text: &str| Options::default().address(text);
        assert_eq!(address("a:2379").unwrap(), "http://a:2379");
        assert_eq!(address("http://[::1]:2379/").unwrap(), "http://[::1]:2379");
        for wrong in
            ["", "a", "a:", "a:0", "a:x", ":1", "https://a:1", "ftp://a:1", "u@a:1", "a/b:1", "a b:1"]
        {
            assert!(matches!(address(wrong), Err(Error::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let options = Options { password: "secret".into(), ..Options::default() };
        assert!(!format!("{options:?}").contains("secret"));
    }
}
