// SPDX-License-Identifier: BSD-3-Clause
//! The client side of TLS: trusted certificates, the client's own certificate, and cipher suites.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as cryptography;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as cryptography;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// TLS options from the command line.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A folder of certificate files to trust.
    pub ca_directory: Option<PathBuf>,
    /// Trust any certificate.
    pub insecure: bool,
    /// The client's certificate (chain), for servers that request one.
    pub certificate: Option<PathBuf>,
    /// The certificate's private key.
    pub key: Option<PathBuf>,
    /// Cipher suites to offer, in order of preference, as `TLS_AES_128_GCM_SHA256:...`; `None`
    /// offers all.
    pub cipher_suites: Option<String>,
}

/// Locations of the systems' trusted certificates.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl TlsOptions {
    /// The rustls configuration.
    ///
    /// # Errors
    /// If a file cannot be read or parsed, or the options contradict each other. The text is for
    /// the user.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(self.provider()?);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAll(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let config = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key_of)
                    .map_err(|error| unreadable(certificate, error))?
            }
            _ => return Err("--cert and --key must be given together".into()),
        };
        Ok(Arc::new(config))
    }

    fn provider(&self) -> Result<CryptoProvider, String> {
        let mut provider = cryptography::default_provider();
        if let Some(wanted) = &self.cipher_suites {
            let all = std::mem::take(&mut provider.cipher_suites);
            for name in wanted.split(':') {
                // rustls uses the prefix TLS13_ where the standard name has TLS_.
                let suite = all.iter().find(|suite| {
                    suite.suite().as_str().is_some_and(|own| own.replace("TLS13_", "TLS_") == name)
                });
                provider.cipher_suites.push(*suite.ok_or_else(|| format!("unknown cipher suite '{name}'"))?);
            }
        }
        Ok(provider)
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let mut add = |path: &Path| -> Result<(), String> {
            roots.add_parsable_certificates(certificates(path)?);
            Ok(())
        };
        match (&self.ca_file, &self.ca_directory) {
            (None, None) => {
                let own = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
                let known = SYSTEM_BUNDLES.iter().map(PathBuf::from);
                let bundle = own.into_iter().chain(known).find(|path| path.is_file());
                add(&bundle
                    .ok_or("the system has no trusted certificates: give --cacert FILE, or --insecure")?)?;
            }
            (file, directory) => {
                if let Some(file) = file {
                    add(file)?;
                }
                if let Some(directory) = directory {
                    let entries =
                        std::fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
                    // Other files in the folder are ignored.
                    entries.filter_map(|entry| Some(entry.ok()?.path())).for_each(|path| {
                        let _ = add(&path);
                    });
                }
            }
        }
        if roots.is_empty() { Err("no trusted certificate found".into()) } else { Ok(roots) }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, error))?.collect();
    let all = all.map_err(|error| unreadable(path, error))?;
    if all.is_empty() {
        Err(format!("{}: the file contains no certificate", path.display()))
    } else {
        Ok(all)
    }
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// The name that the server's certificate must contain.
///
/// # Errors
/// If the name is neither a host name nor an IP address. The text is for the user.
pub fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("'{name}' is not a TLS server name: give --sni NAME"))
}

/// Implements `--insecure`: any certificate is accepted. Handshake signatures are still checked.
#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_go_by_their_standard_names() {
        let options = |names: &str| TlsOptions {
            insecure: true,
            cipher_suites: Some(names.into()),
            ..TlsOptions::default()
        };
        let chosen = options("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256").provider().unwrap();
        assert_eq!(chosen.cipher_suites.len(), 2);
        assert!(options("TLS_AES_128_GCM_SHA256").client_config().is_ok());
        assert!(options("TLS_NO_SUCH").client_config().unwrap_err().contains("TLS_NO_SUCH"));
    }

    #[test]
    fn tls_errors_name_the_missing_file_or_option() {
        let options = TlsOptions { ca_file: Some("/no/such/file".into()), ..TlsOptions::default() };
        assert!(options.client_config().unwrap_err().contains("/no/such/file"));
        let options = TlsOptions { insecure: true, certificate: Some("x".into()), ..TlsOptions::default() };
        assert!(options.client_config().unwrap_err().contains("--key"));
        assert!(server_name("local host").is_err());
    }
}
