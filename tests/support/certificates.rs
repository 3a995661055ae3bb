// SPDX-License-Identifier: BSD-3-Clause
//! Certificates generated for a single test.

use std::path::Path;
use std::sync::Arc;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// A folder with `ca.pem`, `ca.key`, `server.pem`, `server.key`, `client.pem`, `client.key`.
pub fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let authority = CertifiedIssuer::self_signed(authority(), KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(folder.path().join("ca.key"), authority.key().serialize_pem()).unwrap();
    for name in ["server", "client"] {
        let parameters = CertificateParams::new(vec!["localhost".into()]).unwrap();
        issue(parameters, &authority, folder.path(), name);
    }
    folder
}

/// A folder with `client.pem` and `client.key`, issued by the authority in the folder `authority`
/// for a subject with this common name, if any, and these URIs.
pub fn client_certificate(authority: &Path, common_name: Option<&str>, uris: &[&str]) -> TempDir {
    let key = KeyPair::from_pem(&std::fs::read_to_string(authority.join("ca.key")).unwrap()).unwrap();
    let issuer = Issuer::new(self::authority(), key);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, "an organization");
    if let Some(name) = common_name {
        parameters.distinguished_name.push(DnType::CommonName, name);
    }
    let uri = |uri: &&str| SanType::URI(Ia5String::try_from(*uri).unwrap());
    parameters.subject_alt_names = uris.iter().map(uri).collect();
    let folder = tempfile::tempdir().unwrap();
    issue(parameters, &issuer, folder.path(), "client");
    folder
}

fn authority() -> CertificateParams {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    // OpenSSL treats a certificate whose issuer has the certificate's own name as self-signed.
    authority.distinguished_name.push(DnType::CommonName, "an authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
}

/// Writes a certificate and its key into a folder.
fn issue(parameters: CertificateParams, issuer: &Issuer<'_, KeyPair>, folder: &Path, name: &str) {
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, issuer).unwrap();
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// TLS configuration of a client that trusts the authority in the folder `authority` and presents
/// the client certificate in the folder `own`, if given.
pub fn client_config(authority: &Path, own: Option<&Path>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.join("ca.pem")).unwrap()).unwrap();
    // Named, since a build with the feature aws-lc has two providers.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
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
