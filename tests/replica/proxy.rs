// SPDX-License-Identifier: BSD-3-Clause
//! A TCP proxy between a primary and its replicas, which can be cut anywhere in the stream.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};

/// Forwards connections to a server that may go down and come back. Stops on drop.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    is_over: AtomicBool,
    /// Number of bytes that the server may still send before all connections are cut; negative:
    /// unlimited.
    budget: AtomicI64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy for a local port.
    pub fn new(target: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target));
        let shared = Arc::new(Shared {
            target,
            is_over: AtomicBool::new(false),
            budget: AtomicI64::new(-1),
            open: Mutex::default(),
        });
        let its = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &its));
        Proxy { port, shared }
    }

    /// The port that replicas connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Cuts all connections after the server has sent this many more bytes.
    pub fn cut_after(&self, bytes: i64) {
        self.shared.budget.store(bytes, SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        self.cut();
        // Wakes the accepting thread.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn cut(&self) {
        for socket in self.open.lock().expect("no thread panicked while holding it").drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// How many of these bytes may pass; true if the connections must be cut after them.
    fn pass(&self, count: usize) -> (usize, bool) {
        let wanted = count as i64;
        let taken = self.budget.fetch_update(SeqCst, SeqCst, |left| match left {
            ..0 => None,
            left if left <= wanted => Some(-1),
            left => Some(left - wanted),
        });
        match taken {
            Ok(left) if left <= wanted => (left as usize, true),
            _ => (count, false),
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.is_over.load(SeqCst) {
            return;
        }
        let Ok(replica) = socket else { continue };
        // Without a server the connection is closed, and the replica tries again.
        let Ok(server) = TcpStream::connect(shared.target) else { continue };
        let ends = [&replica, &server].map(|end| end.try_clone().expect("a second handle"));
        let back = [&server, &replica].map(|end| end.try_clone().expect("a second handle"));
        shared.open.lock().expect("no thread panicked while holding it").extend([replica, server]);
        let [from, to] = ends;
        std::thread::spawn(move || copy(from, to, None));
        let [from, to] = back;
        let shared = Arc::clone(shared);
        std::thread::spawn(move || copy(from, to, Some(&shared)));
    }
}

/// Copies until one end is closed. `shared`: set if the budget applies to this direction.
fn copy(mut from: TcpStream, mut to: TcpStream, shared: Option<&Shared>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let (count, is_cut) = shared.map_or((count, false), |shared| shared.pass(count));
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
        if is_cut && let Some(shared) = shared {
            shared.cut();
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
