// SPDX-License-Identifier: BSD-3-Clause
//! The calls, and which endpoint they go to.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body, http};

use crate::json::{Compare, Operation, Outcome, Range};
use crate::{Error, Watch, json};

/// Most bytes of a reply.
const REPLY_MAX: u64 = 4 << 20;
/// The codes of gRPC that the gateway passes on.
const UNAUTHENTICATED: i64 = 16;
const PERMISSION_DENIED: i64 = 7;
const INVALID_ARGUMENT: i64 = 3;
const NOT_FOUND: i64 = 5;
const FAILED_PRECONDITION: i64 = 9;

/// Where etcd is and how to be let in.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `host:port`, or `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Empty: no user.
    pub user: String,
    pub password: String,
    /// Certificates in PEM that etcd's is signed by; empty: those of its own settings, without TLS.
    pub ca: Vec<u8>,
    /// This server's certificates and key in PEM; empty: none.
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
    /// Of a whole call.
    pub timeout: Duration,
}

struct Shared {
    agent: Agent,
    endpoints: Vec<String>,
    /// The one that answered last.
    preferred: AtomicUsize,
    user: String,
    password: String,
    /// Of the user, once it is needed.
    token: Mutex<Option<String>>,
    timeout: Duration,
}

/// A client of etcd. Clones share everything.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

impl Client {
    /// A client; it connects with the first call.
    pub fn new(options: &Options) -> Result<Client, Error> {
        let endpoints =
            options.endpoints.iter().map(|text| endpoint(text, options)).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(Error::Settings("etcd has no endpoint".into()));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(options.timeout / 2))
            .tls_config(tls(options)?)
            .build()
            .new_agent();
        Ok(Client(Arc::new(Shared {
            agent,
            endpoints,
            preferred: AtomicUsize::new(0),
            user: options.user.clone(),
            password: options.password.clone(),
            token: Mutex::new(None),
            timeout: options.timeout,
        })))
    }

    /// All keys that begin with `prefix`, as they are now.
    pub fn get_prefix(&self, prefix: &str) -> Result<Range, Error> {
        json::range(&self.call("kv/range", &json::range_request(prefix, true))?)
    }

    /// A key as it is now.
    pub fn get(&self, key: &str) -> Result<Range, Error> {
        json::range(&self.call("kv/range", &json::range_request(key, false))?)
    }

    /// Writes a key, which lives as long as the lease; 0: for ever.
    pub fn put(&self, key: &str, value: &str, lease: i64) -> Result<u64, Error> {
        json::revision(&self.call("kv/put", &json::put_request(key, value, lease))?)
    }

    /// Removes a key.
    pub fn delete(&self, key: &str) -> Result<u64, Error> {
        json::revision(&self.call("kv/deleterange", &json::range_request(key, false))?)
    }

    /// Makes changes if all conditions hold.
    pub fn transaction(&self, compares: &[Compare], operations: &[Operation]) -> Result<Outcome, Error> {
        json::transaction(&self.call("kv/txn", &json::transaction_request(compares, operations))?)
    }

    /// A new lease of so many seconds.
    pub fn grant(&self, seconds: u64) -> Result<i64, Error> {
        let reply = self.call("lease/grant", &json!({ "TTL": seconds.to_string(), "ID": "0" }))?;
        json::revision(&reply)?;
        let id = json::integer(&reply["ID"]).filter(|&id| id != 0);
        id.ok_or_else(|| Error::Invalid(format!("a lease without an ID: {reply}")))
    }

    /// Keeps a lease alive; false if it is gone.
    pub fn keep_alive(&self, lease: i64) -> Result<bool, Error> {
        let reply = self.call("lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        let result = &reply["result"];
        json::revision(result)?;
        Ok(json::integer(&result["TTL"]).is_some_and(|seconds| seconds > 0))
    }

    /// Ends a lease, and with it the keys that live as long.
    pub fn revoke(&self, lease: i64) -> Result<(), Error> {
        let reply = self.call("lease/revoke", &json!({ "ID": lease.to_string() }))?;
        json::revision(&reply).map(drop)
    }

    /// Follows the changes of keys that begin with `prefix`, from a revision on. `silence`: how long
    /// nothing may be heard.
    pub fn watch_prefix(&self, prefix: &str, from_revision: u64, silence: Duration) -> Result<Watch, Error> {
        let mut create = json::range_request(prefix, true);
        create["start_revision"] = json!(from_revision.to_string());
        create["progress_notify"] = json!(true);
        let body = self.request("watch", &json!({ "create_request": create }), Some(silence))?;
        Ok(Watch::new(body))
    }

    fn call(&self, path: &str, request: &Value) -> Result<Value, Error> {
        let mut body = self.request(path, request, None)?;
        read(&mut body)
    }

    /// Sends a request to the endpoints in turn, until one has it. A token that has expired is
    /// asked for anew, once.
    fn request(&self, path: &str, request: &Value, silence: Option<Duration>) -> Result<Body, Error> {
        let text = request.to_string();
        let token = self.token()?;
        match self.send(path, &text, token.as_deref(), silence) {
            Err(Error::Refused(why)) if token.is_some() && why.contains("invalid auth token") => {
                *self.0.token.lock() = None;
                let token = self.token()?;
                self.send(path, &text, token.as_deref(), silence)
            }
            outcome => outcome,
        }
    }

    fn token(&self) -> Result<Option<String>, Error> {
        if self.0.user.is_empty() {
            return Ok(None);
        }
        if let Some(token) = self.0.token.lock().clone() {
            return Ok(Some(token));
        }
        let login = json!({ "name": self.0.user, "password": self.0.password }).to_string();
        let mut body = self.send("auth/authenticate", &login, None, None).map_err(|error| match error {
            // Logging in changes nothing.
            Error::Unknown(why) => Error::Unreachable(why),
            error => error,
        })?;
        let reply = read(&mut body)?;
        let token = reply["token"].as_str().map(str::to_owned);
        let token = token.ok_or_else(|| Error::Invalid("a login without a token".into()))?;
        *self.0.token.lock() = Some(token.clone());
        Ok(Some(token))
    }

    fn send(
        &self,
        path: &str,
        text: &str,
        token: Option<&str>,
        silence: Option<Duration>,
    ) -> Result<Body, Error> {
        let shared = &*self.0;
        let first = shared.preferred.load(Relaxed);
        let count = shared.endpoints.len();
        let mut last = None;
        for at in (0..count).map(|step| (first + step) % count) {
            match self.send_to(&shared.endpoints[at], path, text, token, silence) {
                Ok(body) => {
                    shared.preferred.store(at, Relaxed);
                    return Ok(body);
                }
                Err(error @ Error::Unreachable(_)) => last = Some(error),
                Err(error) => {
                    if error.may_have_been_executed() {
                        // The next call tries another one.
                        shared.preferred.store((at + 1) % count, Relaxed);
                    }
                    return Err(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::Unreachable("no endpoint".into())))
    }

    fn send_to(
        &self,
        endpoint: &str,
        path: &str,
        text: &str,
        token: Option<&str>,
        silence: Option<Duration>,
    ) -> Result<Body, Error> {
        let timeout = self.0.timeout;
        let mut request = self.0.agent.post(format!("{endpoint}/v3/{path}")).content_type("application/json");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let config = request.config();
        let request = match silence {
            None => config.timeout_global(Some(timeout)).build(),
            Some(silence) => {
                config.timeout_recv_response(Some(timeout)).timeout_per_read(Some(silence)).build()
            }
        };
        let answer = request.send(text).map_err(|error| Error::of_request(&error, endpoint))?;
        let status = answer.status();
        let mut body = answer.into_body();
        if status == http::StatusCode::OK { Ok(body) } else { Err(refusal(endpoint, status, &mut body)) }
    }
}

/// Reads a reply.
fn read(body: &mut Body) -> Result<Value, Error> {
    let mut text = Vec::new();
    let reader = body.as_reader().take(REPLY_MAX + 1);
    let mut reader = reader;
    reader.read_to_end(&mut text).map_err(|error| Error::Unknown(error.to_string()))?;
    if text.len() as u64 > REPLY_MAX {
        return Err(Error::Invalid("a reply that does not end".into()));
    }
    // A stream's only message may be followed by the end of a line.
    let reply: Value = serde_json::from_slice(&text).map_err(|error| Error::Invalid(error.to_string()))?;
    match reason(&reply) {
        Some((_, why)) => Err(Error::Refused(why)),
        None => Ok(reply),
    }
}

/// The code and text of an error, if the reply is one.
fn reason(reply: &Value) -> Option<(i64, String)> {
    // Of a stream it is one level down.
    let error = [reply, &reply["error"]].into_iter().find(|value| value["message"].is_string())?;
    let code = ["code", "grpc_code"].iter().find_map(|name| error[*name].as_i64()).unwrap_or(-1);
    Some((code, error["message"].as_str().unwrap_or_default().to_owned()))
}

/// What an answer other than 200 means.
fn refusal(endpoint: &str, status: http::StatusCode, body: &mut Body) -> Error {
    let mut text = Vec::new();
    // If it does not come the status says enough.
    let _ = body.as_reader().take(REPLY_MAX).read_to_end(&mut text);
    let reply: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    match reason(&reply) {
        Some((
            UNAUTHENTICATED | PERMISSION_DENIED | INVALID_ARGUMENT | NOT_FOUND | FAILED_PRECONDITION,
            why,
        )) => Error::Refused(format!("{endpoint}: {why}")),
        // No leader, a time-out within etcd, a leader that has changed: some of it was executed.
        Some((_, why)) => Error::Unknown(format!("{endpoint}: {why}")),
        None if status.is_server_error() => Error::Unknown(format!("{endpoint}: status {status}")),
        None => Error::Invalid(format!("{endpoint}: status {status}")),
    }
}

/// An endpoint as an address of HTTP.
fn endpoint(text: &str, options: &Options) -> Result<String, Error> {
    let text = text.trim().trim_end_matches('/');
    let (scheme, rest) = match text.split_once("://") {
        None if options.ca.is_empty() => ("http", text),
        None => ("https", text),
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return Err(Error::Settings(format!("'{text}' is no endpoint of etcd"))),
    };
    let is_address = rest.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(['/', '?', '#', '@', ' '])
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address {
        Ok(format!("{scheme}://{rest}"))
    } else {
        Err(Error::Settings(format!("'{text}' is no endpoint of etcd (host:port)")))
    }
}

fn tls(options: &Options) -> Result<TlsConfig, Error> {
    let settings = |what: &str, error: &dyn std::fmt::Display| Error::Settings(format!("{what}: {error}"));
    let certificates = |pem: &[u8], what: &str| {
        let items = ureq::tls::parse_pem(pem).filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(error) => Some(Err(settings(what, &error))),
        });
        items.collect::<Result<Vec<Certificate<'static>>, Error>>()
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let roots = certificates(&options.ca, "etcd's CA certificates")?;
    if roots.is_empty() && !options.ca.is_empty() {
        return Err(Error::Settings("etcd's CA certificates: there is none in the file".into()));
    }
    builder = builder.root_certs(RootCerts::Specific(Arc::new(roots)));
    if !options.certificates.is_empty() {
        let chain = certificates(&options.certificates, "the certificate for etcd")?;
        let key = PrivateKey::from_pem(&options.key).map_err(|error| settings("the key for etcd", &error))?;
        builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses() {
        let plain = Options::default();
        let secure = Options { ca: b"pem".into(), ..Options::default() };
        assert_eq!(endpoint("h:2379", &plain), Ok("http://h:2379".into()));
        assert_eq!(endpoint("h:2379", &secure), Ok("https://h:2379".into()));
        assert_eq!(endpoint("https://[::1]:2379/", &plain), Ok("https://[::1]:2379".into()));
        for wrong in ["", "h", "h:0", "h:x", "ftp://h:1", "h/x:1", ":2379", "http://u@h:1"] {
            assert!(endpoint(wrong, &plain).is_err(), "{wrong}");
        }
    }
}
