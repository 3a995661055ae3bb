// SPDX-License-Identifier: BSD-3-Clause
//! Feeds arbitrary bytes to the reader of append-only files: it must reach an error or the end
//! without a panic, independently of how the bytes are cut. The part before the truncation point
//! must read back as the same commands.

#![no_main]

use std::io::Read;

use braid_persistence::{AofRecord, CommandReader, Manifest, ReadError};
use libfuzzer_sys::fuzz_target;

/// Returns a few bytes at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = out.len().min(5).min(self.0.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// The commands before the end or the error, the truncation point, and whether the file is valid.
fn read(input: impl Read, len: Option<u64>) -> (Vec<Vec<Vec<u8>>>, u64, bool) {
    let mut reader = CommandReader::new(input, len);
    let mut commands = Vec::new();
    loop {
        match reader.read() {
            Ok(Some(AofRecord::Command)) => commands.push(reader.args().map(<[u8]>::to_vec).collect()),
            Ok(Some(_)) => {}
            Ok(None) => return (commands, reader.usable(), !reader.in_transaction()),
            Err(ReadError::Io(error)) => panic!("{error}"),
            Err(_) => return (commands, reader.usable(), false),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (commands, usable, _) = read(data, Some(data.len() as u64));
    assert_eq!(read(Drip(data), None).0, commands);
    let cut = &data[..usize::try_from(usable).expect("within the data")];
    let (again, end, is_good) = read(cut, Some(usable));
    assert!(is_good && end == usable && commands.starts_with(&again));
    if let Ok(manifest) = Manifest::parse(data) {
        assert_eq!(Manifest::parse(&manifest.format()).unwrap_or_default(), manifest);
    }
});
