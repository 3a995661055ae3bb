// SPDX-License-Identifier: BSD-3-Clause
//! TLS settings from the configuration, for clients and for outgoing connections.

use std::path::PathBuf;
use std::sync::Arc;

use braid_config::{Config, TlsAuthClients};
use braid_net::tls::{ClientCertificates, ClientConfig, TlsSettings};

/// Settings for clients' connections.
pub fn settings(config: &Config) -> TlsSettings {
    let path = |text: &str| PathBuf::from(text);
    TlsSettings {
        certificate: path(&config.tls_cert_file()),
        key: path(&config.tls_key_file()),
        key_password: config.tls_key_file_pass().to_string(),
        alt_certificate: path(&config.tls_alt_cert_file()),
        alt_key: path(&config.tls_alt_key_file()),
        alt_key_password: config.tls_alt_key_file_pass().to_string(),
        authorities_file: path(&config.tls_ca_cert_file()),
        authorities_folder: path(&config.tls_ca_cert_dir()),
        clients: match config.tls_auth_clients() {
            TlsAuthClients::Yes => ClientCertificates::Required,
            TlsAuthClients::Optional => ClientCertificates::Optional,
            TlsAuthClients::No => ClientCertificates::Ignored,
        },
        protocols: config.tls_protocols().to_string(),
        ciphers: config.tls_ciphers().to_string(),
        cipher_suites: config.tls_ciphersuites().to_string(),
        prefer_server_ciphers: config.tls_prefer_server_ciphers(),
        sessions: if config.tls_session_caching() { config.tls_session_cache_size() as usize } else { 0 },
        session_seconds: config.tls_session_cache_timeout_seconds(),
    }
}

/// Configuration of connections to etcd; `None` if no CA file is set.
///
/// # Errors
/// If there is a certificate without a CA file, or one of the files cannot be read.
pub fn of_etcd(config: &Config) -> Result<Option<Arc<ClientConfig>>, String> {
    let authorities = config.etcd_ca_cert_file();
    if authorities.is_empty() {
        let certificate = config.etcd_cert_file();
        return match certificate.is_empty() {
            true => Ok(None),
            false => Err("etcd-cert-file needs etcd-ca-cert-file".into()),
        };
    }
    let settings = TlsSettings {
        certificate: PathBuf::from(&*config.etcd_cert_file()),
        key: PathBuf::from(&*config.etcd_key_file()),
        key_password: String::new(),
        authorities_file: PathBuf::from(&*authorities),
        authorities_folder: PathBuf::new(),
        ..settings(config)
    };
    settings.client_config().map(Some).map_err(|error| format!("TLS with etcd: {error}"))
}

/// Configuration of outgoing connections. The client certificate is `tls-client-cert-file`, or else
/// the server's own.
pub(crate) fn client_config(config: &Config) -> Result<Arc<ClientConfig>, String> {
    let mut settings = settings(config);
    let certificate = config.tls_client_cert_file();
    if !certificate.is_empty() {
        settings.certificate = PathBuf::from(&*certificate);
        settings.key = PathBuf::from(&*config.tls_client_key_file());
        settings.key_password = config.tls_client_key_file_pass().to_string();
    }
    settings.client_config()
}
