//! The thread that answers.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use braid_engine::Engine;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use crate::access::{self, Access};
use crate::page::{PAGE, POLICY};
use crate::text::render;

/// Connections served at once; others wait.
const CONNECTIONS_MAX: usize = 32;
/// Time for a request's header to arrive, and for which a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest that a connection is kept.
const CONNECTION_MAX: Duration = Duration::from_secs(600);

type Reply = Response<Full<Bytes>>;

/// Listens on every address (separated by blanks) at a port. The error says which one could not be had.
pub fn bind(addresses: &str, port: u16) -> Result<Vec<TcpListener>, String> {
    let one = |address: &str| {
        let failed = |error: &dyn std::fmt::Display| {
            format!("Could not listen for HTTP on {address}, port {port}: {error}")
        };
        let ip: IpAddr = address.parse().map_err(|error| failed(&error))?;
        let listener = TcpListener::bind(SocketAddr::new(ip, port)).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        Ok(listener)
    };
    addresses.split_whitespace().map(one).collect()
}

/// Answers on these listeners, in a thread of its own, until the process ends.
pub fn serve(engine: Arc<Engine>, listeners: Vec<TcpListener>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            let mut tasks = Vec::new();
            for listener in listeners {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let (engine, places) = (Arc::clone(&engine), Arc::clone(&places));
                        tasks.push(tokio::spawn(accept(engine, listener, places)));
                    }
                    Err(error) => log::warn!("HTTP: {error}"),
                }
            }
            for task in tasks {
                let _ = task.await;
            }
        });
    };
    std::thread::Builder::new().name("metrics".into()).spawn(run)?;
    Ok(())
}

async fn accept(engine: Arc<Engine>, listener: tokio::net::TcpListener, places: Arc<Semaphore>) {
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, peer)) => {
                let engine = Arc::clone(&engine);
                tokio::spawn(async move {
                    let _place = place;
                    let service = service_fn(move |request| {
                        let reply = answer(&engine, peer, &request);
                        async move { Ok::<_, Infallible>(reply) }
                    });
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(16 * 1024);
                    let connection = http.serve_connection(TokioIo::new(socket), service);
                    // How a connection ends is its client's affair.
                    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
                });
            }
            Err(error) => {
                // Out of descriptors, most likely.
                log::warn!("HTTP: accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn answer(engine: &Engine, peer: SocketAddr, request: &Request<Incoming>) -> Reply {
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    let host = header(HOST).map(|host| String::from_utf8_lossy(host).into_owned());
    if peer.ip().to_canonical().is_loopback() && host.is_some_and(|host| !access::is_own_host(&host)) {
        return plain(StatusCode::FORBIDDEN, "This server is not known by that name.\n");
    }
    match access::check(engine, header(AUTHORIZATION), &peer.to_string()) {
        Access::Granted => {}
        Access::Unauthorized => {
            let mut reply = plain(StatusCode::UNAUTHORIZED, "Name and password of a user, please.\n");
            let scheme = HeaderValue::from_static("Basic realm=\"braid\", charset=\"UTF-8\"");
            reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return reply;
        }
        Access::Forbidden => return plain(StatusCode::FORBIDDEN, "This user may not run INFO.\n"),
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return reply;
    }
    match request.uri().path() {
        "/metrics" => text("text/plain; version=0.0.4; charset=utf-8", render(engine)),
        "/" => {
            let mut reply = text("text/html; charset=utf-8", PAGE.to_owned());
            reply.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            reply
        }
        _ => plain(StatusCode::NOT_FOUND, "There is / and /metrics.\n"),
    }
}

fn plain(status: StatusCode, body: &'static str) -> Reply {
    let mut reply = text("text/plain; charset=utf-8", body.to_owned());
    *reply.status_mut() = status;
    reply
}

fn text(kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    reply
}
