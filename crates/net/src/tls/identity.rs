// SPDX-License-Identifier: BSD-3-Clause
//! The names in a client's certificate, as its authority signed them. Call this only with a
//! certificate that the handshake has verified.

use der::asn1::AnyRef;
use der::{Reader, SliceReader, Tag, Tagged};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The object identifier of a common name, 2.5.4.3, as encoded.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The first common name of a certificate's subject, unless it is empty. It may contain any bytes.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let name = common_name_of(certificate.subject()).ok()??;
    (!name.is_empty()).then(|| name.to_vec())
}

/// The URIs among a certificate's alternative names, in order, without those that are empty or
/// contain a NUL.
pub fn uris(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let uris = certificate.valid_uri_names();
    uris.filter(|uri| !uri.is_empty() && !uri.contains('\0')).map(str::to_owned).collect()
}

/// The first common name in the contents of a `Name` (RFC 5280): a sequence of sets, which are not
/// empty, of pairs of type and value.
fn common_name_of(name: &[u8]) -> der::Result<Option<&[u8]>> {
    let mut name = SliceReader::new(name)?;
    while !name.is_finished() {
        let set: AnyRef<'_> = name.decode()?;
        set.tag().assert_eq(Tag::Set)?;
        let mut set = SliceReader::new(set.value())?;
        while !set.is_finished() {
            let (kind, value) = set.sequence(|pair| -> der::Result<(AnyRef<'_>, AnyRef<'_>)> {
                Ok((pair.decode()?, pair.decode()?))
            })?;
            if kind.tag() == Tag::ObjectIdentifier && kind.value() == COMMON_NAME {
                return Ok(Some(value.value()));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, CustomExtension, DnType, DnValue, KeyPair, SanType};

    use super::*;

    /// A certificate whose subject has these attributes, and with these alternative names.
    fn certificate(subject: &[(DnType, DnValue)], names: Vec<SanType>) -> CertificateDer<'static> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            parameters.distinguished_name.push(kind.clone(), value.clone());
        }
        parameters.subject_alt_names = names;
        let key = KeyPair::generate().expect("a key");
        parameters.self_signed(&key).expect("a certificate").der().clone()
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(Ia5String::try_from(text).expect("ASCII"))
    }

    #[test]
    fn common_names() {
        let name_of = |subject: &[(DnType, DnValue)]| common_name(&certificate(subject, Vec::new()));
        let organization = (DnType::OrganizationName, utf8("an organization"));
        assert_eq!(name_of(&[]), None);
        assert_eq!(name_of(std::slice::from_ref(&organization)), None);
        assert_eq!(name_of(&[organization, (DnType::CommonName, utf8("app"))]), Some(b"app".to_vec()));
        assert_eq!(name_of(&[(DnType::CommonName, utf8(""))]), None);
        // The whole name counts, not the part before a NUL.
        let name = "app\0lication";
        assert_eq!(name_of(&[(DnType::CommonName, utf8(name))]), Some(name.as_bytes().to_vec()));
        let name = DnValue::PrintableString("an app".try_into().expect("printable"));
        assert_eq!(name_of(&[(DnType::CommonName, name)]), Some(b"an app".to_vec()));
        let long = "Ä".repeat(300);
        assert_eq!(name_of(&[(DnType::CommonName, utf8(&long))]), Some(long.into_bytes()));
    }

    #[test]
    fn subjects() {
        let pair = |kind: u8, value: &[u8]| {
            let mut pair = vec![0x06, 3, 0x55, 0x04, kind, 0x0C, value.len() as u8];
            pair.extend(value);
            [&[0x30, pair.len() as u8], &pair[..]].concat()
        };
        let set = |pairs: &[Vec<u8>]| [&[0x31, pairs.concat().len() as u8], &pairs.concat()[..]].concat();
        // Several attributes in a set; the first of two common names.
        let name = [set(&[pair(10, b"o"), pair(3, b"app")]), set(&[pair(3, b"other")])].concat();
        assert_eq!(common_name_of(&name), Ok(Some(&b"app"[..])));
        // A truncated name is never read past its end.
        for len in 0..name.len() {
            let _ = common_name_of(&name[..len]);
        }
        assert_eq!(common_name_of(&set(&[pair(10, b"o")])), Ok(None));
        assert!(common_name_of(&pair(3, b"app")).is_err(), "not in a set");
        assert!(common_name_of(&[0x31, 0x80, 0, 0]).is_err(), "a length that is not DER");
    }

    #[test]
    fn uris_of_alternative_names() {
        let dns = SanType::DnsName("localhost".try_into().expect("a name"));
        assert!(uris(&certificate(&[], Vec::new())).is_empty());
        assert!(uris(&certificate(&[], vec![dns.clone()])).is_empty());
        let names = vec![uri("urn:b"), dns, uri(""), uri("urn:a\0x"), uri("spiffe://host/app")];
        assert_eq!(uris(&certificate(&[], names)), ["urn:b", "spiffe://host/app"]);
    }

    #[test]
    fn damaged_certificates() {
        let whole = certificate(&[(DnType::CommonName, utf8("app"))], vec![uri("urn:a"), uri("urn:b")]);
        for at in 0..whole.len() {
            for changed in [0, 0x7F, 0x80, 0xFF, whole[at].wrapping_add(1)] {
                let mut damaged = whole.to_vec();
                damaged[at] = changed;
                let damaged = CertificateDer::from(damaged);
                let _ = (common_name(&damaged), uris(&damaged));
            }
            let truncated = CertificateDer::from(&whole[..at]);
            assert_eq!((common_name(&truncated), uris(&truncated)), (None, Vec::new()));
        }
    }

    /// The names of an extension that is no list of names are ignored.
    #[test]
    fn malformed_alternative_names() {
        let mut parameters = CertificateParams::default();
        let identifier = [2, 5, 29, 17];
        let extension = CustomExtension::from_oid_content(&identifier, vec![0x30, 3, 0x86, 9, b'a']);
        parameters.custom_extensions.push(extension);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate").der().clone();
        assert!(uris(&certificate).is_empty());
    }
}
