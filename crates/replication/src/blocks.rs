// SPDX-License-Identifier: BSD-3-Clause
//! Compression between a primary and a replica: the full sync and the stream travel as blocks.
//!
//! Used only between Braid servers: the replica requests it (`repl-compression`,
//! `REPLCONF capa lz4`), and the primary agrees by ending its reply to PSYNC with the word `lz4`.
//! All bytes after that line are blocks until the connection ends. Replication offsets count
//! uncompressed bytes.
//!
//! A block is a four-byte little-endian header and a payload. The header's lower 31 bits are the
//! payload length. If its highest bit is set, the payload is the content itself; otherwise the
//! payload is the content length (four bytes, little-endian) and the content as an LZ4 block. The
//! content has 1 to [`CONTENT_MAX`] bytes.

use lz4_flex::block;

/// Capability name in the handshake and in the reply to PSYNC.
pub const WORD: &str = "lz4";
/// Maximum uncompressed bytes in a block.
pub const CONTENT_MAX: usize = 128 << 10;
/// Shorter content is stored uncompressed: it would hardly shrink.
const COMPRESSED_MIN: usize = 64;
const STORED: u32 = 1 << 31;
/// Length of a block header in bytes.
const HEAD: usize = 4;

/// Appends a block with the first bytes of `content`; returns the number of bytes taken.
pub fn push_block(blocks: &mut Vec<u8>, content: &[u8]) -> usize {
    let content = &content[..content.len().min(CONTENT_MAX)];
    if content.is_empty() {
        return 0;
    }
    let start = blocks.len();
    if content.len() >= COMPRESSED_MIN {
        let room = HEAD + 4 + block::get_maximum_output_size(content.len());
        blocks.resize(start + room, 0);
        // The buffer fits the worst case, so this cannot fail.
        let compressed = block::compress_into(content, &mut blocks[start + HEAD + 4..]).unwrap_or(usize::MAX);
        if compressed < content.len() - 4 {
            blocks.truncate(start + HEAD + 4 + compressed);
            blocks[start..start + HEAD].copy_from_slice(&(compressed as u32 + 4).to_le_bytes());
            blocks[start + HEAD..start + HEAD + 4].copy_from_slice(&(content.len() as u32).to_le_bytes());
            return content.len();
        }
        blocks.truncate(start);
    }
    blocks.extend_from_slice(&(content.len() as u32 | STORED).to_le_bytes());
    blocks.extend_from_slice(content);
    content.len()
}

/// The block stream is malformed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a damaged block in the compressed stream")]
pub struct BadBlock;

/// Decompresses blocks that arrive in arbitrary pieces.
#[derive(Default)]
pub struct Unpacker {
    /// Received bytes; those from `at` on are unread.
    received: Vec<u8>,
    at: usize,
}

impl Unpacker {
    /// The buffer to which the caller appends received bytes.
    pub fn input(&mut self) -> &mut Vec<u8> {
        if self.at > 0 {
            self.received.drain(..self.at);
            self.at = 0;
        }
        &mut self.received
    }

    /// Appends the contents of all complete blocks.
    ///
    /// # Errors
    /// If a block's length is out of range, or its content cannot be decompressed.
    pub fn unpack_onto(&mut self, contents: &mut Vec<u8>) -> Result<(), BadBlock> {
        while let Some(head) = self.received[self.at..].first_chunk::<HEAD>() {
            let word = u32::from_le_bytes(*head);
            let len = (word & !STORED) as usize;
            if len == 0 || len > CONTENT_MAX {
                return Err(BadBlock);
            }
            let begin = self.at + HEAD;
            let Some(payload) = self.received.get(begin..begin + len) else { break };
            if word & STORED != 0 {
                contents.extend_from_slice(payload);
            } else {
                decompress_onto(payload, contents)?;
            }
            self.at = begin + len;
        }
        Ok(())
    }
}

fn decompress_onto(payload: &[u8], contents: &mut Vec<u8>) -> Result<(), BadBlock> {
    let (len, compressed) = payload.split_first_chunk::<4>().ok_or(BadBlock)?;
    let len = u32::from_le_bytes(*len) as usize;
    if len == 0 || len > CONTENT_MAX {
        return Err(BadBlock);
    }
    let start = contents.len();
    contents.resize(start + len, 0);
    match block::decompress_into(compressed, &mut contents[start..]) {
        Ok(count) if count == len => Ok(()),
        _ => {
            contents.truncate(start);
            Err(BadBlock)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(mut content: &[u8]) -> Vec<u8> {
        let mut blocks = Vec::new();
        while !content.is_empty() {
            let taken = push_block(&mut blocks, content);
            content = &content[taken..];
        }
        blocks
    }

    fn unpack(blocks: &[u8], piece: usize) -> Result<Vec<u8>, BadBlock> {
        let (mut unpacker, mut contents) = (Unpacker::default(), Vec::new());
        for piece in blocks.chunks(piece) {
            unpacker.input().extend_from_slice(piece);
            unpacker.unpack_onto(&mut contents)?;
        }
        assert!(unpacker.input().len() < CONTENT_MAX + HEAD, "only a partial block is kept");
        Ok(contents)
    }

    #[test]
    fn repetitive_data_shrinks_and_random_data_barely_grows() {
        let text = b"*3\r\n$3\r\nSET\r\n$7\r\nkey:123\r\n$5\r\nvalue\r\n".repeat(10_000);
        let packed = pack(&text);
        assert!(packed.len() < text.len() / 20, "{} bytes", packed.len());
        assert_eq!(unpack(&packed, 1000), Ok(text));
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
        let packed = pack(&noise);
        assert!(packed.len() <= noise.len() + 3 * HEAD);
        assert_eq!(unpack(&packed, 777), Ok(noise));
        assert_eq!(pack(b"PING").len(), 8);
    }

    #[test]
    fn damage_is_an_error() {
        let long = u32::try_from(CONTENT_MAX + 1).expect("small").to_le_bytes();
        for bad in
            [&[0, 0, 0, 0][..], &[0, 0, 0, 128], &long, &[4, 0, 0, 0, 9, 0, 0, 0], &[3, 0, 0, 0, 1, 2, 3]]
        {
            assert_eq!(unpack(bad, 9), Err(BadBlock), "{bad:?}");
        }
        let mut packed = pack(&b"abcdefgh".repeat(100));
        packed[HEAD] ^= 1;
        assert_eq!(unpack(&packed, 9), Err(BadBlock), "the content's length does not match");
    }

    proptest! {
        #[test]
        fn any_content_arrives_in_any_pieces(
            content in proptest::collection::vec(0u8..4, 0..2000),
            piece in 1usize..500,
        ) {
            prop_assert_eq!(unpack(&pack(&content), piece), Ok(content));
        }

        #[test]
        fn any_bytes_are_contents_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = unpack(&bytes, 50);
        }
    }
}
