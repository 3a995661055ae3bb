// SPDX-License-Identifier: BSD-3-Clause
//! Certificates generated for a single test.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// A folder with `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
pub fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    // OpenSSL treats a certificate whose issuer has the certificate's own name as self-signed.
    authority.distinguished_name.push(DnType::CommonName, "an authority");
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

/// TLS configuration of a client that trusts the authority in the folder `authority` and presents
/// the client certificate in the folder `own`, if given.
pub fn client_config(authority: &Path, own: Option<&Path>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.join("ca.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match own {
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(own.join("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(own.join("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    Arc::new(config)
}
