// SPDX-License-Identifier: BSD-3-Clause
//! Access control: the user of a request (HTTP basic authentication), and the resources open to
//! that user.
//!
//! A resource is open to users who may run the commands that show the same data ([`Resource`]).
//! Requests without a name and password belong to the default user, if that user needs no
//! password. An empty name also means the default user.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use braid_acl::DEFAULT_USER;
use braid_acl::log::{Event, Origin, Reason};
use braid_acl::user::User;
use braid_executor::Engine;

/// The requested resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// The metrics, and the page that shows them: requires permission to run INFO.
    Metrics,
    /// The slow log: requires permission to run SLOWLOG GET.
    SlowLog,
    /// The largest keys: requires permission to run SCAN, and MEMORY USAGE on any key.
    BigKeys,
}

/// Outcome of an access check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Granted,
    /// The name or password is missing or wrong.
    Unauthorized,
    /// The user may not see the resource.
    Forbidden,
}

/// Decides based on the `Authorization` header.
pub fn check(engine: &Engine, resource: Resource, authorization: Option<&[u8]>, peer: &str) -> Access {
    let default = engine.acl.default_user();
    if default.is_open() && resource.is_open_to(engine, &default) {
        return Access::Granted;
    }
    let Some((name, password)) = authorization.and_then(credentials) else {
        // A page that is open without a password must not ask for one because of one panel.
        let sees_page = default.is_open() && Resource::Metrics.is_open_to(engine, &default);
        return if sees_page { Access::Forbidden } else { Access::Unauthorized };
    };
    let name = if name.is_empty() { DEFAULT_USER } else { &name };
    match engine.acl.authenticate(name, &password) {
        Some(user) if resource.is_open_to(engine, &user) => Access::Granted,
        Some(_) => Access::Forbidden,
        None => {
            let event = Event {
                reason: Reason::Authentication,
                origin: Origin::TopLevel,
                object: b"HTTP".to_vec(),
                user: name.to_vec(),
                client: format!("addr={peer} cmd=http").into_bytes(),
            };
            let now = braid_base::clock::unix_ms();
            engine.acl.count_denied_by_http(name);
            engine.acl.log.push(event, now, engine.config.acllog_max_len());
            Access::Unauthorized
        }
    }
}

impl Resource {
    fn is_open_to(self, engine: &Engine, user: &User) -> bool {
        // They show all databases.
        let databases = || 0..engine.keyspace.databases();
        let allows = |name: &[u8], args: &[&[u8]]| {
            let command = engine.commands.find_full(name);
            command.is_some_and(|command| databases().all(|one| user.check(command, args, one).is_ok()))
        };
        let measures_all = || {
            let command = engine.commands.find_full(b"memory|usage");
            let args: [&[u8]; 3] = [b"MEMORY", b"USAGE", b""];
            command.is_some_and(|command| databases().all(|one| user.check_reading_all(command, &args, one)))
        };
        match self {
            Resource::Metrics => allows(b"info", &[b"INFO"]),
            Resource::SlowLog => allows(b"slowlog|get", &[b"SLOWLOG", b"GET"]),
            Resource::BigKeys => allows(b"scan", &[b"SCAN", b"0"]) && measures_all(),
        }
    }

    /// The reply to users without the permission.
    pub fn refusal(self) -> &'static str {
        match self {
            Resource::Metrics => "This user may not run INFO.\n",
            Resource::SlowLog => "This user may not run SLOWLOG GET.\n",
            Resource::BigKeys => "This user may not run SCAN, or MEMORY USAGE on all keys.\n",
        }
    }
}

/// Name and password from a header.
fn credentials(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, code) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = STANDARD.decode(code.trim_ascii()).ok()?;
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

/// True if a request's `Host` is a name of this machine. A foreign web page could make another name
/// point here, so that its reader's browser fetches the metrics for it (DNS rebinding).
pub fn is_own_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        assert_eq!(credentials(b"Basic dTpwOnE="), Some((b"u".to_vec(), b"p:q".to_vec())));
        assert_eq!(credentials(b"basic OnA="), Some((Vec::new(), b"p".to_vec())));
        for wrong in [&b""[..], b"Basic", b"Basic ", b"Basic dTpw!", b"Bearer dTpw", b"Basic dXA="] {
            assert_eq!(credentials(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn hosts() {
        for own in ["localhost", "LOCALHOST:1", "127.0.0.1:9121", "[::1]:80", "[::1]", "10.0.0.1"] {
            assert!(is_own_host(own), "{own}");
        }
        for foreign in ["evil.example", "evil.example:9121", "", "127.0.0.1.evil.example", "[x]:1"] {
            assert!(!is_own_host(foreign), "{foreign}");
        }
    }
}
