// SPDX-License-Identifier: BSD-3-Clause
//! Connections below the HTTP client: name lookup, TCP and TLS. Every error of this phase is
//! marked as [`NotConnected`], which distinguishes "certainly not sent" from "outcome unknown".
//! An error that occurs after a byte of the request may have been sent must never carry this
//! mark.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, StreamOwned};
use ureq::Error as HttpError;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};

/// A failure before any byte of the request was sent.
#[derive(Debug)]
pub struct NotConnected {
    /// True if TLS failed because of a certificate.
    pub is_certificate: bool,
    reason: String,
}

impl NotConnected {
    fn from_http(error: HttpError) -> HttpError {
        let is_certificate = tls_error(&error).is_some_and(is_certificate_error);
        let reason = match &error {
            HttpError::Timeout(_) => "connecting timed out".to_owned(),
            HttpError::Io(error) => text_of(error),
            error => error.to_string(),
        };
        HttpError::Other(Box::new(NotConnected { is_certificate, reason }))
    }

    /// The mark in the error of a call, if any.
    pub fn of(error: &HttpError) -> Option<&NotConnected> {
        match error {
            HttpError::Other(other) => other.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for NotConnected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)
    }
}

impl std::error::Error for NotConnected {}

/// The text of an I/O error for users, without the system's error number.
pub fn text_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

/// The TLS error inside the error of a call.
pub fn tls_error(error: &HttpError) -> Option<&rustls::Error> {
    match error {
        HttpError::Io(error) => error.get_ref()?.downcast_ref(),
        HttpError::Other(error) => error.downcast_ref(),
        _ => None,
    }
}

/// True if one side rejects the other's certificate.
pub fn is_certificate_error(error: &rustls::Error) -> bool {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_) => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::CertificateRequired
        ),
        _ => false,
    }
}

/// Looks up names. IP addresses are used directly, which saves the thread that limits a lookup's
/// time.
#[derive(Debug, Default)]
pub struct Names(DefaultResolver);

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, HttpError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if let (Ok(address), Some(port)) = (host.parse::<IpAddr>(), uri.port_u16()) {
            let mut found = self.empty();
            found.push(SocketAddr::new(address, port));
            return Ok(found);
        }
        self.0.resolve(uri, config, timeout).map_err(NotConnected::from_http)
    }
}

/// Opens connections, with TLS for https addresses.
#[derive(Debug)]
pub struct Dial {
    tls: Option<Arc<ClientConfig>>,
    tcp: TcpConnector,
}

impl Dial {
    pub fn new(tls: Option<Arc<ClientConfig>>) -> Dial {
        Dial { tls, tcp: TcpConnector::default() }
    }

    fn open(&self, details: &ConnectionDetails) -> Result<Box<dyn Transport>, HttpError> {
        let started = std::time::Instant::now();
        let transport =
            Connector::<()>::connect(&self.tcp, details, None)?.ok_or(HttpError::ConnectionFailed)?;
        if !details.needs_tls() {
            return Ok(Box::new(transport));
        }
        let config = self.tls.clone().ok_or(HttpError::TlsRequired)?;
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|_| HttpError::Tls("invalid TLS server name"))?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut adapter =
            TransportAdapter::new(Box::new(transport) as Box<dyn Transport>, details.current_time.clone());
        let mut timeout = details.timeout;
        timeout.after = timeout.after.saturating_sub(started.elapsed()).into();
        adapter.set_timeout(timeout);
        let mut stream = StreamOwned::new(connection, adapter);
        // The TLS handshake, while no byte of the request has been sent.
        stream.conn.complete_io(&mut stream.sock)?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Box::new(TlsTransport { buffers, stream }))
    }
}

impl Connector for Dial {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _chained: Option<()>,
    ) -> Result<Option<Self::Out>, HttpError> {
        self.open(details).map(Some).map_err(NotConnected::from_http)
    }
}

/// A TLS connection after its handshake.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), HttpError> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        self.stream.flush()?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, HttpError> {
        self.stream.sock.set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
