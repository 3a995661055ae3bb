//! Who may see the figures.
//!
//! Without a password for the default user everybody who can connect may, since everybody may then ask for INFO as well. With one, name and
//! password of a user who may run INFO are wanted (HTTP basic authentication; without a name, the default user's).

use std::sync::atomic::Ordering::Relaxed;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use braid_engine::Engine;
use braid_engine::acl::DEFAULT_USER;
use braid_engine::acl::log::{Event, Origin, Reason};
use braid_engine::acl::user::User;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Granted,
    /// Name and password are missing or wrong.
    Unauthorized,
    /// The user may not run INFO.
    Forbidden,
}

/// Decides by the `Authorization` header.
pub fn check(engine: &Engine, authorization: Option<&[u8]>, peer: &str) -> Access {
    let default = engine.acl.default_user();
    if default.is_open() && may_look(engine, &default) {
        return Access::Granted;
    }
    let Some((name, password)) = authorization.and_then(credentials) else { return Access::Unauthorized };
    let name = if name.is_empty() { DEFAULT_USER } else { &name };
    match engine.acl.authenticate(name, &password) {
        Some(user) if may_look(engine, &user) => Access::Granted,
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
            engine.acl.denied_by_http.fetch_add(1, Relaxed);
            engine.acl.log.push(event, now, engine.config.acllog_max_len());
            Access::Unauthorized
        }
    }
}

fn may_look(engine: &Engine, user: &User) -> bool {
    engine.commands.find(b"info").is_some_and(|info| user.check(info, &[b"INFO"]).is_ok())
}

/// Name and password of a header.
fn credentials(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, code) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = STANDARD.decode(code.trim_ascii()).ok()?;
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

/// Whether a request's host is one that this machine may be called by someone on it. A name could be one that a foreign web page has made to
/// point here, so that its reader's browser fetches the figures for it.
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
