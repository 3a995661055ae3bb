// SPDX-License-Identifier: BSD-3-Clause
//! Directives about encrypted connections.

use crate::directive::Unit;
use crate::enums::{ConfigEnum, TlsAuthClients};
use crate::rows::INT_MAX;

super::directives! {
    "TLS", after network;

    /// Port for encrypted connections; 0 switches them off.
    tls_port: u16 => integer("tls-port", || 0, 0, 65535, Unit::Plain).of_one_node();

    /// File with the server's certificate (PEM).
    tls_cert_file: text => optional_text("tls-cert-file").always_applied();

    /// File with the server's private key (PEM).
    tls_key_file: text => optional_text("tls-key-file").always_applied();

    /// Password of the private key, if that is encrypted (PKCS #8).
    tls_key_file_pass: text => optional_text("tls-key-file-pass").secret();

    /// Certificate for connections that this server opens; without it, the server's certificate.
    tls_client_cert_file: text => optional_text("tls-client-cert-file").always_applied();

    /// Private key that belongs to the client certificate.
    tls_client_key_file: text => optional_text("tls-client-key-file").always_applied();

    /// Password of the client certificate's key.
    tls_client_key_file_pass: text => optional_text("tls-client-key-file-pass").secret();

    /// Parameters for key exchange by Diffie-Hellman, needed by old clients only.
    tls_dh_params_file: text => optional_text("tls-dh-params-file").always_applied().no_effect_yet();

    /// File with the authorities whose certificates are trusted.
    tls_ca_cert_file: text => optional_text("tls-ca-cert-file").always_applied();

    /// Folder with the authorities whose certificates are trusted.
    tls_ca_cert_dir: text => optional_text("tls-ca-cert-dir").always_applied();

    /// Whether clients must show a valid certificate: yes, no, or optional.
    tls_auth_clients: TlsAuthClients =>
        choice("tls-auth-clients", TlsAuthClients::Yes.raw(), TlsAuthClients::WORDS);

    /// Encrypt the connection to the master too.
    tls_replication: bool => switch("tls-replication", false);

    /// Encrypt connections to other nodes of the cluster (slots that move, messages), and those
    /// that MIGRATE opens. Replication is encrypted by `tls-replication`.
    tls_cluster: bool => switch("tls-cluster", false);

    /// Allowed protocol versions, for example "TLSv1.2 TLSv1.3"; empty means both.
    tls_protocols: text => optional_text("tls-protocols");

    /// Allowed ciphers up to TLS 1.2.
    tls_ciphers: text => optional_text("tls-ciphers");

    /// Allowed cipher suites of TLS 1.3.
    tls_ciphersuites: text => optional_text("tls-ciphersuites");

    /// Let the server's order of ciphers decide rather than the client's.
    tls_prefer_server_ciphers: bool => switch("tls-prefer-server-ciphers", false);

    /// Let clients resume sessions without a whole handshake.
    tls_session_caching: bool => switch("tls-session-caching", true);

    /// Number of sessions remembered; 0 means no limit.
    tls_session_cache_size: u32 =>
        integer("tls-session-cache-size", || 20_480, 0, INT_MAX, Unit::Plain);

    /// Seconds for which a session is remembered.
    tls_session_cache_timeout_seconds: u32 =>
        integer("tls-session-cache-timeout", || 300, 0, INT_MAX, Unit::Seconds);

    /// Seconds between looks at the certificate files for new ones; 0 never looks.
    tls_auto_reload_interval_seconds: u32 =>
        integer("tls-auto-reload-interval", || 0, 0, INT_MAX, Unit::Seconds).no_effect_yet();
}
