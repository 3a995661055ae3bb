// SPDX-License-Identifier: BSD-3-Clause
//! `tls-auth-clients-user`: clients that their certificates log in. Valkey since 9.1 passes these
//! tests too.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use braid_tests::certificates::{certificates, client_certificate, client_config};
use braid_tests::client::RawClient;
use braid_tests::server::TestServer;
use braid_tests::value::Value;
use rustls::{ClientConfig, HandshakeKind};

use crate::{Client, connect, start};

/// Starts a server that knows the directive; `None` if the program under test does not.
fn start_if_supported(folder: &Path, more: &[&str]) -> Option<(TestServer, u16)> {
    let (server, port) = start(folder, more);
    let reply = server.connect().call("CONFIG GET tls-auth-clients-user");
    (elements(&reply).len() == 2).then_some((server, port))
}

/// The configuration of a client with such a certificate.
fn client_of(folder: &Path, common_name: Option<&str>, uris: &[&str]) -> Arc<ClientConfig> {
    client_config(folder, Some(client_certificate(folder, common_name, uris).path()))
}

/// Sends an inline command and returns its reply: a line, or the contents of a bulk string.
fn call(client: &mut Client, line: &str) -> String {
    client.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    client.flush().unwrap();
    let first = read_line(client);
    if first.starts_with('$') { read_line(client) } else { first }
}

fn read_line(client: &mut Client) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn elements(reply: &Value) -> &[Value] {
    reply.elements().unwrap_or_default()
}

/// The user of a new connection.
fn user_of(port: u16, config: &Arc<ClientConfig>) -> String {
    call(&mut connect(port, config), "ACL WHOAMI")
}

fn denied(admin: &mut RawClient) -> String {
    admin.info_field("stats", "acl_access_denied_tls_cert").unwrap()
}

#[test]
fn common_names_log_clients_in() {
    let folder = certificates();
    let Some((server, port)) = start_if_supported(folder.path(), &["--loglevel", "verbose"]) else { return };
    let app = client_of(folder.path(), Some("app"), &["urn:app"]);
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on >secret ~* +acl|whoami +ping +get +auth +reset");
    admin.ok("ACL SETUSER other on >password ~* +@all");
    assert_eq!(user_of(port, &app), "default", "off by default");

    let mut early = connect(port, &app);
    assert_eq!(call(&mut early, "ACL WHOAMI"), "default");
    admin.ok("CONFIG SET tls-auth-clients-user cn");
    let setting = admin.call("CONFIG GET tls-auth-clients-user");
    assert_eq!(elements(&setting)[1].text(), "CN");
    let mut client = connect(port, &app);
    // Before the first command.
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock).unwrap();
    }
    braid_tests::wait_for("the log-in", || admin.call("CLIENT LIST").text().contains(" user=app "));
    assert_eq!(call(&mut client, "ACL WHOAMI"), "app");
    assert_eq!(call(&mut early, "ACL WHOAMI"), "default", "connected before the change");
    let refused = call(&mut client, "SET k v");
    assert!(refused.starts_with("-NOPERM"), "{refused}");
    assert!(server.log().contains(" as *redacted*") || server.log().contains(" as (redacted)"));

    // The session is an ordinary one.
    assert_eq!(call(&mut client, "AUTH other password"), "+OK");
    assert_eq!(call(&mut client, "ACL WHOAMI"), "other");
    assert_eq!(call(&mut client, "RESET"), "+RESET");
    assert_eq!(call(&mut client, "ACL WHOAMI"), "default");

    // A resumed session is logged in as well.
    let mut resumed = connect(port, &app);
    assert_eq!(call(&mut resumed, "ACL WHOAMI"), "app");
    if server.is_braid() {
        assert_eq!(resumed.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    }
    admin.ok("CONFIG SET tls-protocols TLSv1.2");
    assert_eq!(user_of(port, &app), "app");
    admin.ok("CONFIG SET tls-protocols \"\"");

    // The directive and the user may change; connected clients keep theirs.
    admin.ok("CONFIG SET tls-auth-clients-user off");
    assert_eq!(user_of(port, &app), "default");
    assert_eq!(call(&mut resumed, "ACL WHOAMI"), "app");
    admin.ok("CONFIG SET tls-auth-clients-user CN");
    admin.ok("ACL SETUSER app off");
    assert_eq!(call(&mut resumed, "ACL WHOAMI"), "app");
    assert_eq!(user_of(port, &app), "default");
    assert_eq!(denied(&mut admin), "1");
    admin.call("ACL DELUSER app");
    assert!(resumed.write_all(b"PING\r\n").is_err() || resumed.read_exact(&mut [0]).is_err());
}

#[test]
fn refused_names_are_counted_and_logged() {
    let folder = certificates();
    let Some((server, port)) = start_if_supported(folder.path(), &["--tls-auth-clients-user", "CN"]) else {
        return;
    };
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on nopass ~* +@all");
    // Nobody is refused: no name, the default user itself, and connections without TLS.
    assert_eq!(user_of(port, &client_of(folder.path(), None, &["app"])), "default");
    assert_eq!(user_of(port, &client_of(folder.path(), Some("default"), &[])), "default");
    assert_eq!(server.connect().call("ACL WHOAMI").text(), "default");
    assert_eq!(denied(&mut admin), "0");

    for name in ["stranger", "app\0stranger", "App"] {
        let config = client_of(folder.path(), Some(name), &[]);
        let mut client = connect(port, &config);
        assert_eq!(call(&mut client, "ACL WHOAMI"), "default");
        assert_eq!(call(&mut client, "SET k v"), "+OK");
        let log = admin.call("ACL LOG 1");
        let entry = elements(&elements(&log)[0]);
        let field = |name: &str| {
            let at = entry.iter().position(|field| field.text() == name).unwrap();
            entry[at + 1].text()
        };
        assert_eq!(
            [field("reason"), field("context"), field("object"), field("username")],
            ["tls-cert", "toplevel", "", name]
        );
        let client = field("client-info");
        assert!(client.contains(" user=default ") && client.contains(" cmd=NULL "), "{client}");
    }
    assert_eq!(denied(&mut admin), "3");
    if server.is_braid() {
        admin.ok("CONFIG RESETSTAT");
        assert_eq!(denied(&mut admin), "0");
    }
}

#[test]
fn a_certificate_replaces_the_password() {
    let folder = certificates();
    let more = ["--tls-auth-clients-user", "CN", "--requirepass", "secret"];
    let Some((server, port)) = start_with_password(folder.path(), &more) else { return };
    let mut admin = server.connect();
    admin.ok("AUTH secret");
    admin.ok("ACL SETUSER app on >password ~* +@all");
    let app = client_of(folder.path(), Some("app"), &[]);
    // A first request that is longer than unauthenticated clients may send.
    let mut client = connect(port, &app);
    let value = vec![b'x'; 1_000_000];
    client.write_all(&crate::set_request("key", &value)).unwrap();
    client.flush().unwrap();
    assert_eq!(read_line(&mut client), "+OK");
    assert_eq!(call(&mut client, "RESET"), "+RESET");
    assert!(call(&mut client, "PING").starts_with("-NOAUTH"));
    assert_eq!(call(&mut client, "AUTH secret"), "+OK");
    let mut client = connect(port, &client_of(folder.path(), Some("stranger"), &[]));
    assert!(call(&mut client, "PING").starts_with("-NOAUTH"));
    assert_eq!(call(&mut client, "AUTH app password"), "+OK");
    assert_eq!(call(&mut client, "ACL WHOAMI"), "app");
    // The default user, who has a password, by certificate.
    let default = client_of(folder.path(), Some("default"), &[]);
    assert_eq!(user_of(port, &default), "default");
    admin.ok("ACL SETUSER default off");
    assert!(user_of(port, &default).starts_with("-NOAUTH"));
    assert_eq!(user_of(port, &app), "app");
}

fn start_with_password(folder: &Path, more: &[&str]) -> Option<(TestServer, u16)> {
    start_if_supported(folder, &[]).map(drop)?;
    Some(start(folder, more))
}

#[test]
fn the_first_uri_with_an_enabled_user_logs_a_client_in() {
    let folder = certificates();
    let Some((server, port)) = start_if_supported(folder.path(), &["--tls-auth-clients-user", "URI"]) else {
        return;
    };
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on nopass +@all");
    let both = client_of(folder.path(), Some("app"), &["urn:first", "urn:second", "urn:app\0x"]);
    for (rule, user) in [
        ("urn:second on nopass +@all", "urn:second"),
        ("urn:first on nopass +@all", "urn:first"),
        ("urn:first off", "urn:second"),
        ("urn:second off", "default"),
    ] {
        admin.ok(&format!("ACL SETUSER {rule}"));
        assert_eq!(user_of(port, &both), user);
    }
    assert_eq!(denied(&mut admin), "1");
    // The last name is logged.
    let log = admin.call("ACL LOG 1");
    assert!(elements(&elements(&log)[0]).iter().any(|field| field.text() == "urn:second"), "{log:?}");
    // Common names do not count in this mode, and URIs not in the other.
    let named = client_of(folder.path(), Some("app"), &[]);
    assert_eq!(user_of(port, &named), "default");
    assert_eq!(denied(&mut admin), "1");
    assert_eq!(user_of(port, &client_of(folder.path(), None, &["app"])), "app");
    admin.ok("CONFIG SET tls-auth-clients-user CN");
    assert_eq!(user_of(port, &both), "app");
}

#[test]
fn clients_without_certificates_log_in_as_usual() {
    let folder = certificates();
    let more = ["--tls-auth-clients-user", "CN", "--tls-auth-clients", "optional"];
    let Some((server, port)) = start_if_supported(folder.path(), &more) else { return };
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on nopass ~* +@all");
    let app = client_of(folder.path(), Some("app"), &[]);
    assert_eq!(user_of(port, &app), "app");
    assert_eq!(user_of(port, &client_config(folder.path(), None)), "default");
    // The server asks for no certificate. Valkey knows that of a client that resumes a session.
    admin.ok("CONFIG SET tls-auth-clients no");
    assert_eq!(user_of(port, &client_of(folder.path(), Some("app"), &[])), "default");
    if server.is_braid() {
        assert_eq!(user_of(port, &app), "default");
    }
    assert_eq!(denied(&mut admin), "0");
    // A certificate of another authority.
    let other = certificates();
    let foreign = client_certificate(other.path(), Some("app"), &[]);
    admin.ok("CONFIG SET tls-auth-clients optional");
    let mut client = connect(port, &client_config(folder.path(), Some(foreign.path())));
    let _ = client.write_all(b"ACL WHOAMI\r\n");
    assert!(client.read_exact(&mut [0]).is_err());
}
