// SPDX-License-Identifier: BSD-3-Clause
//! LZF: the lightweight compression of RDB strings and of the inner blocks of long lists.
//!
//! The format is liblzf's. A control byte below 32 begins a run of that many plus one literal
//! bytes. Any other control byte is a copy of earlier output: its upper 3 bits are the length minus
//! 2 (7 means that the next byte is added), its lower 5 bits and one more byte are the distance
//! minus 1. Decompression accepts untrusted bytes and never writes more than the expected length.

const LITERAL_MAX: usize = 32;
const COPY_MAX: usize = 264;
const DISTANCE_MAX: usize = 1 << 13;
const TABLE_BITS: u32 = 12;

/// Compresses `input`; `None` if the result would not be shorter than `most` bytes (or if the
/// input is too short or too long to try).
pub fn compress(input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new();
    compressor.compress(input, most).is_some().then_some(compressor.out)
}

/// Number of consecutive positions without a match, as a power of two, after which the step grows
/// by one: data without repetitions so far seldom has some later.
const PATIENCE_BITS: u32 = 6;

/// Compresses one input after another with the same table.
pub struct Compressor {
    /// Last position of three bytes with a given hash: the position, plus the `base` of its input,
    /// plus one.
    seen: Box<[u32]>,
    /// Positions up to this number belong to previous inputs.
    base: u32,
    /// The most recent result.
    out: Vec<u8>,
}

impl Default for Compressor {
    fn default() -> Compressor {
        Compressor::new()
    }
}

impl Compressor {
    pub fn new() -> Compressor {
        Compressor { seen: vec![0; 1 << TABLE_BITS].into_boxed_slice(), base: 0, out: Vec::new() }
    }

    /// See [`compress()`].
    pub fn compress(&mut self, input: &[u8], most: usize) -> Option<&[u8]> {
        let input_len = u32::try_from(input.len()).ok().filter(|&length| length >= 4)?;
        if self.base.checked_add(input_len).is_none_or(|last| last == u32::MAX) {
            self.seen.fill(0);
            self.base = 0;
            // The input is too long: its positions do not fit.
            input_len.checked_add(1)?;
        }
        let base = self.base;
        self.base += input_len;
        let out = &mut self.out;
        out.clear();
        out.reserve(most.min(input.len()));
        let (mut at, mut literals_from) = (0, 0);
        while let Some(next) = input.get(at..).and_then(|rest| rest.first_chunk::<3>()) {
            let three = u32::from(next[0]) << 16 | u32::from(next[1]) << 8 | u32::from(next[2]);
            let place = &mut self.seen[(three.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS)) as usize];
            let before = std::mem::replace(place, base + at as u32 + 1);
            let reference = before.wrapping_sub(base + 1) as usize;
            let is_match =
                before > base && at - reference <= DISTANCE_MAX && input[reference..reference + 3] == *next;
            if !is_match {
                at += 1 + ((at - literals_from) >> PATIENCE_BITS);
                continue;
            }
            let limit = COPY_MAX.min(input.len() - at);
            let same = common_len(&input[at..at + limit], &input[reference..]);
            write_literals(out, &input[literals_from..at]);
            let (distance, length) = (at - reference - 1, same - 2);
            let high = (distance >> 8) as u8;
            if length < 7 {
                out.push((length as u8) << 5 | high);
            } else {
                out.extend_from_slice(&[7 << 5 | high, (length - 7) as u8]);
            }
            out.push(distance as u8);
            if out.len() >= most {
                return None;
            }
            at += same;
            literals_from = at;
        }
        write_literals(out, &input[literals_from..]);
        (out.len() < most).then_some(out)
    }
}

/// Length of the common prefix.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    let (words, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    for (index, (one, other)) in words.iter().zip(others).enumerate() {
        let difference = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if difference != 0 {
            return index * 8 + difference.trailing_zeros() as usize / 8;
        }
    }
    let whole = words.len().min(others.len()) * 8;
    whole + one[whole..].iter().zip(&other[whole..]).take_while(|(one, other)| one == other).count()
}

fn write_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERAL_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

/// Decompresses `input` to exactly `length` bytes; `None` if `input` is not a valid compression of
/// that many bytes.
pub fn decompress(input: &[u8], length: usize) -> Option<Vec<u8>> {
    // Three bytes encode a copy of at most 264: no valid input expands more than that, so a false
    // length cannot cause a large allocation.
    if length > input.len().saturating_mul(COPY_MAX / 3) {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    let mut rest = input;
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        if usize::from(control) < LITERAL_MAX {
            let (literals, behind) = rest.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literals);
            rest = behind;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                let (&more, behind) = rest.split_first()?;
                count += usize::from(more);
                rest = behind;
            }
            let (&low, behind) = rest.split_first()?;
            rest = behind;
            let distance = (usize::from(control & 0x1F) << 8 | usize::from(low)) + 1;
            let from = out.len().checked_sub(distance)?;
            let count = count + 2;
            if out.len() + count > length {
                return None;
            }
            // A copy may read its own output: a repetition, which doubles with each step.
            let end = out.len() + count;
            while out.len() < end {
                let there = (out.len() - from).min(end - out.len());
                out.extend_from_within(from..from + there);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn decompresses_valid_input_and_rejects_malformed_input() {
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 1 << 5, 2], 6).unwrap(), b"abcabc");
        assert_eq!(decompress(&[0, b'a', 7 << 5, 1, 0], 11).unwrap(), b"aaaaaaaaaaa");
        assert_eq!(decompress(&[], 0).unwrap(), b"");
        for (bad, length) in [
            (&[2, b'a', b'b'][..], 3),
            (&[0, b'a', 1 << 5, 1], 4),
            (&[0, b'a', 1 << 5], 4),
            (&[0, b'a', 7 << 5, 1], 11),
            (&[0, b'a'], 2),
            (&[1, b'a', b'b'], 1),
            (&[0, b'a'], usize::MAX),
        ] {
            assert_eq!(decompress(bad, length), None, "{bad:?}");
        }
    }

    #[test]
    fn decompresses_redis_output() {
        // From the DUMP of Redis 7.0.15.
        let packed =
            b"\x0cthe cat and t \x0b\x02dog\xe0\x00\x0b\xe0\x06\x17\x00,` @\x14\x00s 0\x01on`\x0e\x00m \n\
            \x00x\xe0\x1f\x00\x01xx";
        let text = [
            &b"the cat and the dog and the cat and the dog, the cat sat on the mat "[..],
            b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ]
        .concat();
        assert_eq!((packed.len(), text.len()), (53, 111));
        assert_eq!(decompress(packed, 111), Some(text));
    }

    #[test]
    fn long_repetitions_and_limits() {
        let input = vec![b'x'; 100_000];
        let packed = compress(&input, input.len()).unwrap();
        assert!(packed.len() < 1200, "{}", packed.len());
        assert_eq!(decompress(&packed, input.len()).unwrap(), input);
        assert_eq!(compress(&input, packed.len()), None, "the result is not shorter than the limit");
        // Lengths around the comparisons' word size, up to the longest copy and beyond.
        for length in (4..40).chain(255..290) {
            let input = [&vec![b'x'; length][..], b"end"].concat();
            if let Some(packed) = compress(&input, input.len()) {
                assert_eq!(decompress(&packed, input.len()).unwrap(), input);
            }
            assert_eq!(common_len(&input, &vec![b'x'; 300]), length);
            assert_eq!(common_len(&input, &input[..length - 1]), length - 1);
        }
        let mut random = fastrand::Rng::with_seed(1);
        let noise: Vec<u8> = (0..1000).map(|_| random.u8(..)).collect();
        assert_eq!(compress(&noise, noise.len()), None);
    }

    #[test]
    fn a_compressor_forgets_the_inputs_before() {
        let mut compressor = Compressor::new();
        let text = b"abcabcabcabcabcabcabc".repeat(3);
        let alone = compress(&text, text.len()).unwrap();
        for base in [0, 100, u32::MAX - 64, u32::MAX - 63, u32::MAX - 1] {
            compressor.base = base;
            assert_eq!(compressor.compress(&text, text.len()).unwrap(), alone, "{base}");
            assert_eq!(compressor.compress(&text, text.len()).unwrap(), alone, "{base}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        #[test]
        fn round_trips(words in vec(vec(0u8..4, 1..40), 0..60), far in 0usize..9000) {
            let mut input: Vec<u8> = words.concat();
            input.extend(std::iter::repeat_n(9, far % 700));
            input.extend(words.concat());
            if let Some(packed) = compress(&input, input.len()) {
                prop_assert!(packed.len() < input.len());
                prop_assert_eq!(decompress(&packed, input.len()), Some(input));
            }
        }
        #[test]
        fn hostile_input_is_harmless(input in vec(any::<u8>(), 0..60), length in 0usize..2000) {
            if let Some(out) = decompress(&input, length) {
                prop_assert_eq!(out.len(), length);
            }
        }
    }
}
