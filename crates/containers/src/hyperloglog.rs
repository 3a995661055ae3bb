// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLog: counts distinct elements in 12 KiB, in Redis's own string format, byte for byte.
//!
//! A value is an ordinary string: `HYLL`, one byte of encoding (0 dense, 1 sparse), three unused
//! bytes, the cached count (eight bytes, little endian, top bit set = stale), then 16,384
//! registers of six bits. *Dense*: packed, lowest bits first. *Sparse*: a run-length code,
//! `00xxxxxx` = 1 to 64 zero registers, `01xxxxxx yyyyyyyy` = 1 to 16,384 zero registers,
//! `1vvvvvxx` = value 1 to 32 in 1 to 4 registers. A sparse value becomes dense when a register
//! exceeds 32 or the string would outgrow `hll-sparse-max-bytes`, and never becomes sparse again.
//!
//! Clients may store any bytes under the header, so all functions here take hostile input without
//! panicking. Sparse runs split and merge exactly as in Redis, so that copies on stock servers
//! stay identical.

/// Number of registers; fourteen bits of an element's hash select one.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of the hash after the index: an element sets a register to 1 to 51.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;
const HEADER: usize = 16;
const MAGIC: &[u8; 4] = b"HYLL";
/// Length in bytes of a dense value.
pub const DENSE_LEN: usize = HEADER + REGISTERS * 6 / 8;

const ZERO_LEN_MAX: usize = 64;
const VALUE_MAX: u8 = 32;
const VALUE_LEN_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Dense,
    Sparse,
}

impl Encoding {
    /// The reply of PFDEBUG ENCODING.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        }
    }
}

/// Reasons why a string is not a valid HyperLogLog; `Display` gives Redis's complete error line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HllError {
    /// The header is invalid.
    NotHyperLogLog,
    /// The header is valid but the registers are not.
    Corrupted,
}

impl std::fmt::Display for HllError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            HllError::NotHyperLogLog => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            HllError::Corrupted => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

impl std::error::Error for HllError {}

/// An empty value: sparse, with a valid cached count of zero. PFADD, even without elements, then
/// calls [`invalidate_cache`] as Redis does.
pub fn create() -> Vec<u8> {
    let mut value = vec![0; HEADER];
    value[..4].copy_from_slice(MAGIC);
    value[4] = 1;
    push_zeros(&mut value, REGISTERS);
    value
}

/// An empty dense value, for [`add_dense`].
pub fn create_dense() -> Vec<u8> {
    let mut value = create();
    // A new value is well-formed, so this cannot fail.
    let _ = to_dense(&mut value);
    invalidate_cache(&mut value);
    value
}

/// Checks only the header, as Redis does before each command.
///
/// # Errors
/// If the value does not begin with a header, or its length is not that of its encoding.
pub fn check(value: &[u8]) -> Result<Encoding, HllError> {
    if value.len() < HEADER || !value.starts_with(MAGIC) {
        return Err(HllError::NotHyperLogLog);
    }
    match value[4] {
        0 if value.len() == DENSE_LEN => Ok(Encoding::Dense),
        1 => Ok(Encoding::Sparse),
        _ => Err(HllError::NotHyperLogLog),
    }
}

/// The cached count, unless it is stale. `value` must have passed [`check`].
pub fn cached_count(value: &[u8]) -> Option<u64> {
    let bytes = value.get(8..HEADER)?.try_into().ok()?;
    let count = u64::from_le_bytes(bytes);
    (count >> 63 == 0).then_some(count)
}

/// Stores a count in the header, as PFCOUNT of a single key does.
pub fn store_count(value: &mut [u8], count: u64) {
    if let Some(place) = value.get_mut(8..HEADER) {
        place.copy_from_slice(&count.to_le_bytes());
    }
}

/// Marks the cached count as stale.
pub fn invalidate_cache(value: &mut [u8]) {
    if let Some(byte) = value.get_mut(HEADER - 1) {
        *byte |= 0x80;
    }
}

/// Adds an element; true if a register changed (the cached count is then stale). A sparse value
/// grows up to `sparse_len_max` bytes (`hll-sparse-max-bytes`) and then becomes dense.
///
/// # Errors
/// If the value is not a HyperLogLog, or its sparse form is damaged.
pub fn add(value: &mut Vec<u8>, element: &[u8], sparse_len_max: usize) -> Result<bool, HllError> {
    let (index, count) = place_of(element);
    set_register(value, index, count, sparse_len_max)
}

/// Like [`add`], but only for a dense value, which is changed in place at the same length. Leaves
/// other values unchanged.
pub fn add_dense(value: &mut [u8], element: &[u8]) -> bool {
    if value.len() != DENSE_LEN {
        return false;
    }
    let (index, count) = place_of(element);
    let changed = dense_raise(&mut value[HEADER..], index, count);
    if changed {
        invalidate_cache(value);
    }
    changed
}

/// Raises one register, whatever the encoding.
fn set_register(
    value: &mut Vec<u8>,
    index: usize,
    count: u8,
    sparse_len_max: usize,
) -> Result<bool, HllError> {
    let changed = match check(value)? {
        Encoding::Dense => dense_raise(&mut value[HEADER..], index, count),
        Encoding::Sparse => sparse_raise(value, index, count, sparse_len_max)?,
    };
    if changed {
        invalidate_cache(value);
    }
    Ok(changed)
}

/// Estimates the number of distinct elements of one value, ignoring its cached count.
///
/// # Errors
/// If the value is not a HyperLogLog, or its sparse form is damaged.
pub fn count(value: &[u8]) -> Result<u64, HllError> {
    let mut histogram = [0u32; 64];
    match check(value)? {
        Encoding::Dense => {
            for register in dense_registers(&value[HEADER..]) {
                histogram[usize::from(register)] += 1;
            }
        }
        Encoding::Sparse => {
            for run in sparse_runs(value) {
                let Run { value, len, .. } = run?;
                histogram[usize::from(value)] += len as u32;
            }
        }
    }
    Ok(estimate(&histogram))
}

/// One byte per register: the union of several values, for PFCOUNT with several keys, PFMERGE and
/// PFDEBUG GETREG.
#[derive(Clone)]
pub struct Registers(Box<[u8; REGISTERS]>);

impl Default for Registers {
    fn default() -> Registers {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// Raises each register to that of `value`, if that is greater. Returns the encoding of
    /// `value`: PFMERGE stores a dense result if any input was dense.
    ///
    /// # Errors
    /// If the value is not a HyperLogLog, or its sparse form is damaged: the registers are partly
    /// merged then.
    pub fn merge(&mut self, value: &[u8]) -> Result<Encoding, HllError> {
        let encoding = check(value)?;
        match encoding {
            Encoding::Dense => {
                for (own, other) in self.0.iter_mut().zip(dense_registers(&value[HEADER..])) {
                    *own = (*own).max(other);
                }
            }
            Encoding::Sparse => {
                for run in sparse_runs(value) {
                    let Run { value, first, len } = run?;
                    if value > 0 {
                        self.0[first..first + len].iter_mut().for_each(|own| *own = (*own).max(value));
                    }
                }
            }
        }
        Ok(encoding)
    }

    pub fn count(&self) -> u64 {
        let mut histogram = [0u32; 64];
        for &register in self.0.iter() {
            histogram[usize::from(register & 63)] += 1;
        }
        estimate(&histogram)
    }

    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// PFMERGE's last step: raises the registers of the target (an existing value, or a new one
    /// from [`create`]), makes it dense first if `dense`, and marks its cached count as stale.
    ///
    /// # Errors
    /// If the target is not a HyperLogLog, or its sparse form is damaged.
    pub fn store(&self, target: &mut Vec<u8>, dense: bool, sparse_len_max: usize) -> Result<(), HllError> {
        if dense {
            to_dense(target)?;
        }
        for (index, &register) in self.0.iter().enumerate() {
            if register > 0 {
                set_register(target, index, register, sparse_len_max)?;
            }
        }
        invalidate_cache(target);
        Ok(())
    }
}

/// Makes a sparse value dense; false if it was already dense.
///
/// # Errors
/// If the value is not a HyperLogLog, or its sparse form is damaged.
pub fn to_dense(value: &mut Vec<u8>) -> Result<bool, HllError> {
    if check(value)? == Encoding::Dense {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_LEN];
    dense[..HEADER].copy_from_slice(&value[..HEADER]);
    dense[4] = 0;
    for run in sparse_runs(value) {
        let Run { value, first, len } = run?;
        if value > 0 {
            (first..first + len).for_each(|index| dense_set(&mut dense[HEADER..], index, value));
        }
    }
    *value = dense;
    Ok(true)
}

/// PFDEBUG DECODE: the runs of a sparse value as text (`z:` zeros in one byte, `Z:` in two,
/// `v:value,length`). `None` if the value is not sparse.
pub fn describe(value: &[u8]) -> Option<String> {
    if check(value) != Ok(Encoding::Sparse) {
        return None;
    }
    let mut at = HEADER;
    let mut runs = Vec::new();
    while let Some((run, bytes)) = opcode(value, at) {
        runs.push(match (run.0, bytes) {
            (0, 1) => format!("z:{}", run.1),
            (0, _) => format!("Z:{}", run.1),
            (value, _) => format!("v:{value},{}", run.1),
        });
        at += bytes;
    }
    Some(runs.join(" "))
}

/// MurmurHash64A, the hash that makes values portable between servers.
fn murmur_hash(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        mixed = (mixed ^ mixed >> 47).wrapping_mul(FACTOR);
        hash = (hash ^ mixed).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

/// The register of an element, and the value that it requires: one more than the number of trailing
/// zeros in the rest of its hash.
pub fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur_hash(element);
    let run = hash >> INDEX_BITS | 1 << RUN_BITS;
    (hash as usize % REGISTERS, run.trailing_zeros() as u8 + 1)
}

fn dense_get(registers: &[u8], index: usize) -> u8 {
    let (byte, bit) = (index * 6 / 8, index * 6 % 8);
    let low = u16::from(registers[byte]);
    let high = registers.get(byte + 1).map_or(0, |&byte| u16::from(byte));
    ((high << 8 | low) >> bit) as u8 & 63
}

fn dense_set(registers: &mut [u8], index: usize, count: u8) {
    let (byte, bit) = (index * 6 / 8, index * 6 % 8);
    let mask = (63u16 << bit).to_le_bytes();
    let bits = (u16::from(count & 63) << bit).to_le_bytes();
    registers[byte] = registers[byte] & !mask[0] | bits[0];
    if mask[1] != 0 {
        registers[byte + 1] = registers[byte + 1] & !mask[1] | bits[1];
    }
}

fn dense_raise(registers: &mut [u8], index: usize, count: u8) -> bool {
    let higher = count > dense_get(registers, index);
    if higher {
        dense_set(registers, index, count);
    }
    higher
}

/// All registers: four per three bytes.
fn dense_registers(packed: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let (triples, _) = packed.as_chunks::<3>();
    triples.iter().flat_map(|&[first, second, third]| {
        [first & 63, (first >> 6 | second << 2) & 63, (second >> 4 | third << 4) & 63, third >> 2]
    })
}

/// A run of `len` registers from `first` on that hold `value`.
struct Run {
    value: u8,
    first: usize,
    len: usize,
}

/// The opcode at `at`: its value and length in registers, and its size in bytes. `None` at the
/// end, or if the opcode is truncated.
fn opcode(value: &[u8], at: usize) -> Option<((u8, usize), usize)> {
    let byte = *value.get(at)?;
    Some(match byte >> 6 {
        0 => ((0, usize::from(byte & 63) + 1), 1),
        1 => ((0, usize::from(byte & 63) << 8 | usize::from(*value.get(at + 1)?)), 2),
        _ => ((byte >> 2 & 31, usize::from(byte & 3) + 1), 1),
    })
    .map(|((register, len), bytes)| match bytes {
        2 => ((0, len + 1), 2),
        _ if byte & 0x80 != 0 => ((register + 1, len), 1),
        _ => ((register, len), 1),
    })
}

/// The runs of a sparse value. If they do not cover the registers exactly, the last item is an
/// error.
fn sparse_runs(value: &[u8]) -> impl Iterator<Item = Result<Run, HllError>> + '_ {
    let (mut at, mut first, mut done) = (HEADER, 0, false);
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        match opcode(value, at) {
            Some(((register, len), bytes)) if first + len <= REGISTERS => {
                let run = Run { value: register, first, len };
                at += bytes;
                first += len;
                Some(Ok(run))
            }
            None if at >= value.len() && first == REGISTERS => None,
            _ => {
                done = true;
                Some(Err(HllError::Corrupted))
            }
        }
    })
}

fn push_zeros(out: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=ZERO_LEN_MAX => out.push((len - 1) as u8),
        _ => out.extend_from_slice(&(0x4000 | (len - 1) as u16).to_be_bytes()),
    }
}

fn value_opcode(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

fn push_value(out: &mut Vec<u8>, value: u8, len: usize) {
    if len > 0 {
        out.push(value_opcode(value, len));
    }
}

/// Raises a register of a sparse value in place, or makes the value dense.
fn sparse_raise(value: &mut Vec<u8>, index: usize, count: u8, len_max: usize) -> Result<bool, HllError> {
    if count > VALUE_MAX {
        return promote(value, index, count);
    }
    // Find the run that covers the register, and the run before it, where merging begins.
    let (mut at, mut first, mut previous) = (HEADER, 0, HEADER);
    let ((old, len), bytes) = loop {
        let (run, bytes) = opcode(value, at).ok_or(HllError::Corrupted)?;
        if index < first + run.1 {
            break (run, bytes);
        }
        previous = at;
        at += bytes;
        first += run.1;
    };
    if old >= count {
        return Ok(false);
    }
    if len == 1 && bytes == 1 {
        value[at] = value_opcode(count, 1);
    } else {
        // Split into the registers before it, the register itself, and those after it: at most
        // five bytes.
        let (before, behind) = (index - first, first + len - 1 - index);
        let mut split = Vec::with_capacity(5);
        if old == 0 {
            push_zeros(&mut split, before);
            push_value(&mut split, count, 1);
            push_zeros(&mut split, behind);
        } else {
            push_value(&mut split, old, before);
            push_value(&mut split, count, 1);
            push_value(&mut split, old, behind);
        }
        if split.len() > bytes && value.len() + split.len() - bytes > len_max {
            return promote(value, index, count);
        }
        value.splice(at..at + bytes, split);
    }
    merge_neighbours(value, previous);
    Ok(true)
}

fn promote(value: &mut Vec<u8>, index: usize, count: u8) -> Result<bool, HllError> {
    to_dense(value)?;
    Ok(dense_raise(&mut value[HEADER..], index, count))
}

/// Joins adjacent runs of equal value, in at most five steps from `at` on.
fn merge_neighbours(value: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some(((register, len), bytes)) = opcode(value, at) else { return };
        if register > 0
            && let Some(((next, next_len), _)) = opcode(value, at + 1)
            && next == register
            && len + next_len <= VALUE_LEN_MAX
        {
            value[at + 1] = value_opcode(register, len + next_len);
            value.remove(at);
        } else {
            at += bytes;
        }
    }
}

/// Ertl's improved estimator ("New cardinality estimation algorithms for HyperLogLog sketches",
/// arXiv:1702.01284), computed from the number of registers that hold each value.
fn estimate(histogram: &[u32; 64]) -> u64 {
    /// 0.5 / ln 2.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let registers = REGISTERS as f64;
    let full = f64::from(histogram[RUN_BITS + 1]);
    let mut sum = registers * tau((registers - full) / registers);
    for &number in histogram[1..=RUN_BITS].iter().rev() {
        sum = (sum + f64::from(number)) * 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    let estimate = ALPHA * registers * registers / sum;
    // The sum is zero only if all registers are 51, or all are above 51 (values that no element can
    // produce); C converts the resulting infinity to this.
    if estimate.is_finite() { estimate.round() as u64 } else { 1 << 63 }
}

fn sigma(mut share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, share);
    loop {
        share *= share;
        let before = sum;
        sum += share * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - share);
    loop {
        share = share.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - share) * (1.0 - share) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn filled(number: u32, sparse_len_max: usize) -> Vec<u8> {
        let mut value = create();
        for element in 0..number {
            add(&mut value, element.to_string().as_bytes(), sparse_len_max).unwrap();
        }
        value
    }

    fn registers(value: &[u8]) -> Vec<u8> {
        let mut registers = Registers::default();
        registers.merge(value).unwrap();
        registers.as_slice().to_vec()
    }

    #[test]
    fn an_empty_value() {
        let value = create();
        assert_eq!(value, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        assert_eq!(cached_count(&value), Some(0));
        assert_eq!(count(&value), Ok(0));
        assert_eq!(describe(&value).unwrap(), "Z:16384");
    }

    /// The value that a stock server (7.0) stored for `PFADD k a b c`.
    #[test]
    fn bytes_of_a_stock_server() {
        let mut value = create();
        for element in ["a", "b", "c"] {
            assert_eq!(add(&mut value, element.as_bytes(), 3000), Ok(true));
        }
        assert_eq!(add(&mut value, b"a", 3000), Ok(false));
        assert_eq!(value, STOCK_ABC);
        assert_eq!(count(&value), Ok(3));
        assert_eq!(cached_count(&value), None);
        store_count(&mut value, 3);
        assert_eq!(cached_count(&value), Some(3));
    }

    const STOCK_ABC: &[u8] =
        b"HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x60\xf3\x80P\xb1\x84K\xfb\x80BZ";

    #[test]
    fn estimates_are_close() {
        for number in [10u32, 1000, 20_000, 200_000] {
            let value = filled(number, 3000);
            let estimate = count(&value).unwrap() as f64;
            assert!((estimate / f64::from(number) - 1.0).abs() < 0.03, "{number}: {estimate}");
        }
    }

    #[test]
    fn sparse_and_dense_agree() {
        let mut sparse = filled(3000, 20_000);
        let dense = filled(3000, 0);
        assert_eq!(check(&sparse), Ok(Encoding::Sparse));
        assert_eq!(check(&dense), Ok(Encoding::Dense));
        assert_eq!(registers(&sparse), registers(&dense));
        assert_eq!(count(&sparse), count(&dense));
        assert!(describe(&dense).is_none());
        assert_eq!(to_dense(&mut sparse), Ok(true));
        assert_eq!(sparse, dense);
        assert_eq!(to_dense(&mut sparse), Ok(false));
    }

    #[test]
    fn union() {
        let mut all = Registers::default();
        for (from, to) in [(0, 600u32), (300, 900)] {
            let mut part = create();
            for element in from..to {
                add(&mut part, element.to_string().as_bytes(), 3000).unwrap();
            }
            all.merge(&part).unwrap();
        }
        assert_eq!(all.as_slice(), registers(&filled(900, 3000)));
        assert_eq!(all.count(), count(&filled(900, 3000)).unwrap());
        for dense in [false, true] {
            let mut target = create();
            all.store(&mut target, dense, 3000).unwrap();
            assert_eq!(registers(&target), all.as_slice());
            assert_eq!(check(&target) == Ok(Encoding::Dense), dense);
            assert_eq!(cached_count(&target), None);
        }
    }

    #[test]
    fn hostile_values() {
        for value in [
            &b""[..],
            b"HYLL",
            b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\x7f\xff",
            b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0\x7f\xff",
        ] {
            assert_eq!(check(value), Err(HllError::NotHyperLogLog));
            assert_eq!(count(value), Err(HllError::NotHyperLogLog));
        }
        // Too few registers, too many, and a truncated opcode.
        for runs in [
            &b""[..],
            b"\x7f\xfe",
            b"\x7f\xff\x00",
            b"\x7f\xff\x80",
            b"\x7f",
            b"\x7f\xfe\x40",
            b"\x7f\xfd\x83",
        ] {
            let mut value = [&create()[..HEADER], runs].concat();
            assert_eq!(count(&value), Err(HllError::Corrupted), "{runs:?}");
            assert_eq!(Registers::default().merge(&value), Err(HllError::Corrupted));
            assert_eq!(to_dense(&mut value), Err(HllError::Corrupted));
        }
        let mut dense = vec![0xff; DENSE_LEN];
        dense[..HEADER].copy_from_slice(&create()[..HEADER]);
        dense[4] = 0;
        assert_eq!(count(&dense), Ok(1 << 63), "as a cached count, this is always stale");
    }

    proptest! {
        #[test]
        fn registers_follow_the_model(
            raises in vec((0usize..REGISTERS, 1u8..40), 0..200), near in 0usize..REGISTERS - 300,
        ) {
            let mut value = create();
            let mut model = vec![0u8; REGISTERS];
            for (index, count) in raises {
                // Mostly close together, so that runs split and merge.
                let index = if count % 4 == 0 { index } else { near + index % 300 };
                let count = if count > 34 { 51 } else { count % 5 + 1 };
                let higher = count > model[index];
                model[index] = model[index].max(count);
                prop_assert_eq!(set_register(&mut value, index, count, 150), Ok(higher));
                prop_assert!(check(&value) == Ok(Encoding::Dense) || value.len() <= 150);
            }
            prop_assert_eq!(registers(&value), model);
        }

        #[test]
        fn any_bytes_are_survived(
            runs in vec(prop_oneof![any::<u8>(), 0x7eu8..0x82], 0..40), elements in vec(any::<u32>(), 0..20),
        ) {
            let mut value = [&create()[..HEADER], &runs[..]].concat();
            for element in elements {
                let _ = add(&mut value, &element.to_le_bytes(), 40);
            }
            let _ = (count(&value), describe(&value), Registers::default().merge(&value));
            let _ = Registers::default().store(&mut value, false, 40);
            let _ = to_dense(&mut value);
        }
    }
}
