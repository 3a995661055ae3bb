// SPDX-License-Identifier: BSD-3-Clause
//! Both ends of a connection over a socket pair: this crate's server side and a rustls client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::io::Errno;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SignatureScheme, StreamOwned,
    SupportedProtocolVersion as Version,
};
use tempfile::TempDir;

use super::{ClientCertificates, TlsSettings};
use crate::stream::Stream;
use crate::tls::TlsConnection;

/// A folder with `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &authority).unwrap();
        std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    folder
}

/// The content of a DER value, and what follows the value.
fn der_content(der: &[u8]) -> (&[u8], &[u8]) {
    let (header, len) = match der[1] {
        len @ 0..=0x7f => (2, usize::from(len)),
        0x81 => (3, usize::from(der[2])),
        _ => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
    };
    der[header..].split_at(len)
}

/// A DER sequence.
fn der_sequence(content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let header = match len {
        0..0x80 => vec![0x30, len as u8],
        0x80..0x100 => vec![0x30, 0x81, len as u8],
        _ => vec![0x30, 0x82, (len >> 8) as u8, len as u8],
    };
    [&header, content].concat()
}

/// A PEM certificate as one of version 1: without the field that holds the version. Its signature
/// does not hold, which nobody gets to check.
fn as_version_1(certificate: &Path, to: &Path) {
    let der = CertificateDer::from_pem_file(certificate).unwrap();
    let (signed, signature) = der_content(der_content(&der).0);
    let without_version = signed.strip_prefix(&[0xa0, 3, 2, 1, 2]).unwrap();
    let der = der_sequence(&[&der_sequence(without_version), signature].concat());
    std::fs::write(to, der::pem::encode_string("CERTIFICATE", Default::default(), &der).unwrap()).unwrap();
}

fn settings(folder: &Path) -> TlsSettings {
    TlsSettings {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        authorities_file: folder.join("ca.pem"),
        clients: ClientCertificates::Ignored,
        sessions: 100,
        session_seconds: 300,
        ..TlsSettings::default()
    }
}

fn client_config(folder: &Path, shows_certificate: bool) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).unwrap()).unwrap();
    // Named, since a build with the feature aws-lc has two providers.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if shows_certificate {
        let chain = vec![CertificateDer::from_pem_file(folder.join("client.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(folder.join("client.key")).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    Arc::new(config)
}

type Client = StreamOwned<ClientConnection, UnixStream>;

fn pair(settings: &TlsSettings, client: &Arc<ClientConfig>) -> (Stream, Client) {
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let server = TlsConnection::new(settings.server_config().unwrap()).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::clone(client), name).unwrap();
    (Stream::new(here.into(), Some(server)), StreamOwned::new(client, there))
}

fn wait(stream: &Stream, flags: rustix::event::PollFlags) {
    rustix::event::poll(&mut [rustix::event::PollFd::new(stream, flags)], None).unwrap();
}

/// Echoes received bytes until the end of the stream; receives at most `room` bytes at a time.
fn echo(mut stream: Stream, room: usize) -> Result<usize, Errno> {
    let mut buffer = vec![0; room];
    let mut total = 0;
    loop {
        match stream.recv(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                total += count;
                let mut rest = &buffer[..count];
                while !rest.is_empty() || stream.has_unsent() {
                    let sent = if rest.is_empty() { stream.flush().map(|()| 0) } else { stream.send(rest) };
                    match sent {
                        Ok(count) => rest = &rest[count..],
                        Err(Errno::AGAIN) => wait(&stream, rustix::event::PollFlags::OUT),
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(Errno::AGAIN) => wait(&stream, rustix::event::PollFlags::IN),
            Err(error) => return Err(error),
        }
    }
}

/// The bytes that the client gets back for `sent`, and the outcome of the echo.
fn exchange(
    stream: Stream,
    mut client: Client,
    sent: &[u8],
    room: usize,
) -> (std::io::Result<Vec<u8>>, Client) {
    let server = std::thread::spawn(move || echo(stream, room));
    let mut received = vec![0; sent.len()];
    let outcome = (|| {
        // No more bytes in flight than the sockets hold, or both ends would deadlock.
        for (piece, back) in sent.chunks(50_000).zip(received.chunks_mut(50_000)) {
            client.write_all(piece)?;
            client.read_exact(back)?;
        }
        client.conn.send_close_notify();
        client.flush()
    })();
    if outcome.is_err() {
        // Ends the echo as well.
        let _ = client.sock.shutdown(std::net::Shutdown::Both);
    }
    let echoed = server.join().unwrap();
    if outcome.is_ok() {
        assert_eq!(echoed, Ok(sent.len()));
    }
    (outcome.map(|()| received), client)
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn tls_carries_bytes_in_both_directions() {
    let folder = certificates();
    for protocols in ["TLSv1.2", "TLSv1.3", ""] {
        let settings = TlsSettings { protocols: protocols.into(), ..settings(folder.path()) };
        let config = client_config(folder.path(), false);
        for (len, room) in [(1, 10), (100, 7), (100_000, 32 * 1024), (300_000, 1000), (70_000, 200_000)] {
            let (stream, client) = pair(&settings, &config);
            let sent = noise(len);
            assert_eq!(exchange(stream, client, &sent, room).0.unwrap(), sent);
        }
    }
}

#[test]
fn clients_certificates_are_asked_for_as_configured() {
    let folder = certificates();
    for (wanted, shows, welcome) in [
        (ClientCertificates::Required, true, true),
        (ClientCertificates::Required, false, false),
        (ClientCertificates::Optional, true, true),
        (ClientCertificates::Optional, false, true),
        (ClientCertificates::Ignored, true, true),
    ] {
        let settings = TlsSettings { clients: wanted, ..settings(folder.path()) };
        let (stream, client) = pair(&settings, &client_config(folder.path(), shows));
        let outcome = exchange(stream, client, b"hello", 100).0;
        assert_eq!(outcome.is_ok(), welcome, "{wanted:?} {shows} {outcome:?}");
    }
    // A certificate issued by another authority.
    let other = certificates();
    let settings = TlsSettings { clients: ClientCertificates::Required, ..settings(folder.path()) };
    std::fs::copy(folder.path().join("ca.pem"), other.path().join("ca.pem")).unwrap();
    let (stream, client) = pair(&settings, &client_config(other.path(), true));
    assert!(exchange(stream, client, b"hello", 100).0.is_err());
}

#[test]
fn sessions_are_resumed_if_wanted() {
    let folder = certificates();
    let kinds = [
        ("TLSv1.2", 10, 300),
        ("TLSv1.3", 10, 300),
        ("TLSv1.3", 0, 300),
        // Sessions expire at once.
        ("TLSv1.2", 10, 0),
        ("TLSv1.3", 10, 0),
    ];
    for (protocols, sessions, session_seconds) in kinds {
        let protocols = protocols.to_owned();
        let settings = TlsSettings { protocols, sessions, session_seconds, ..settings(folder.path()) };
        let server = settings.server_config().unwrap();
        let config = client_config(folder.path(), false);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (here, there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let stream = Stream::new(here.into(), Some(TlsConnection::new(Arc::clone(&server)).unwrap()));
            let name = ServerName::try_from("localhost").unwrap();
            let client = ClientConnection::new(Arc::clone(&config), name).unwrap();
            let (back, client) = exchange(stream, StreamOwned::new(client, there), b"once more", 100);
            assert_eq!(back.unwrap(), b"once more");
            kinds.push(client.conn.handshake_kind().unwrap());
        }
        let resumes = sessions > 0 && session_seconds > 0;
        let second = if resumes { HandshakeKind::Resumed } else { HandshakeKind::Full };
        assert_eq!(kinds, [HandshakeKind::Full, second], "{}", settings.protocols);
    }
}

#[test]
fn plaintext_peer_gets_a_tls_alert_and_is_closed() {
    let folder = certificates();
    let (here, mut there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let server = TlsConnection::new(settings(folder.path()).server_config().unwrap()).unwrap();
    let mut stream = Stream::new(here.into(), Some(server));
    there.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    assert_eq!(stream.recv(&mut [0; 100]), Err(Errno::PROTO));
    assert_eq!(stream.recv(&mut [0; 100]), Ok(0), "the stream stays closed");
    drop(stream);
    let mut alert = Vec::new();
    there.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&21), "a TLS alert");
}

#[test]
fn an_idle_connection_holds_no_buffers() {
    let folder = certificates();
    let (mut stream, mut client) = pair(&settings(folder.path()), &client_config(folder.path(), false));
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        loop {
            match stream.recv(&mut buffer) {
                Ok(count) => return (stream, count),
                Err(_) => wait(&stream, rustix::event::PollFlags::IN),
            }
        }
    });
    client.write_all(b"hello").unwrap();
    let (stream, count) = server.join().unwrap();
    assert_eq!(count, 5);
    assert_eq!(stream.memory_bytes(), size_of::<TlsConnection>());
}

/// Created by `openssl pkcs8 -topk8 -v2 aes-256-cbc`, with the password `sesame`.
const ENCRYPTED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjwV/7jiMGIfgICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEH5LMfmJ9tE31QBsp5y7w4oEgZBs\n\
CugpA4KjUxEu0T6XImsJY9Krc91/ZItCehQtbi3GdSiv1PtcJfAV/+WXQcgI9z1V\n\
ra5FacU6hsdMaZIXB7NSzB6xYNhwL1JO1Uks7LoeTvRvPeVmwbeSByCEUuJYQi4I\n\
MDpMsWtrfO2EyDxgGUDnyOmQsD+HbWB52MO8UCsi+4Ua6syPOnNwngAoR5Nyx+Y=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";

#[test]
fn a_key_with_a_password_is_read_with_it() {
    let folder = certificates();
    let file = folder.path().join("encrypted.key");
    std::fs::write(&file, format!("text before it\n{ENCRYPTED}")).unwrap();
    let read = |password: &str| super::settings::read_key(&file, password);
    let key = read("sesame").unwrap();
    let key = KeyPair::try_from(&key).unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.path().join("own.pem"), certificate.pem()).unwrap();
    let good = TlsSettings {
        certificate: folder.path().join("own.pem"),
        key: file.clone(),
        key_password: "sesame".into(),
        ..settings(folder.path())
    };
    good.server_config().unwrap();
    for (password, reason) in [("", "tls-key-file-pass is not set"), ("open", "wrong tls-key-file-pass")] {
        let error = read(password).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    for cut in 0..ENCRYPTED.len() - 1 {
        std::fs::write(&file, &ENCRYPTED[..cut]).unwrap();
        assert!(read("sesame").is_err(), "cut at {cut}");
    }
    std::fs::write(&file, "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n").unwrap();
    assert!(read("sesame").unwrap_err().contains("openssl pkcs8 -topk8"));
}

/// A client that can check only these signatures of handshakes.
fn client_checking(folder: &Path, scheme: SignatureScheme, version: &'static Version) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).unwrap()).unwrap();
    let mut provider = rustls::crypto::ring::default_provider();
    let algorithms = &mut provider.signature_verification_algorithms;
    let kept: Vec<_> = algorithms.mapping.iter().filter(|(known, _)| *known == scheme).copied().collect();
    assert_eq!(kept.len(), 1);
    algorithms.mapping = kept.leak();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(builder.with_no_client_auth())
}

#[test]
fn a_client_gets_the_certificate_that_it_can_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let kinds = [("server", &rcgen::PKCS_ED25519), ("alt", &rcgen::PKCS_ECDSA_P256_SHA256)];
    let certificates = kinds.map(|(name, kind)| {
        let key = KeyPair::generate_for(kind).unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &authority).unwrap();
        std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        certificate.der().clone()
    });
    let one = settings(folder.path());
    let both = TlsSettings {
        alt_certificate: folder.path().join("alt.pem"),
        alt_key: folder.path().join("alt.key"),
        ..one.clone()
    };
    let shown = |settings: &TlsSettings, scheme, version| {
        let (stream, client) = pair(settings, &client_checking(folder.path(), scheme, version));
        let (received, client) = exchange(stream, client, b"hello", 100);
        received.ok().map(|_| client.conn.peer_certificates().unwrap()[0].clone())
    };
    let (ed25519, ecdsa) = (SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert_eq!(shown(&both, ed25519, version).as_ref(), Some(&certificates[0]), "{version:?}");
        assert_eq!(shown(&both, ecdsa, version).as_ref(), Some(&certificates[1]), "{version:?}");
        assert_eq!(shown(&one, ecdsa, version), None, "{version:?}");
    }
    for (settings, reason) in [
        (TlsSettings { alt_key: "".into(), ..both.clone() }, "No tls-alt-key-file configured"),
        (TlsSettings { alt_certificate: "".into(), ..both.clone() }, "No tls-alt-cert-file configured"),
        (TlsSettings { alt_key: one.key, ..both }, "alt.pem"),
    ] {
        let error = settings.server_config().unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

/// A key made for this test, on a curve that ring lacks.
const P521: &str = "-----BEGIN PRIVATE KEY-----
MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIB+4CO8Ytt2XEhaOZD
qXCMYOp+W705p+hVKstux9nnlTjHnCTDpUusYMeMuFbBDEbql2D0kWMIU+gY5XgD
vmteQIShgYkDgYYABAB285WofyGzGNFpsRYOFRU1duXYz9/3JnXltKfWysy9Zulx
iR+UbaYuFUqbpA8cEPylHoa6465OA772pBduMe/l2gFIr1QZzxfItoBf20xkz0sT
d/MoPZoItIQe8PzekraXFgY8JFycrgTPE6zcngH/diIH76a02I3Sb9DgbI5VdTm7
9g==
-----END PRIVATE KEY-----
";
const P521_REASON: &str = if cfg!(feature = "aws-lc") {
    "does not match the certificate"
} else {
    "the private key is none of RSA, ECDSA on P-256 or P-384, or Ed25519"
};

#[test]
fn bad_settings_are_explained() {
    let folder = certificates();
    let good = settings(folder.path());
    let missing = folder.path().join("none.pem");
    let old = folder.path().join("old.pem");
    as_version_1(&good.certificate, &old);
    let p521 = folder.path().join("p521.key");
    std::fs::write(&p521, P521).unwrap();
    for (settings, reason) in [
        (
            TlsSettings { certificate: old, ..good.clone() },
            "old.pem: an X.509 certificate that is not of version 3",
        ),
        (TlsSettings { certificate: "".into(), ..good.clone() }, "No tls-cert-file"),
        (TlsSettings { key: "".into(), ..good.clone() }, "No tls-key-file"),
        (TlsSettings { certificate: missing.clone(), ..good.clone() }, "none.pem: No such file or directory"),
        (TlsSettings { key: missing, ..good.clone() }, "none.pem: No such file or directory"),
        (TlsSettings { certificate: good.key.clone(), ..good.clone() }, "the file contains no certificate"),
        (TlsSettings { key: good.certificate.clone(), ..good.clone() }, "the file contains no private key"),
        (
            TlsSettings { key: folder.path().join("client.key"), ..good.clone() },
            "does not match the certificate",
        ),
        (TlsSettings { key: p521, ..good.clone() }, P521_REASON),
        (TlsSettings { protocols: "SSLv3".into(), ..good.clone() }, "SSLv3"),
        (TlsSettings { protocols: "TLSv1.1".into(), ..good.clone() }, "tls-protocols"),
        (TlsSettings { cipher_suites: "TLS_NULL".into(), ..good.clone() }, "tls-ciphersuites"),
        (
            TlsSettings {
                clients: ClientCertificates::Required,
                authorities_file: "".into(),
                ..good.clone()
            },
            "tls-ca-cert-file",
        ),
    ] {
        let error = settings.server_config().unwrap_err();
        assert!(error.contains(reason) && !error.contains("os error"), "{error}");
    }
    let suites = TlsSettings { cipher_suites: "TLS_CHACHA20_POLY1305_SHA256".into(), ..good };
    let config = suites.server_config().unwrap();
    let of_13: Vec<_> =
        config.crypto_provider().cipher_suites.iter().filter(|suite| suite.tls13().is_some()).collect();
    assert_eq!(of_13.len(), 1);
}
