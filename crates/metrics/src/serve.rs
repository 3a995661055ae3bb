// SPDX-License-Identifier: BSD-3-Clause
//! The HTTP server thread.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use braid_base::system_text::reason;
use braid_executor::Engine;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
    HeaderValue, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;

use crate::access::{self, Access, Resource};
use crate::connections::{Connection, Connections};
use crate::health::Readiness;
use crate::history::{self, History};
use crate::page::{PAGE, POLICY};
use crate::panels;
use crate::render::render;

/// Timeout for a request's header, and for an idle connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum lifetime of a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(600);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

type Reply = Response<Full<Bytes>>;

/// Listens on every address (separated by blanks) at a port.
///
/// # Errors
/// If an address is not an IP address, or cannot be listened at: the text names it.
pub fn bind(addresses: &str, port: u16) -> Result<Vec<TcpListener>, String> {
    let one = |address: &str| {
        let failed = |error: &str| format!("Could not listen for HTTP on {address}, port {port}: {error}");
        let ip: IpAddr = address.parse().map_err(|_| failed("metrics-bind takes IP addresses"))?;
        let listener =
            TcpListener::bind(SocketAddr::new(ip, port)).map_err(|error| failed(&reason(&error)))?;
        listener.set_nonblocking(true).map_err(|error| failed(&reason(&error)))?;
        Ok(listener)
    };
    addresses.split_whitespace().map(one).collect()
}

/// Serves these listeners, on a separate thread, until the process ends.
///
/// # Errors
/// If the thread or its poller cannot be created.
pub fn serve(engine: Arc<Engine>, listeners: Vec<TcpListener>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        let connections = Rc::new(Connections::default());
        let history = Rc::new(RefCell::new(History::default()));
        let tasks = LocalSet::new();
        tasks.spawn_local(keep_history(Arc::clone(&engine), Rc::clone(&history)));
        for listener in listeners {
            let (engine, connections) = (Arc::clone(&engine), Rc::clone(&connections));
            let history = Rc::clone(&history);
            tasks.spawn_local(async move {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => accept(engine, history, listener, connections).await,
                    Err(error) => log::warn!("HTTP: {error}"),
                }
            });
        }
        runtime.block_on(tasks);
    };
    std::thread::Builder::new().name("metrics".into()).spawn(run)?;
    Ok(())
}

async fn keep_history(engine: Arc<Engine>, history: Rc<RefCell<History>>) {
    let mut ticks = tokio::time::interval(history::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        history.borrow_mut().sample(&engine, Instant::now());
    }
}

async fn accept(
    engine: Arc<Engine>,
    history: Rc<RefCell<History>>,
    listener: tokio::net::TcpListener,
    connections: Rc<Connections>,
) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let connection = connections.open(peer.ip());
                let (engine, connections) = (Arc::clone(&engine), Rc::clone(&connections));
                let history = Rc::clone(&history);
                tokio::task::spawn_local(async move {
                    let answers = answer_all(engine, history, &connections, &connection, socket, peer);
                    first(answers, connection.closed()).await;
                    connections.end(&connection);
                });
            }
            Err(error) => {
                // Most likely out of descriptors.
                log::warn!("HTTP: accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers the requests of a connection until it ends.
async fn answer_all(
    engine: Arc<Engine>,
    history: Rc<RefCell<History>>,
    connections: &Rc<Connections>,
    connection: &Rc<Connection>,
    socket: tokio::net::TcpStream,
    peer: SocketAddr,
) {
    let (connections, connection) = (Rc::clone(connections), Rc::clone(connection));
    let service = service_fn(move |request| {
        connections.note_request(&connection);
        let reply = answer(&engine, &history, peer, &request);
        async move { Ok::<_, Infallible>(reply) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(16 * 1024);
    // Errors that end a connection concern only its client.
    let answers = http.serve_connection(TokioIo::new(socket), service);
    let _ = tokio::time::timeout(CONNECTION_MAX, answers).await;
}

/// Waits until one of two futures is ready, and drops the other.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() { Poll::Ready(()) } else { other.as_mut().poll(context) }
    })
    .await;
}

fn answer(
    engine: &Engine,
    history: &RefCell<History>,
    peer: SocketAddr,
    request: &Request<Incoming>,
) -> Reply {
    let path = request.uri().path();
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let health = match path {
        "/health" => Some((StatusCode::OK, "ok")),
        "/ready" => {
            let readiness = Readiness::of(engine);
            let is_ready = readiness == Readiness::Ready;
            let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            Some((status, readiness.name()))
        }
        _ => None,
    };
    if let Some((status, word)) = health.filter(|_| is_read) {
        return reply(status, JSON, format!("{{\"status\":\"{word}\"}}\n"));
    }
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    let host = header(HOST).map(|host| String::from_utf8_lossy(host).into_owned());
    if peer.ip().to_canonical().is_loopback() && host.is_some_and(|host| !access::is_own_host(&host)) {
        return last(reply(StatusCode::FORBIDDEN, TEXT, "This server is not known by that name.\n"));
    }
    let resource = match path {
        "/slowlog" => Resource::SlowLog,
        "/bigkeys" => Resource::BigKeys,
        _ => Resource::Metrics,
    };
    match access::check(engine, resource, header(AUTHORIZATION), &peer.to_string()) {
        Access::Granted => {}
        Access::Unauthorized => {
            let mut reply =
                reply(StatusCode::UNAUTHORIZED, TEXT, "Name and password of a user are required.\n");
            let scheme = HeaderValue::from_static("Basic realm=\"braid\", charset=\"UTF-8\"");
            reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return last(reply);
        }
        Access::Forbidden => return last(reply(StatusCode::FORBIDDEN, TEXT, resource.refusal())),
    }
    if !is_read {
        let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Only GET and HEAD are allowed.\n");
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return last(reply);
    }
    let ok = StatusCode::OK;
    match path {
        "/metrics" => reply(ok, "text/plain; version=0.0.4; charset=utf-8", render(engine)),
        "/history" => reply(ok, JSON, history.borrow().json(engine, Instant::now()).to_string()),
        "/slowlog" => reply(ok, JSON, panels::slow_log(engine).to_string()),
        "/replication" => reply(ok, JSON, panels::replication(engine).to_string()),
        "/bigkeys" => reply(ok, JSON, panels::big_keys(engine).to_string()),
        "/cluster" => reply(ok, JSON, panels::cluster(engine).to_string()),
        "/hotslots" => reply(ok, JSON, panels::hot_slots(engine).to_string()),
        "/" => {
            let mut reply = reply(ok, "text/html; charset=utf-8", PAGE);
            reply.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            reply
        }
        _ => reply(
            StatusCode::NOT_FOUND,
            TEXT,
            "Not found. Paths: / /metrics /health /ready /history /replication /slowlog /bigkeys /cluster /hotslots\n",
        ),
    }
}

/// A reply after which the connection is closed: unauthorized requests do not keep a connection.
fn last(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    reply
}
