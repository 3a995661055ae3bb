// SPDX-License-Identifier: BSD-3-Clause
//! The calls: endpoint selection, authentication, and interpretation of replies.
//!
//! etcd spends a tenth of a second of processor time on each login, and more on a busy machine.
//! Therefore there is one login at a time for all calls, and it may take longer than a call: given
//! up and begun anew by each call, logins of several servers could keep etcd too busy to answer
//! any.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::Error;
use crate::endpoints::Endpoints;
use crate::http::{self, Failure, Limits};
use crate::json::{self, Wrong};
use crate::kv::{self, KeyValue, LeaseId, Outcome, Transaction};
use crate::options::Options;
use crate::watch::Watch;

/// A client of one etcd cluster, shared by all its clones. A call blocks for at most
/// [`Options::request_timeout`]. Threads may make calls concurrently.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    options: Options,
    agent: Agent,
    endpoints: Arc<Endpoints>,
    login: Mutex<Logins>,
    /// Signals the end of a login.
    login_ended: Condvar,
    seconds_ahead: AtomicI64,
}

/// What the last login has brought.
#[derive(Clone, Default)]
enum Login {
    /// None is known: the next request logs in first.
    #[default]
    None,
    /// etcd's authentication is off: requests need no token, until one is refused for its lack.
    NotNeeded,
    Token(Arc<str>),
}

impl Login {
    fn token(&self) -> Option<&str> {
        match self {
            Login::Token(token) => Some(token),
            Login::None | Login::NotNeeded => None,
        }
    }
}

/// The longest time that a login takes, in request timeouts.
const LOGIN_PATIENCE: u32 = 6;

#[derive(Default)]
struct Logins {
    known: Login,
    /// The number of the login that is under way.
    running: Option<u64>,
    /// Number of logins so far.
    count: u64,
    /// The number of the last one that failed, and why.
    failed: Option<(u64, Error)>,
}

/// The state of a cluster member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub version: String,
    pub cluster: u64,
    pub member: u64,
    /// `None` while there is no leader.
    pub leader: Option<u64>,
    pub revision: i64,
    /// The size of the database file in bytes.
    pub database_size: u64,
}

impl Client {
    /// Does not connect yet.
    ///
    /// # Errors
    /// If an endpoint's address or a certificate in the options is invalid.
    pub fn new(options: &Options) -> Result<Client, Error> {
        Ok(Client(Arc::new(Inner {
            endpoints: Arc::new(Endpoints::new(options.addresses()?)),
            agent: http::agent(options),
            options: options.clone(),
            login: Mutex::default(),
            login_ended: Condvar::new(),
            seconds_ahead: AtomicI64::new(0),
        })))
    }

    /// The endpoint that answered last, or that is tried next.
    pub fn endpoint(&self) -> &str {
        self.0.endpoints.address(self.0.endpoints.current())
    }

    /// The number of seconds by which this machine's clock is ahead of that of the member that
    /// answered last; negative if it is behind. 0 before the first answer, or if answers have no
    /// date.
    pub fn seconds_ahead(&self) -> i64 {
        self.0.seconds_ahead.load(Relaxed)
    }

    /// True if a user is set that etcd did not ask for, since its authentication is off.
    pub fn has_idle_user(&self) -> bool {
        matches!(self.0.login.lock().known, Login::NotNeeded)
    }

    /// The key, as the majority of the cluster has it.
    ///
    /// # Errors
    /// As for any call: if no endpoint answers in time, or etcd refuses the login or the request,
    /// or the answer is not etcd's. [`Error`] tells whether the request may have been executed.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, Error> {
        self.call("/v3/kv/range", json!({"key": json::encode(key)}), |reply| {
            json::revision_of(reply)?;
            Ok(KeyValue::decode_all(reply)?.pop())
        })
    }

    /// All keys that begin with `prefix`, sorted by name, and the revision of this state: a watch
    /// continues from the revision after it.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_prefix(&self, prefix: &[u8]) -> Result<(Vec<KeyValue>, i64), Error> {
        self.call("/v3/kv/range", kv::range(prefix), |reply| {
            Ok((KeyValue::decode_all(reply)?, json::revision_of(reply)?))
        })
    }

    /// Sets a key and returns the revision of the change.
    ///
    /// # Errors
    /// [`Error::LeaseGone`] if the lease has expired; otherwise as [`Client::get`]. The key may
    /// have been set if [`Error::may_have_been_executed`].
    pub fn put(&self, key: &[u8], value: &[u8], lease: Option<LeaseId>) -> Result<i64, Error> {
        self.call("/v3/kv/put", kv::put(key, value, lease), json::revision_of)
    }

    /// Deletes a key. Returns true if it existed.
    ///
    /// # Errors
    /// As [`Client::get`]. It may have taken effect if [`Error::may_have_been_executed`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.call("/v3/kv/deleterange", json!({"key": json::encode(key)}), |reply| {
            json::revision_of(reply)?;
            Ok(json::integer_of(reply, "deleted")? > 0)
        })
    }

    /// Executes a transaction.
    ///
    /// # Errors
    /// As [`Client::put`]. A condition that does not hold is no error.
    pub fn transaction(&self, transaction: &Transaction) -> Result<Outcome, Error> {
        self.call("/v3/kv/txn", transaction.encode(), |reply| transaction.decode(reply))
    }

    /// Creates a lease. etcd may make it longer than requested: at least one and a half election
    /// timeouts, 2 s by default.
    ///
    /// # Errors
    /// As [`Client::get`]; a lease whose grant has an unknown outcome expires by itself.
    pub fn grant(&self, seconds: u32) -> Result<LeaseId, Error> {
        self.call("/v3/lease/grant", json!({"TTL": json::integer(seconds.into())}), |reply| {
            json::revision_of(reply)?;
            match json::integer_of(reply, "ID")? {
                0 => Err("the lease has no ID".into()),
                id => Ok(LeaseId(id)),
            }
        })
    }

    /// Renews a lease. Returns its remaining seconds, or `None` if it is gone.
    ///
    /// # Errors
    /// As [`Client::get`]. A lease that is gone is no error.
    pub fn keep_alive(&self, LeaseId(id): LeaseId) -> Result<Option<u32>, Error> {
        let decode = |reply: &Value| {
            json::revision_of(reply)?;
            seconds_of(reply)
        };
        self.with_login(|token, deadline| {
            let body = json!({"ID": json::integer(id)}).to_string();
            let (index, response) =
                self.send("/v3/lease/keepalive", &body, token, &Limits::Total(deadline))?;
            let address = self.0.endpoints.address(index);
            let reply = self.count(index, http::read(address, response))?;
            decode(http::stream_message(address, &reply)?)
                .map_err(|reason| Failure::Final(http::wrong(address, &reason)))
        })
    }

    /// The remaining seconds of a lease, without renewing it; `None` if it is gone.
    ///
    /// # Errors
    /// As [`Client::get`]. A lease that is gone is no error.
    pub fn time_to_live(&self, LeaseId(id): LeaseId) -> Result<Option<u32>, Error> {
        self.call("/v3/lease/timetolive", json!({"ID": json::integer(id)}), |reply| {
            json::revision_of(reply)?;
            // A missing field means less than a second; a lease that is gone has -1.
            Ok(u32::try_from(json::integer_of(reply, "TTL")?).ok())
        })
    }

    /// Ends a lease and deletes its keys. Returns true if the lease existed.
    ///
    /// # Errors
    /// As [`Client::get`]. It may have taken effect if [`Error::may_have_been_executed`].
    pub fn revoke(&self, LeaseId(id): LeaseId) -> Result<bool, Error> {
        let result = self.call("/v3/lease/revoke", json!({"ID": json::integer(id)}), json::revision_of);
        match result {
            Ok(_) => Ok(true),
            Err(Error::LeaseGone) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The state of the member that answers.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn status(&self) -> Result<Status, Error> {
        self.call("/v3/maintenance/status", json!({}), |reply| {
            let header = json::required(reply, "header")?;
            let leader = json::unsigned_of(reply, "leader")?;
            Ok(Status {
                version: json::text_of(reply, "version")?,
                cluster: json::unsigned_of(header, "cluster_id")?,
                member: json::unsigned_of(header, "member_id")?,
                leader: (leader != 0).then_some(leader),
                revision: json::revision_of(reply)?,
                database_size: json::unsigned_of(reply, "dbSize")?,
            })
        })
    }

    /// Watches the keys that begin with `prefix`, from a revision on (0: from now on). `pause` is
    /// how long [`Watch::wait`] waits for a change, and also how long etcd may take to open the
    /// watch: 1 s is appropriate, less than 500 ms is too short.
    ///
    /// # Errors
    /// As [`Client::get`]; [`Error::Compacted`] if etcd no longer has the changes from
    /// `from_revision` on.
    pub fn watch_prefix(&self, prefix: &[u8], from_revision: i64, pause: Duration) -> Result<Watch, Error> {
        let mut request = kv::range(prefix);
        request["start_revision"] = json::integer(from_revision);
        request["progress_notify"] = Value::Bool(true);
        let body = json!({"create_request": request}).to_string();
        self.with_login(|token, begin| {
            let limits = Limits::Stream { begin, pause };
            let (index, response) = self.send("/v3/watch", &body, token, &limits)?;
            let failures = self.0.endpoints.failures(index);
            let watch = Watch::open(Arc::clone(&self.0.endpoints), index, failures, response, pause);
            self.count(index, watch.created(from_revision, begin))
        })
    }

    /// A call with a single reply.
    fn call<T>(
        &self,
        path: &str,
        body: Value,
        decode: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<T, Error> {
        let body = body.to_string();
        self.with_login(|token, deadline| self.request(path, &body, token, deadline, &decode))
    }

    fn request<T>(
        &self,
        path: &str,
        body: &str,
        token: Option<&str>,
        deadline: Instant,
        decode: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<T, Failure> {
        let (index, response) = self.send(path, body, token, &Limits::Total(deadline))?;
        let address = self.0.endpoints.address(index);
        let reply = self.count(index, http::read(address, response))?;
        decode(&reply).map_err(|reason| Failure::Final(http::wrong(address, &reason)))
    }

    /// Sends a request to the first reachable endpoint. After an endpoint that may have received
    /// it, no other one is tried.
    fn send(
        &self,
        path: &str,
        body: &str,
        token: Option<&str>,
        limits: &Limits,
    ) -> Result<(usize, Response<Body>), Failure> {
        let deadline = match limits {
            Limits::Total(deadline) => *deadline,
            Limits::Stream { begin, .. } => *begin,
        };
        let endpoints = &self.0.endpoints;
        let mut errors = Vec::new();
        for index in endpoints.in_turn() {
            if !errors.is_empty() && Instant::now() >= deadline {
                break;
            }
            match self.send_to(index, path, body, token, limits, deadline) {
                Ok(response) => {
                    self.0.seconds_ahead.store(seconds_ahead_of(&response), Relaxed);
                    endpoints.stay(index);
                    return Ok((index, response));
                }
                Err(Failure::NotSent(error)) => {
                    endpoints.leave(index);
                    errors.push(error);
                }
                Err(Failure::Final(error)) => return self.count(index, Err(Failure::Final(error))),
                Err(login) => return Err(login),
            }
        }
        Err(Failure::NotSent(all_of(errors)))
    }

    fn send_to(
        &self,
        index: usize,
        path: &str,
        body: &str,
        token: Option<&str>,
        limits: &Limits,
        deadline: Instant,
    ) -> Result<Response<Body>, Failure> {
        let endpoints = &self.0.endpoints;
        let address = endpoints.address(index);
        if !endpoints.is_checked(index) {
            let limit = self.0.options.connect_timeout.min(http::left(deadline));
            http::check(&self.0.agent, address, limit).map_err(Failure::NotSent)?;
            endpoints.set_checked(index);
        }
        http::exchange(&self.0.agent, address, path, body, token, limits)
    }

    /// Leaves the endpoint after a failure, but not after a refusal, which any other would give
    /// as well.
    fn count<T>(&self, index: usize, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(Failure::NotSent(_) | Failure::Final(Error::Unknown(_) | Error::Invalid(_))) = &result {
            self.0.endpoints.leave(index);
        }
        result
    }

    /// Runs a call with a login, which is renewed once if etcd rejects it, or its lack, so calls
    /// succeed while etcd's authentication is switched on or off.
    fn with_login<T>(
        &self,
        mut call: impl FnMut(Option<&str>, Instant) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.0.options.request_timeout;
        if self.0.options.user.is_empty() {
            return call(None, deadline).map_err(Failure::into_error);
        }
        let login = self.login(deadline)?;
        match call(login.token(), deadline) {
            Err(Failure::Login(_)) => {
                self.forget(&login);
                let login = self.login(deadline)?;
                call(login.token(), deadline).map_err(Failure::into_error)
            }
            result => result.map_err(Failure::into_error),
        }
    }

    /// Drops a login that etcd has rejected, unless another thread has already renewed it.
    fn forget(&self, rejected: &Login) {
        let mut known = self.0.login.lock();
        if known.known.token() == rejected.token() {
            known.known = Login::None;
        }
    }

    /// The known login, or that of the login under way, which is begun if there is none.
    fn login(&self, deadline: Instant) -> Result<Login, Error> {
        let mut logins = self.0.login.lock();
        loop {
            if !matches!(logins.known, Login::None) {
                return Ok(logins.known.clone());
            }
            let number = match logins.running {
                Some(number) => number,
                None => self.begin_login(&mut logins)?,
            };
            while logins.running == Some(number) {
                if self.0.login_ended.wait_until(&mut logins, deadline).timed_out() {
                    let address = self.endpoint();
                    return Err(Error::Unreachable(format!(
                        "login failed: {address} did not answer in time"
                    )));
                }
            }
            if let Some((_, error)) = logins.failed.as_ref().filter(|(failed, _)| *failed == number) {
                return Err(error.clone());
            }
        }
    }

    /// Begins a login on a thread of its own; returns its number.
    fn begin_login(&self, logins: &mut Logins) -> Result<u64, Error> {
        let (client, number) = (self.clone(), logins.count + 1);
        let thread = std::thread::Builder::new().name("etcd-login".into()).spawn(move || {
            let outcome = client.log_in(Instant::now() + client.0.options.request_timeout * LOGIN_PATIENCE);
            let mut logins = client.0.login.lock();
            logins.running = None;
            match outcome {
                Ok(login) => logins.known = login,
                Err(error) => logins.failed = Some((number, error)),
            }
            client.0.login_ended.notify_all();
        });
        thread.map_err(|error| Error::Unreachable(format!("login failed: {error}")))?;
        (logins.count, logins.running) = (number, Some(number));
        Ok(number)
    }

    fn log_in(&self, deadline: Instant) -> Result<Login, Error> {
        let options = &self.0.options;
        let body = json!({"name": options.user, "password": options.password}).to_string();
        let decode = |reply: &Value| json::required_text(reply, "token");
        match self.request("/v3/auth/authenticate", &body, None, deadline, decode) {
            Ok(token) => Ok(Login::Token(token.into())),
            Err(Failure::NoLogins(_)) => Ok(Login::NotNeeded),
            // The request that needs the login has not been sent.
            Err(Failure::Final(Error::Unknown(text))) => {
                Err(Error::Unreachable(format!("login failed: {text}")))
            }
            Err(failure) => Err(failure.into_error()),
        }
    }
}

/// The number of seconds by which this machine's clock is ahead of the date of a reply that has
/// just arrived; 0 if it has no date.
fn seconds_ahead_of(response: &Response<Body>) -> i64 {
    let date = response.headers().get("date").and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else { return 0 };
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(date) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    }
}

/// A renewed lease has a time; one that is gone has none, or 0.
fn seconds_of(reply: &Value) -> Result<Option<u32>, Wrong> {
    Ok(u32::try_from(json::integer_of(reply, "TTL")?).ok().filter(|&seconds| seconds > 0))
}

/// One error for all endpoints that could not be used, of the kind that most needs an operator.
fn all_of(errors: Vec<Error>) -> Error {
    let text = errors.iter().map(Error::to_string).collect::<Vec<_>>().join("; ");
    let has = |kind: fn(&Error) -> bool| errors.iter().any(kind);
    if has(|error| matches!(error, Error::Refused(_))) {
        Error::Refused(text)
    } else if has(|error| matches!(error, Error::Invalid(_))) {
        Error::Invalid(text)
    } else {
        Error::Unreachable(text)
    }
}
