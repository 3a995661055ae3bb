// SPDX-License-Identifier: BSD-3-Clause
//! A DUMP payload: type and body, version (2 bytes), CRC-64 of all preceding bytes (8 bytes).

/// Hash types with field expiry times: Valkey 9's and Redis 7.4's.
const FIELD_EXPIRY: [u8; 3] = [22, 24, 25];

pub struct Payload(Vec<u8>);

impl Payload {
    pub fn new(bytes: &[u8]) -> Payload {
        assert!(bytes.len() > 10, "the payload is too short");
        Payload(bytes.to_vec())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    pub fn version(&self) -> u16 {
        let at = self.0.len() - 10;
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    pub fn has_field_expiry(&self) -> bool {
        FIELD_EXPIRY.contains(&self.kind())
    }

    /// Changes the version and recomputes the checksum.
    pub fn reseal(&mut self, version: u16) {
        self.0.truncate(self.0.len() - 10);
        self.0.extend_from_slice(&version.to_le_bytes());
        let sum = crc64(&self.0);
        self.0.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Jones's CRC-64, bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    let polynomial = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 })
    })
}

#[test]
fn the_checksum_is_the_published_one() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}
