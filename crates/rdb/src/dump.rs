// SPDX-License-Identifier: BSD-3-Clause
//! Payloads of DUMP and RESTORE: a value preceded by its type, followed by version and checksum.

use braid_base::crc::crc64;

use crate::decode::Decoder;
use crate::encode::Encoder;
use crate::source::Bytes;
use crate::target::Format;
use crate::write::ValueRef;

/// Type and length of a string.
const HEAD_MAX: usize = 10;
/// Version (2 bytes) and checksum (8 bytes).
const FOOTER: usize = 10;

/// Why a payload is refused before its value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error("the payload is too short")]
    Short,
    #[error("the payload has version {0}, which is not supported")]
    Version(u16),
    #[error("the payload's checksum is wrong")]
    Checksum,
}

/// The payload of a value.
pub fn dump(value: ValueRef<'_>, format: Format, compress: bool) -> Vec<u8> {
    // A long string must not be copied again as its payload grows.
    let room = match value {
        ValueRef::Text(text) if !compress => HEAD_MAX + text.len() + FOOTER,
        _ => 0,
    };
    let mut encoder = Encoder::new(Vec::with_capacity(room), compress).with_format(format);
    let written = encoder.kind(format.kind(value)).and_then(|()| encoder.value(value));
    debug_assert!(written.is_ok(), "writing to memory cannot fail");
    let mut payload = encoder.into_inner();
    seal(&mut payload, format.version_of(value));
    payload
}

/// Appends version and checksum to a payload.
pub fn seal(payload: &mut Vec<u8>, version: u16) {
    payload.extend_from_slice(&version.to_le_bytes());
    payload.extend_from_slice(&crc64(0, payload).to_le_bytes());
}

/// Checks a payload's version and checksum; returns a decoder of its content. Without `check` the
/// checksum is ignored.
///
/// # Errors
/// If the payload is shorter than its footer, has a version that this server does not read, or does
/// not match its checksum.
pub fn open(payload: &[u8], check: bool) -> Result<Decoder<Bytes<'_>>, PayloadError> {
    let (body, footer) = payload
        .len()
        .checked_sub(FOOTER)
        .and_then(|body| payload.split_at_checked(body))
        .ok_or(PayloadError::Short)?;
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    if !crate::is_known_version(version) {
        return Err(PayloadError::Version(version));
    }
    if check && crc64(0, &payload[..payload.len() - 8]).to_le_bytes() != footer[2..] {
        return Err(PayloadError::Checksum);
    }
    Ok(Decoder::new(Bytes::new(body), version))
}
