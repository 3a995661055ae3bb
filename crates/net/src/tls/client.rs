// SPDX-License-Identifier: BSD-3-Clause
//! The client side of TLS, for connections that the server opens itself (`tls-replication`).
//!
//! The peer must present a certificate issued by a configured authority. As in stock servers, its
//! name is not compared with the host name: primaries are often known by address.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::TlsSettings;
use super::settings::{read_certificates, read_key, refused};

impl TlsSettings {
    /// The configuration for client handshakes; reads the files. Presents the certificate, if one
    /// is configured.
    ///
    /// # Errors
    /// If a certificate, key or authority file cannot be read or parsed, the key does not match the
    /// certificate, or a protocol version or cipher in the settings is unknown. The text is for the
    /// log.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(self.provider()?);
        let roots = Arc::new(self.authorities()?);
        let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions()?)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(inner)));
        if self.certificate.as_os_str().is_empty() {
            return Ok(Arc::new(builder.with_no_client_auth()));
        }
        let (certificate, key) = (&self.certificate, &self.key);
        let config = builder
            .with_client_auth_cert(read_certificates(certificate)?, read_key(key, &self.key_password)?)
            .map_err(|error| refused(certificate, key, &error))?;
        Ok(Arc::new(config))
    }
}

/// Checks a certificate's issuer and validity period, but not its name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last, so everything else was valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
