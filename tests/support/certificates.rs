// SPDX-License-Identifier: BSD-3-Clause
//! Certificates made for one test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// A folder with `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
pub fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    // OpenSSL takes a certificate whose issuer has its own name for one that vouches for itself.
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
