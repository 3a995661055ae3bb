// SPDX-License-Identifier: BSD-3-Clause
//! Converts the `tls-*` directives to a rustls server configuration, or returns an error message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use braid_base::system_text::reason;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::crypto::CryptoProvider;
#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as cryptography;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as cryptography;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, CipherSuite, OtherError, RootCertStore, ServerConfig, SupportedProtocolVersion,
};

use super::sessions::Timed;

/// Whether clients must present a certificate (`tls-auth-clients`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientCertificates {
    #[default]
    Required,
    Optional,
    Ignored,
}

/// The `tls-*` directives for client connections. An empty text means not set.
#[derive(Clone, Default)]
pub struct TlsSettings {
    /// PEM file with the certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// Password of the private key.
    pub key_password: String,
    /// A second certificate with a key of another kind, and its key.
    pub alt_certificate: PathBuf,
    pub alt_key: PathBuf,
    pub alt_key_password: String,
    /// PEM file with the authorities that may issue client certificates.
    pub authorities_file: PathBuf,
    /// Folder with PEM files of such authorities.
    pub authorities_folder: PathBuf,
    pub clients: ClientCertificates,
    /// Protocol versions, separated by blanks: `TLSv1.2`, `TLSv1.3`.
    pub protocols: String,
    /// TLS 1.2 cipher suites by their OpenSSL names, separated by colons.
    pub ciphers: String,
    /// TLS 1.3 cipher suites, separated by colons.
    pub cipher_suites: String,
    pub prefer_server_ciphers: bool,
    /// Number of sessions kept for resumption; 0 disables resumption and tickets.
    pub sessions: usize,
    /// How long a session can be resumed, in seconds.
    pub session_seconds: u32,
}

impl TlsSettings {
    /// The configuration for server handshakes; reads the files.
    ///
    /// # Errors
    /// If no certificate or key is configured, one of the files cannot be read or parsed, the key
    /// does not match the certificate, or a protocol version or cipher is unknown. The text is for
    /// the log.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(self.provider()?);
        let certificates = self.certificates(&provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.versions()?)
            .map_err(|error| format!("Failed to configure ciphers: {error}"))?;
        let builder = match self.clients {
            ClientCertificates::Ignored => builder.with_no_client_auth(),
            wanted => {
                let roots = Arc::new(self.authorities()?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match wanted {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier
                    .build()
                    .map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.ignore_client_order = self.prefer_server_ciphers;
        if self.sessions == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            let seconds = self.session_seconds;
            let kept: Arc<dyn StoresServerSessions> = ServerSessionMemoryCache::new(self.sessions);
            config.session_storage = Arc::new(Timed { inner: kept, seconds });
            let tickets: Arc<dyn ProducesTickets> = cryptography::Ticketer::new()
                .map_err(|error| format!("Cannot create session tickets: {error}"))?;
            config.ticketer = Arc::new(Timed { inner: tickets, seconds });
        }
        Ok(Arc::new(config))
    }

    /// The certificates with their keys.
    fn certificates(&self, provider: &CryptoProvider) -> Result<Certificates, String> {
        let load = |certificate: &Path, key: &Path, password: &str, word: &str| {
            if certificate.as_os_str().is_empty() {
                return Err(format!("No tls-{word}cert-file configured!"));
            }
            if key.as_os_str().is_empty() {
                return Err(format!("No tls-{word}key-file configured!"));
            }
            let (chain, secret) = (read_certificates(certificate)?, read_key(key, password)?);
            let pair = CertifiedKey::from_der(chain, secret, provider);
            pair.map(Arc::new).map_err(|error| refused(certificate, key, &error))
        };
        let first = load(&self.certificate, &self.key, &self.key_password, "")?;
        let has_other = !self.alt_certificate.as_os_str().is_empty() || !self.alt_key.as_os_str().is_empty();
        let other = has_other
            .then(|| load(&self.alt_certificate, &self.alt_key, &self.alt_key_password, "alt-"))
            .transpose()?;
        Ok(Certificates { first, other })
    }

    pub(super) fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        if self.protocols.trim().is_empty() {
            return Ok(vec![&rustls::version::TLS13, &rustls::version::TLS12]);
        }
        let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
        for name in self.protocols.split_ascii_whitespace() {
            if name.eq_ignore_ascii_case("TLSv1.3") {
                versions.push(&rustls::version::TLS13);
            } else if name.eq_ignore_ascii_case("TLSv1.2") {
                versions.push(&rustls::version::TLS12);
            } else if name.eq_ignore_ascii_case("TLSv1") || name.eq_ignore_ascii_case("TLSv1.1") {
                log::warn!("tls-protocols: {name} is insecure and not offered");
            } else {
                return Err(format!("Invalid tls-protocols specified: {name}"));
            }
        }
        if versions.is_empty() {
            return Err("Invalid tls-protocols specified: none is supported".into());
        }
        Ok(versions)
    }

    /// The cryptography provider, with exactly the configured suites, in order of preference.
    pub(super) fn provider(&self) -> Result<CryptoProvider, String> {
        let mut provider = cryptography::default_provider();
        for (names, is_13, directive) in
            [(&self.ciphers, false, "tls-ciphers"), (&self.cipher_suites, true, "tls-ciphersuites")]
        {
            let wanted: Vec<CipherSuite> = names.split([':', ' ', ',']).filter_map(suite_named).collect();
            let blank = names.trim().is_empty();
            // OpenSSL's names for groups of suites: all suites offered here are strong.
            let group = names.split([':', ' ', ',']).any(|name| {
                ["DEFAULT", "ALL", "HIGH", "SECURE128", "ECDHE"].contains(&name.to_ascii_uppercase().as_str())
            });
            if blank || group {
                continue;
            }
            if wanted.is_empty() {
                return Err(format!(
                    "Failed to configure ciphers: {directive} '{names}' has no supported cipher"
                ));
            }
            let of_version = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some() == is_13;
            let mut kept: Vec<_> =
                provider.cipher_suites.iter().copied().filter(|suite| !of_version(suite)).collect();
            let chosen = wanted.iter().filter_map(|name| {
                provider
                    .cipher_suites
                    .iter()
                    .copied()
                    .find(|suite| suite.suite() == *name && of_version(suite))
            });
            kept.extend(chosen);
            provider.cipher_suites = kept;
        }
        Ok(provider)
    }

    pub(super) fn authorities(&self) -> Result<RootCertStore, String> {
        let mut files = Vec::new();
        if !self.authorities_file.as_os_str().is_empty() {
            files.push(self.authorities_file.clone());
        }
        let folder = &self.authorities_folder;
        if !folder.as_os_str().is_empty() {
            let entries = std::fs::read_dir(folder).map_err(|error| {
                format!(
                    "Failed to configure CA certificate(s) file/directory: {}: {}",
                    folder.display(),
                    reason(&error)
                )
            })?;
            files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
        }
        if files.is_empty() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                 tls-replication or tls-auth-clients are enabled!"
                .into());
        }
        let mut roots = RootCertStore::empty();
        for file in files {
            for certificate in read_certificates(&file)? {
                roots.add(certificate).map_err(|error| {
                    format!(
                        "Failed to configure CA certificate(s): {}: {}",
                        file.display(),
                        explained(&error)
                    )
                })?;
            }
        }
        Ok(roots)
    }
}

/// The server's certificates. A client gets the first one unless it can check only signatures of
/// the other one's key.
#[derive(Debug)]
struct Certificates {
    first: Arc<CertifiedKey>,
    other: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // For TLS 1.2 these are only schemes with which the client's suites can be used.
        let suits = |pair: &Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        let chosen = match &self.other {
            Some(other) if !suits(&self.first) && suits(other) => other,
            _ => &self.first,
        };
        Some(Arc::clone(chosen))
    }
}

/// The reason why a certificate and a key cannot be used together.
pub(super) fn refused(certificate: &Path, key: &Path, error: &rustls::Error) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("Failed to load private key: {key}: it does not match the certificate {certificate}")
        }
        error => format!("Failed to load certificate: {certificate}: {}", explained(error)),
    }
}

/// An error's text. Where the library names only a type of its own, what to do instead.
pub(super) fn explained(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error
        && let Some(webpki::Error::UnsupportedCertVersion) = cause.downcast_ref()
    {
        return "an X.509 certificate that is not of version 3; sign it with any extension, for example a \
                subjectAltName (openssl x509 -extfile)"
            .into();
    }
    if let rustls::Error::General(text) = error
        && text.contains("failed to parse private key")
    {
        let curves = if cfg!(feature = "aws-lc") { "P-256, P-384 or P-521" } else { "P-256 or P-384" };
        return format!("the private key is none of RSA, ECDSA on {curves}, or Ed25519");
    }
    error.to_string()
}

pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |reason: String| format!("Failed to load certificate: {}: {reason}", path.display());
    let file = std::fs::read(path).map_err(|error| failed(reason(&error)))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file).collect();
    let certificates = certificates.map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        Err(failed("the file contains no certificate".into()))
    } else {
        Ok(certificates)
    }
}

/// The private key in a PEM file. An encrypted key must be in the format of RFC 5958 (PKCS #8,
/// `ENCRYPTED PRIVATE KEY`).
pub(super) fn read_key(path: &Path, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let failed = |error: String| format!("Failed to load private key: {}: {error}", path.display());
    key_in(path, password).map_err(failed)
}

fn key_in(path: &Path, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
    let file = std::fs::read(path).map_err(|error| reason(&error))?;
    let text = String::from_utf8_lossy(&file);
    let Some(begin) = text.find(BEGIN) else {
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err("encrypted in an obsolete format; convert it with: openssl pkcs8 -topk8".into());
        }
        return PrivateKeyDer::from_pem_slice(&file).map_err(|error| match error {
            pem::Error::NoItemsFound => "the file contains no private key".to_owned(),
            error => error.to_string(),
        });
    };
    if password.is_empty() {
        return Err("it is encrypted, but tls-key-file-pass is not set".into());
    }
    let end = text[begin..].find(END).ok_or("it is truncated")? + begin + END.len();
    let (_, sealed) = SecretDocument::from_pem(&text[begin..end]).map_err(|error| error.to_string())?;
    let sealed =
        EncryptedPrivateKeyInfoRef::try_from(sealed.as_bytes()).map_err(|error| error.to_string())?;
    let key = sealed.decrypt(password).map_err(|_| "wrong tls-key-file-pass")?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Looks up a suite by its OpenSSL name.
fn suite_named(name: &str) -> Option<CipherSuite> {
    Some(match name.to_ascii_uppercase().as_str() {
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        _ => return None,
    })
}
