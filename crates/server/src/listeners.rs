// SPDX-License-Identifier: BSD-3-Clause
//! Opens the configured listening sockets.

use std::path::Path;
use std::sync::Arc;

use braid_base::system_text::reason;
use braid_clients::Message;
use braid_config::Config;
use braid_executor::Engine;
use braid_net::listener::{Listener, TcpOptions};
use braid_process::tls;
use braid_threading::accept::Listeners;

use crate::tls_reload;

/// Opens all listeners. The error names the one that cannot be opened.
pub fn open(config: &Config) -> Result<Arc<Listeners>, String> {
    let listeners = Arc::new(Listeners::default());
    let port = config.port();
    if config.tls_port() != 0 {
        listeners.set_tls(Some(
            tls::settings(config)
                .server_config()
                .map_err(|error| format!("Failed to configure TLS: {error}"))?,
        ));
    }
    open_tcp(config, &listeners).map_err(|(is_tls, error)| {
        let (port, kind, option) =
            if is_tls { (config.tls_port(), "tls", "--tls-port") } else { (port, "tcp", "--port") };
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!(
                    ". The port is in use by another server: stop it, or choose another port with {option}"
                )
            }
            _ => String::new(),
        };
        format!("Failed listening on port {port} ({kind}), aborting: {}{advice}", reason(&error))
    })?;
    let path = config.unixsocket();
    if !path.is_empty() {
        let listener = Listener::unix(Path::new(&*path), config.unixsocketperm(), config.tcp_backlog())
            .map_err(|error| format!("Failed opening Unix socket: bind: {path}: {}", reason(&error)))?;
        let group = config.unixsocketgroup();
        if !group.is_empty() {
            set_group(Path::new(&*path), &group)
                .map_err(|why| format!("Failed opening Unix socket: group '{group}': {why}"))?;
        }
        listeners.add(listener);
    }
    if !listeners.any(|_| true) {
        return Err(
            "Configured to not listen anywhere, exiting: port, tls-port and unixsocket are all off.".into()
        );
    }
    Ok(listeners)
}

fn set_group(path: &Path, group: &str) -> Result<(), String> {
    const GROUPS: &str = "/etc/group";
    let groups = std::fs::read_to_string(GROUPS).map_err(|error| format!("{GROUPS}: {}", reason(&error)))?;
    let id = group_id(&groups, group).ok_or_else(|| format!("not in {GROUPS}"))?;
    std::os::unix::fs::chown(path, None, Some(id)).map_err(|error| reason(&error))
}

/// The number of a group in lines of `name:password:number:members`.
fn group_id(groups: &str, name: &str) -> Option<u32> {
    let named = groups.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    match named {
        Some(rest) => rest.split(':').nth(1)?.parse().ok(),
        None => name.parse().ok(),
    }
}

/// Closes TCP listeners that are no longer configured and opens new ones. The error states
/// whether a TLS listener failed, and why.
fn open_tcp(config: &Config, listeners: &Listeners) -> Result<(), (bool, std::io::Error)> {
    let bind = config.bind();
    let ports = [(config.port(), false), (config.tls_port(), true)];
    // A leading minus: serve the address only if the machine has it.
    let addresses: Vec<(&str, bool)> = bind
        .iter()
        .map(|address| address.strip_prefix('-').map_or((&**address, false), |rest| (rest, true)))
        .collect();
    let wanted: Vec<(&str, bool, u16, bool)> = ports
        .into_iter()
        .filter(|(port, _)| *port != 0)
        .flat_map(|(port, tls)| {
            addresses.iter().map(move |&(address, optional)| (address, optional, port, tls))
        })
        .collect();
    // Closed first, since a new address may overlap with an old one.
    listeners.retain(|listener| {
        listener.is_unix()
            || wanted.iter().any(|&(address, _, port, is_tls)| listener.is_tcp(address, port, is_tls))
    });
    let options = TcpOptions {
        backlog: config.tcp_backlog(),
        is_multipath: config.mptcp(),
        mark: config.socket_mark_id(),
    };
    for (address, optional, port, is_tls) in wanted {
        if listeners.any(|listener| listener.is_tcp(address, port, is_tls)) {
            continue;
        }
        match Listener::tcp(address, port, options) {
            Ok(listener) => listeners.add(listener.with_tls(is_tls)),
            Err(error) if optional && is_unavailable(&error) => {}
            Err(error) => {
                log::warn!(
                    "Warning: Could not create server TCP listening socket {address}:{port}: {}",
                    reason(&error)
                );
                return Err((is_tls, error));
            }
        }
    }
    Ok(())
}

/// The directives behind [`braid_process::tls::settings`].
const TLS_DIRECTIVES: [&str; 16] = [
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-alt-cert-file",
    "tls-alt-key-file",
    "tls-alt-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
    "tls-session-cache-size",
    "tls-session-cache-timeout",
];

/// Adapts the listeners to CONFIG SET and to changed certificate files. Connections of a closed
/// listener stay open.
pub fn follow(engine: &Engine, listeners: &Arc<Listeners>) -> Result<(), String> {
    let reload = |listeners: &Listeners, config: &Config| {
        if config.tls_port() == 0 {
            return Ok(());
        }
        let settings = tls::settings(config).server_config().map_err(|error| {
            log::warn!("Failed applying new configuration. {error}");
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })?;
        listeners.set_tls(Some(settings));
        Ok(())
    };
    {
        let listeners = Arc::clone(listeners);
        engine.config.on_change(&TLS_DIRECTIVES, move |config| reload(&listeners, config));
    }
    {
        // Registered before the listener of the port (below).
        let listeners = Arc::clone(listeners);
        engine.config.on_change(&["tls-port"], move |config| reload(&listeners, config));
    }
    for (name, failure) in [
        ("bind", "Failed to bind to specified addresses."),
        ("port", "Unable to listen on this port. Check server logs."),
        ("tls-port", "Unable to listen on this port. Check server logs."),
    ] {
        let listeners = Arc::clone(listeners);
        let first_loop = Arc::clone(&engine.clients.mailboxes[0]);
        engine.config.on_change(&[name], move |config| {
            let opened = open_tcp(config, &listeners);
            first_loop.send(Message::Reconfigure);
            opened.map_err(|_| failure.to_owned())
        });
    }
    tls_reload::follow(&engine.config, listeners)
}

fn is_unavailable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Logs the sockets that accept connections.
pub fn announce(config: &Config) {
    if config.port() != 0 {
        log::info!("Ready to accept connections tcp");
    }
    if config.tls_port() != 0 {
        log::info!("Ready to accept connections tls");
    }
    if !config.unixsocket().is_empty() {
        log::info!("Ready to accept connections unix");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_names_or_numbers() {
        let groups = "root:x:0:\nusers:x:100:ann,ben\nusers2::101:\nbroken\nodd:x:y:\n";
        for (name, id) in [
            ("root", Some(0)),
            ("users", Some(100)),
            ("users2", Some(101)),
            ("100", Some(100)),
            ("user", None),
            ("broken", None),
            ("odd", None),
            ("ann", None),
        ] {
            assert_eq!(group_id(groups, name), id, "{name}");
        }
    }
}
