// SPDX-License-Identifier: BSD-3-Clause
//! One request to one endpoint, and the classification of its failure.

use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body, Error as HttpError, Timeout};

use crate::options::Options;
use crate::transport::{Dial, Names, NotConnected, is_certificate_error, text_of, tls_error};
use crate::{Error, json};

/// The maximum size of a reply, in bytes.
pub const REPLY_LIMIT: u64 = 8 << 20;

/// Reasons why an exchange failed, by which the client decides how to continue.
#[derive(Debug)]
pub enum Failure {
    /// Nothing was sent: another endpoint may be tried.
    NotSent(Error),
    /// The login is missing or has expired: the request was not executed.
    Login(String),
    /// etcd's authentication is off, so there is nothing to log in to.
    NoLogins(String),
    Final(Error),
}

impl Failure {
    pub fn into_error(self) -> Error {
        match self {
            Failure::NotSent(error) | Failure::Final(error) => error,
            Failure::Login(text) | Failure::NoLogins(text) => Error::Refused(text),
        }
    }
}

/// The HTTP client. It follows no redirects and ignores proxies from the environment.
pub fn agent(options: &Options) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent("braid")
        .timeout_resolve(Some(options.connect_timeout))
        .timeout_connect(Some(options.connect_timeout))
        .build();
    Agent::with_parts(config, Dial::new(options.tls.clone()), Names::default())
}

/// The time left for a call.
pub fn left(deadline: Instant) -> Duration {
    // ureq treats zero as an error of its own: the shortest time fails soon enough.
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Checks that a recent enough etcd answers at the address. The check changes nothing, so when it
/// fails, in contrast to a request, certainly nothing has been executed.
pub fn check(agent: &Agent, address: &str, limit: Duration) -> Result<(), Error> {
    let invalid = |what: &str| Error::Invalid(format!("{address} is not an etcd server: {what}"));
    let answer = agent.get(format!("{address}/version")).config().timeout_global(Some(limit)).build().call();
    let answer = answer.and_then(|mut response| {
        let status = response.status().as_u16();
        Ok((status, response.body_mut().with_config().limit(REPLY_LIMIT).read_to_vec()?))
    });
    match answer {
        Ok((401 | 403, _)) => Err(Error::Refused(format!("{address} denies access"))),
        Ok((200, text)) => {
            let version: Value =
                serde_json::from_slice(&text).map_err(|_| invalid("its version is not JSON"))?;
            let version = json::text_of(&version, "etcdserver").map_err(|wrong| invalid(&wrong))?;
            let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
            match (numbers.next().flatten(), numbers.next().flatten()) {
                (Some(3), Some(4..)) | (Some(4..), Some(_)) => Ok(()),
                (Some(_), Some(_)) => {
                    Err(Error::Invalid(format!("{address} runs etcd {version}: 3.4 or newer is required")))
                }
                _ => Err(invalid("it reports no version")),
            }
        }
        Ok((status, _)) => Err(invalid(&format!("it replies with status {status}"))),
        Err(error) => Err(check_failed(address, &error)),
    }
}

fn check_failed(address: &str, error: &HttpError) -> Error {
    if let Some(error) = not_connected(address, error) {
        return error;
    }
    if let Some(tls) = tls_error(error) {
        return tls_failed(address, tls, is_certificate_error(tls));
    }
    match error {
        HttpError::Timeout(_) => Error::Unreachable(format!("{address} does not answer in time")),
        // A server that requires a certificate may close before its alert has been read.
        HttpError::Io(error) if address.starts_with("https") => Error::Unreachable(format!(
            "{address} closed the connection after the TLS handshake ({}): does it require a client \
             certificate?",
            text_of(error)
        )),
        HttpError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Error::Invalid(format!(
            "{address} is not an etcd server: it closes the connection without a reply"
        )),
        HttpError::Io(error) => Error::Unreachable(format!("{address}: {}", text_of(error))),
        error => Error::Invalid(format!("{address} is not an etcd server: {error}")),
    }
}

fn not_connected(address: &str, error: &HttpError) -> Option<Error> {
    let failure = NotConnected::of(error)?;
    let text = format!("cannot connect to {address}: {failure}");
    Some(if failure.is_certificate { Error::Refused(text) } else { Error::Unreachable(text) })
}

fn tls_failed(address: &str, error: &rustls::Error, is_certificate: bool) -> Error {
    if is_certificate {
        Error::Refused(format!("{address} rejects this server's certificate, or requires one: {error}"))
    } else {
        Error::Unreachable(format!("{address}: {error}"))
    }
}

/// Time limits of an exchange.
pub enum Limits {
    /// The last byte of the reply must arrive by this time.
    Total(Instant),
    /// The reply must begin by this time; its body is read with pauses of at most this length.
    Stream { begin: Instant, pause: Duration },
}

/// Sends one request. A returned reply has status 200.
pub fn exchange(
    agent: &Agent,
    address: &str,
    path: &str,
    body: &str,
    token: Option<&str>,
    limits: &Limits,
) -> Result<Response<Body>, Failure> {
    let mut request = agent.post(format!("{address}{path}")).header("Content-Type", "application/json");
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let config = request.config();
    let request = match limits {
        Limits::Total(deadline) => config.timeout_global(Some(left(*deadline))).build(),
        Limits::Stream { begin, pause } => config
            .timeout_send_request(Some(left(*begin)))
            .timeout_send_body(Some(left(*begin)))
            .timeout_recv_response(Some(left(*begin)))
            .timeout_per_read(Some(*pause))
            .build(),
    };
    let mut response = request.send(body).map_err(|error| exchange_failed(address, &error))?;
    match response.status().as_u16() {
        200 => Ok(response),
        status => {
            // The text may be missing; then the status alone decides.
            let text = response.body_mut().with_config().limit(REPLY_LIMIT).read_to_vec().unwrap_or_default();
            Err(refused(address, status, &text))
        }
    }
}

/// The whole reply as one JSON object, not the newline-separated replies of a stream.
pub fn read(address: &str, mut response: Response<Body>) -> Result<Value, Failure> {
    let text = response.body_mut().with_config().limit(REPLY_LIMIT).read_to_vec();
    let text = text.map_err(|error| exchange_failed(address, &error))?;
    match serde_json::from_slice(&text) {
        Ok(reply @ Value::Object(_)) => Ok(reply),
        Ok(_) => Err(Failure::Final(wrong(address, "no object"))),
        Err(_) => Err(Failure::Final(wrong(address, "no JSON"))),
    }
}

/// The error for a reply that cannot be parsed.
pub fn wrong(address: &str, what: &str) -> Error {
    Error::Invalid(format!("{address} sent an invalid reply: {what}"))
}

/// The failure of a request that may have been sent.
pub fn exchange_failed(address: &str, error: &HttpError) -> Failure {
    if let Some(error) = not_connected(address, error) {
        return Failure::NotSent(error);
    }
    // With TLS 1.3 the handshake ends on our side before the server has checked our certificate.
    // Until it has, it executes nothing.
    if let Some(tls) = tls_error(error).filter(|tls| is_certificate_error(tls)) {
        return Failure::NotSent(tls_failed(address, tls, true));
    }
    Failure::Final(match error {
        HttpError::Timeout(Timeout::PerRead) => Error::Unknown(format!("{address} stopped responding")),
        HttpError::Timeout(_) => Error::Unknown(format!("{address} did not answer in time")),
        HttpError::Io(error) => {
            Error::Unknown(format!("the connection to {address} was lost: {}", text_of(error)))
        }
        HttpError::BodyExceedsLimit(_) | HttpError::LargeResponseHeader(..) => {
            wrong(address, "it is too long")
        }
        HttpError::Protocol(error) => wrong(address, &error.to_string()),
        error => Error::Unknown(format!("{address}: {error}")),
    })
}

/// The meaning of a status other than 200.
fn refused(address: &str, status: u16, text: &[u8]) -> Failure {
    let answer = serde_json::from_slice::<Value>(text).ok().filter(Value::is_object);
    let code = answer.as_ref().and_then(|answer| answer.get("code")?.as_i64());
    let message = answer.as_ref().map(message_of).unwrap_or_default();
    match (status, code) {
        (500.., _) => {
            let text = if message.is_empty() { format!("status {status}") } else { message };
            Failure::Final(Error::Unknown(format!("{address} failed: {text}")))
        }
        (401, _) => Failure::Login(format!("{address} denies access: {message}")),
        (403, None) => Failure::Final(Error::Refused(format!("{address} denies access"))),
        (400.., Some(code)) => by_code(address, code, &message),
        (300..400, _) => Failure::Final(wrong(address, "it is a redirect")),
        (404, None) => Failure::Final(wrong(address, "it has no such path: is its JSON gateway disabled?")),
        _ => Failure::Final(wrong(address, &format!("status {status}"))),
    }
}

fn message_of(answer: &Value) -> String {
    let text = |name| answer.get(name).and_then(Value::as_str);
    // Untrusted text: limited to what fits a line of a log.
    text("message").or(text("error")).unwrap_or_default().chars().take(300).collect()
}

/// The meaning of a gRPC code other than a server failure. Only codes that etcd returns before it
/// executes anything count as refusals: "no space" (8), for example, is also returned for changes
/// that were made.
fn by_code(address: &str, code: i64, message: &str) -> Failure {
    let text = format!("{address} rejects the request: {message}");
    match code {
        16 => Failure::Login(text),
        3 if message.contains("revision of auth store is old") => Failure::Login(text),
        3 if message.contains("user name is empty") => Failure::Login(text),
        9 if message.contains("authentication is not enabled") => Failure::NoLogins(text),
        5 if message.contains("lease not found") => Failure::Final(Error::LeaseGone),
        11 if message.contains("compacted") => Failure::Final(Error::Compacted { oldest: 0 }),
        3 | 5 | 6 | 7 | 9 | 11 => Failure::Final(Error::Refused(text)),
        12 => Failure::Final(wrong(address, message)),
        _ => Failure::Final(Error::Unknown(format!("{address} failed: {message}"))),
    }
}

/// One message of a stream: `{"result": ...}` or `{"error": ...}`.
pub fn stream_message<'a>(address: &str, reply: &'a Value) -> Result<&'a Value, Failure> {
    if let Some(error) = reply.get("error") {
        let number = |name| error.get(name).and_then(Value::as_i64);
        let message = message_of(error);
        return Err(match (number("http_code"), number("grpc_code").or(number("code"))) {
            (Some(500..), _) | (_, None) => {
                Failure::Final(Error::Unknown(format!("{address} failed: {message}")))
            }
            (_, Some(code)) => by_code(address, code, &message),
        });
    }
    json::required(reply, "result").map_err(|reason| Failure::Final(wrong(address, &reason)))
}
