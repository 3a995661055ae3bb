// SPDX-License-Identifier: BSD-3-Clause
//! Directives about TLS.

use crate::directive::Unit;
use crate::enums::{ConfigEnum, TlsAuthClients, TlsAuthClientsUser};
use crate::rows::INT_MAX;

super::directives! {
    "TLS", after network;

    /// Port for TLS connections; 0 disables it.
    tls_port: u16 => integer("tls-port", || 0, 0, 65535, Unit::Plain).of_one_node();

    /// Certificate of the server (PEM).
    tls_cert_file: text => optional_text("tls-cert-file").always_applied();

    /// Private key of the server certificate (PEM).
    tls_key_file: text => optional_text("tls-key-file").always_applied();

    /// Password of the private key, if it is encrypted (PKCS #8).
    tls_key_file_pass: text => optional_text("tls-key-file-pass").secret();

    /// Second certificate of the server, with a key of another kind, for clients that cannot check
    /// signatures of the first one.
    tls_alt_cert_file: text => optional_text("tls-alt-cert-file").always_applied().beyond_redis();

    /// Private key of the second certificate (PEM).
    tls_alt_key_file: text => optional_text("tls-alt-key-file").always_applied().beyond_redis();

    /// Password of the second certificate's private key.
    tls_alt_key_file_pass: text => optional_text("tls-alt-key-file-pass").secret().beyond_redis();

    /// Certificate for outgoing connections; without it, the server certificate is used.
    tls_client_cert_file: text => optional_text("tls-client-cert-file").always_applied();

    /// Private key of the client certificate.
    tls_client_key_file: text => optional_text("tls-client-key-file").always_applied();

    /// Password of the client certificate's private key.
    tls_client_key_file_pass: text => optional_text("tls-client-key-file-pass").secret();

    /// Diffie-Hellman parameters, needed only by old clients.
    tls_dh_params_file: text => optional_text("tls-dh-params-file").always_applied().no_effect_yet();

    /// File with trusted CA certificates.
    tls_ca_cert_file: text => optional_text("tls-ca-cert-file").always_applied();

    /// Directory with trusted CA certificates.
    tls_ca_cert_dir: text => optional_text("tls-ca-cert-dir").always_applied();

    /// Require a valid client certificate: yes, no, or optional (verify it if presented).
    tls_auth_clients: TlsAuthClients =>
        choice("tls-auth-clients", TlsAuthClients::Yes.raw(), TlsAuthClients::WORDS);

    /// Log clients in as the user that their certificate names: by the Common Name (CN) of its
    /// subject, or by the first of its URIs (subject alternative names) that an enabled user has.
    tls_auth_clients_user: TlsAuthClientsUser =>
        choice("tls-auth-clients-user", TlsAuthClientsUser::Off.raw(), TlsAuthClientsUser::WORDS);

    /// Use TLS for connections to the primary and to active-active peers.
    tls_replication: bool => switch("tls-replication", false);

    /// Use TLS for connections to other cluster nodes (slot migration, messages) and for MIGRATE.
    /// Replication uses `tls-replication` instead.
    tls_cluster: bool => switch("tls-cluster", false);

    /// Allowed TLS versions, for example "TLSv1.2 TLSv1.3"; empty means both.
    tls_protocols: text => optional_text("tls-protocols");

    /// Allowed ciphers up to TLS 1.2.
    tls_ciphers: text => optional_text("tls-ciphers");

    /// Allowed TLS 1.3 cipher suites.
    tls_ciphersuites: text => optional_text("tls-ciphersuites");

    /// Prefer the server's order of ciphers to the client's.
    tls_prefer_server_ciphers: bool => switch("tls-prefer-server-ciphers", false);

    /// Let clients resume sessions without a full handshake.
    tls_session_caching: bool => switch("tls-session-caching", true);

    /// Maximum number of cached sessions; 0 disables resumption.
    tls_session_cache_size: u32 =>
        integer("tls-session-cache-size", || 20_480, 0, INT_MAX, Unit::Plain);

    /// Lifetime of a session in seconds; 0 disables resumption.
    tls_session_cache_timeout_seconds: u32 =>
        integer("tls-session-cache-timeout", || 300, 0, INT_MAX, Unit::Seconds);

    /// Seconds between checks for changed certificate files, which are then reloaded; 0 disables
    /// the checks.
    tls_auto_reload_interval_seconds: u32 =>
        integer("tls-auto-reload-interval", || 0, 0, INT_MAX, Unit::Seconds);
}
