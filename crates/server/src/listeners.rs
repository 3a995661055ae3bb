//! Opening the sockets that the configuration asks for.

use std::path::Path;
use std::sync::Arc;

use braid_config::Config;
use braid_engine::Engine;
use braid_engine::client::Message;
use braid_net::listener::Listener;
use braid_threading::accept::Listeners;

/// Opens all listeners, or says which cannot be opened.
pub fn open(config: &Config) -> Result<Arc<Listeners>, String> {
    let listeners = Arc::new(Listeners::default());
    let port = config.port();
    open_tcp(config, &listeners).map_err(|()| format!("Failed listening on port {port} (tcp), aborting."))?;
    let path = config.unixsocket();
    if !path.is_empty() {
        let listener = Listener::unix(Path::new(&*path), config.unixsocketperm(), config.tcp_backlog())
            .map_err(|error| format!("Failed opening Unix socket: bind: {path}: {error}"))?;
        listeners.add(listener);
    }
    if !listeners.any(|_| true) {
        return Err("Configured to not listen anywhere, exiting.".into());
    }
    Ok(listeners)
}

/// Closes TCP listeners that the configuration does not want any more and opens those that it wants.
fn open_tcp(config: &Config, listeners: &Listeners) -> Result<(), ()> {
    let port = config.port();
    let bind = config.bind();
    // A leading minus: serve the address if the machine has it.
    let wanted: Vec<(&str, bool)> = bind
        .iter()
        .filter(|_| port != 0)
        .map(|address| address.strip_prefix('-').map_or((&**address, false), |rest| (rest, true)))
        .collect();
    // First of all, since an address may overlap with an old one.
    listeners.retain(|listener| {
        listener.is_unix() || wanted.iter().any(|(address, _)| listener.is_tcp(address, port))
    });
    for (address, optional) in wanted {
        if listeners.any(|listener| listener.is_tcp(address, port)) {
            continue;
        }
        match Listener::tcp(address, port, config.tcp_backlog()) {
            Ok(listener) => listeners.add(listener),
            Err(error) if optional && is_unavailable(&error) => {}
            Err(error) => {
                log::warn!("Warning: Could not create server TCP listening socket {address}:{port}: {error}");
                return Err(());
            }
        }
    }
    Ok(())
}

/// Has the listeners follow CONFIG SET. Connections that came in on a closed one stay.
pub fn follow(engine: &Engine, listeners: &Arc<Listeners>) {
    for (name, reason) in [
        ("bind", "Failed to bind to specified addresses."),
        ("port", "Unable to listen on this port. Check server logs."),
    ] {
        let listeners = Arc::clone(listeners);
        let first_loop = Arc::clone(&engine.mailboxes[0]);
        engine.config.on_change(&[name], move |config| {
            let opened = open_tcp(config, &listeners);
            first_loop.send(Message::Reconfigure);
            opened.map_err(|()| reason.to_owned())
        });
    }
}

fn is_unavailable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Logs where clients can connect.
pub fn announce(config: &Config) {
    if config.port() != 0 {
        log::info!("Ready to accept connections tcp");
    }
    if !config.unixsocket().is_empty() {
        log::info!("Ready to accept connections unix");
    }
}
