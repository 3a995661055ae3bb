//! Opening the sockets that the configuration asks for.

use std::path::Path;

use braid_config::Config;
use braid_net::listener::Listener;

/// Opens all listeners, or says which cannot be opened.
pub fn open(config: &Config) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    let port = config.port();
    if port != 0 {
        for address in config.bind().iter() {
            // A leading minus: serve the address if the machine has it.
            let (optional, address) = address.strip_prefix('-').map_or((false, &**address), |rest| (true, rest));
            match Listener::tcp(address, port, config.tcp_backlog()) {
                Ok(listener) => listeners.push(listener),
                Err(error) if optional && is_unavailable(&error) => {}
                Err(error) => {
                    log::warn!("Warning: Could not create server TCP listening socket {address}:{port}: {error}");
                    return Err(format!("Failed listening on port {port} (tcp), aborting."));
                }
            }
        }
    }
    let path = config.unixsocket();
    if !path.is_empty() {
        let listener = Listener::unix(Path::new(&*path), config.unixsocketperm(), config.tcp_backlog())
            .map_err(|error| format!("Failed opening Unix socket: bind: {path}: {error}"))?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err("Configured to not listen anywhere, exiting.".into());
    }
    Ok(listeners)
}

fn is_unavailable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported) || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
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
