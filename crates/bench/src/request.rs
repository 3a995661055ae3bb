// SPDX-License-Identifier: BSD-3-Clause
//! Request generation: a command with placeholders is encoded once; during the run only digits and
//! values are filled in.
//!
//! Placeholders within an argument:
//! - `__key__`: the key prefix and a 12-digit number drawn by the key pattern
//! - `__rand_int__`: only the number, drawn separately for each occurrence in the command
//! - `__rand_1st__`, `__rand_2nd__`, `__rand_3rd__`, `__rand_4th__` .. `__rand_9th__`: one number
//!   for all occurrences of the same name in one request
//! - `__data__`: a value of the drawn size
//!
//! Without a number of keys (`-r`), `__rand_int__` and `__rand_1st__` .. `__rand_9th__` are sent
//! literally, as in redis-benchmark.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fastrand::Rng;

use crate::distributions::{KeyDraw, Pattern, Sizes};

/// Digits of a key's number.
pub const DIGITS: usize = 12;

/// One kind of request in a load.
#[derive(Clone, Debug)]
pub struct RequestKind {
    /// Name in reports: `SET`, `GET`.
    pub name: String,
    pub template: Template,
    /// Relative frequency among the kinds.
    pub weight: u32,
    pub pattern: Pattern,
}

/// Keys shared by all kinds of a load.
#[derive(Clone, Debug)]
pub struct Keys {
    pub prefix: String,
    /// Key numbers are drawn from `first..first + count`.
    pub first: u64,
    /// `None`: numbers are not drawn.
    pub count: Option<u64>,
}

/// An encoded command with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Number(Slot),
    /// A `$` line whose count is the value's length plus this.
    DataHeader(usize),
    Data,
}

/// The source of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Fresh,
    /// Drawn once per request, by index in [`SHARED`].
    Shared(usize),
}

const SHARED: [&str; 9] = [
    "__rand_1st__",
    "__rand_2nd__",
    "__rand_3rd__",
    "__rand_4th__",
    "__rand_5th__",
    "__rand_6th__",
    "__rand_7th__",
    "__rand_8th__",
    "__rand_9th__",
];

impl Template {
    /// Encodes a command.
    pub fn new<T: AsRef<str>>(words: &[T], keys: &Keys) -> Template {
        let mut parts = vec![Part::Literal(format!("*{}\r\n", words.len()).into_bytes())];
        for word in words {
            let word = word.as_ref().replace("__key__", &format!("{}__key_number__", keys.prefix));
            let argument = split(&word, keys.count.is_some());
            let fixed: usize = argument
                .iter()
                .map(|part| match part {
                    Part::Literal(bytes) => bytes.len(),
                    Part::Number(_) => DIGITS,
                    Part::DataHeader(_) | Part::Data => 0,
                })
                .sum();
            // A value's length is known only when it is drawn; an argument contains at most one.
            if argument.contains(&Part::Data) {
                parts.push(Part::DataHeader(fixed));
            } else {
                parts.push(Part::Literal(format!("${fixed}\r\n").into_bytes()));
            }
            parts.extend(argument);
            parts.push(Part::Literal(b"\r\n".to_vec()));
        }
        Template { parts: joined(parts) }
    }

    /// Exactly these bytes, for inline commands.
    pub fn raw(bytes: &str) -> Template {
        Template { parts: vec![Part::Literal(bytes.as_bytes().to_vec())] }
    }

    /// A sample request of this form, with zeros as numbers and a short value, for COMMAND GETKEYS.
    pub fn sample(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.with_data(b"x").parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                _ => out.extend_from_slice(&[b'0'; DIGITS]),
            }
        }
        out
    }

    /// Inserts values of one size, so that only numbers are left to fill in.
    fn with_data(&self, value: &[u8]) -> Template {
        let fill = |part: &Part| match part {
            Part::DataHeader(fixed) => Part::Literal(format!("${}\r\n", fixed + value.len()).into_bytes()),
            Part::Data => Part::Literal(value.to_vec()),
            other => other.clone(),
        };
        Template { parts: joined(self.parts.iter().map(fill).collect()) }
    }
}

/// Splits a word at its placeholders; only the first `__data__` is one, further ones are literal
/// text.
fn split(word: &str, with_numbers: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = word;
    let mut has_data = false;
    while !rest.is_empty() {
        let mut candidates = vec![("__key_number__", Part::Number(Slot::Fresh))];
        if with_numbers {
            candidates.push(("__rand_int__", Part::Number(Slot::Fresh)));
            let shared = SHARED.iter().enumerate();
            candidates.extend(shared.map(|(place, name)| (*name, Part::Number(Slot::Shared(place)))));
        }
        if !has_data {
            candidates.push(("__data__", Part::Data));
        }
        let found = candidates
            .into_iter()
            .filter_map(|(name, part)| Some((rest.find(name)?, name.len(), part)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, len, part)) = found else {
            parts.push(Part::Literal(rest.as_bytes().to_vec()));
            break;
        };
        if at > 0 {
            parts.push(Part::Literal(rest.as_bytes()[..at].to_vec()));
        }
        has_data |= part == Part::Data;
        parts.push(part);
        rest = &rest[at + len..];
    }
    parts
}

/// Joins adjacent literals.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Part::Literal(before)), Part::Literal(bytes)) => before.extend_from_slice(&bytes),
            (_, part) => joined.push(part),
        }
    }
    joined
}

/// The requests of a load.
#[derive(Clone, Debug)]
pub struct Load {
    pub kinds: Vec<RequestKind>,
    pub keys: Keys,
    pub sizes: Sizes,
    /// Values of random bytes instead of a repeated letter.
    pub random_data: bool,
}

/// Counters shared by the threads of one pass: the position of sequential keys, by kind.
#[derive(Clone, Debug, Default)]
pub struct Sequences(Vec<Arc<AtomicU64>>);

impl Sequences {
    pub fn new(load: &Load) -> Sequences {
        Sequences(load.kinds.iter().map(|_| Arc::default()).collect())
    }
}

/// Generates a thread's requests.
pub struct Generator {
    kinds: Vec<Made>,
    total_weight: u64,
    first_key: u64,
    sizes: Sizes,
    /// Values are slices of this.
    data: Vec<u8>,
    /// Maximum offset of a value in `data`.
    data_slack: usize,
    rng: Rng,
    batch: Vec<u8>,
    /// The length of each request in `batch`, if there is only one kind and it has a fixed length:
    /// the requests then stay in `batch`.
    prebuilt: Option<usize>,
}

/// A kind of request, prepared for sending.
struct Made {
    draw: KeyDraw,
    /// Cumulative weight.
    weight: u64,
    form: Form,
}

enum Form {
    /// Encoded bytes with the positions of numbers.
    Fixed { bytes: Vec<u8>, numbers: Vec<(usize, Slot)> },
    /// Assembled for each request.
    Varying(Template),
}

/// Random values begin at one of this many offsets of a block of random bytes.
const DATA_SLACK: usize = 4096;

impl Generator {
    /// A generator for one thread. `batch_len` is the maximum number of requests per call.
    pub fn new(load: &Load, sequences: &Sequences, seed: u64, batch_len: usize) -> Generator {
        let mut rng = Rng::with_seed(seed);
        let data_slack = if load.random_data { DATA_SLACK } else { 0 };
        let mut data = vec![b'x'; load.sizes.max() + data_slack];
        if load.random_data {
            rng.fill(&mut data);
        }
        let mut weight = 0;
        let kinds: Vec<Made> = load
            .kinds
            .iter()
            .zip(&sequences.0)
            .map(|(kind, next)| {
                weight += u64::from(kind.weight);
                let template = match load.sizes {
                    Sizes::Fixed(size) if !load.random_data => kind.template.with_data(&data[..size]),
                    _ => kind.template.clone(),
                };
                let draw = KeyDraw::new(kind.pattern, load.keys.count.unwrap_or(1).max(1), next);
                Made { draw, weight, form: Form::of(template) }
            })
            .collect();
        let mut generator = Generator {
            total_weight: weight,
            kinds,
            first_key: load.keys.first,
            sizes: load.sizes.clone(),
            data,
            data_slack,
            rng,
            batch: Vec::new(),
            prebuilt: None,
        };
        if let [Made { form: Form::Fixed { bytes, .. }, .. }] = generator.kinds.as_slice()
            && bytes.len() * batch_len <= PREBUILT_MAX
        {
            generator.batch = bytes.repeat(batch_len);
            generator.prebuilt = Some(bytes.len());
        }
        generator
    }

    /// The next `count` requests (at most `batch_len`), encoded. If there are several kinds, calls
    /// `kind` with the kind of each request.
    pub fn batch(&mut self, count: usize, mut kind: impl FnMut(u8)) -> &[u8] {
        if let (Some(len), [Made { draw, form: Form::Fixed { numbers, .. }, .. }]) =
            (self.prebuilt, self.kinds.as_slice())
        {
            if !numbers.is_empty() {
                for request in self.batch[..count * len].chunks_exact_mut(len) {
                    fill(request, numbers, draw, self.first_key, &mut self.rng);
                }
            }
            return &self.batch[..count * len];
        }
        self.batch.clear();
        for _ in 0..count {
            let drawn = match self.kinds.len() {
                1 => 0,
                _ => {
                    let drawn = self.rng.u64(0..self.total_weight);
                    let found = self.kinds.iter().position(|made| drawn < made.weight).unwrap_or(0);
                    kind(found as u8);
                    found
                }
            };
            self.append(drawn);
        }
        &self.batch
    }

    fn append(&mut self, kind: usize) {
        let Made { draw, form, .. } = &self.kinds[kind];
        match form {
            Form::Fixed { bytes, numbers } => {
                let start = self.batch.len();
                self.batch.extend_from_slice(bytes);
                fill(&mut self.batch[start..], numbers, draw, self.first_key, &mut self.rng);
            }
            Form::Varying(template) => {
                let mut shared = [None; SHARED.len()];
                let mut value = 0..0;
                for part in &template.parts {
                    match part {
                        Part::Literal(bytes) => self.batch.extend_from_slice(bytes),
                        Part::Number(slot) => {
                            let number = number(*slot, &mut shared, draw, self.first_key, &mut self.rng);
                            self.batch.extend_from_slice(&decimal(number));
                        }
                        Part::DataHeader(fixed) => {
                            let start = self.rng.usize(0..=self.data_slack);
                            value = start..start + self.sizes.next(&mut self.rng);
                            self.batch.push(b'$');
                            let len = fixed + value.len();
                            self.batch.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
                            self.batch.extend_from_slice(b"\r\n");
                        }
                        Part::Data => self.batch.extend_from_slice(&self.data[value.clone()]),
                    }
                }
            }
        }
    }

    /// Estimated length of a request, to decide how many to generate at once.
    pub fn request_len(&self) -> usize {
        let len = |made: &Made| match &made.form {
            Form::Fixed { bytes, .. } => bytes.len(),
            Form::Varying(_) => self.sizes.max() + 64,
        };
        self.kinds.iter().map(len).max().unwrap_or(1)
    }
}

/// Limit of prebuilt batches, so that they stay in the cache.
const PREBUILT_MAX: usize = 256 * 1024;

impl Form {
    fn of(template: Template) -> Form {
        let mut bytes = Vec::new();
        let mut numbers = Vec::new();
        for part in &template.parts {
            match part {
                Part::Literal(literal) => bytes.extend_from_slice(literal),
                Part::Number(slot) => {
                    numbers.push((bytes.len(), *slot));
                    bytes.extend_from_slice(&[b'0'; DIGITS]);
                }
                Part::DataHeader(_) | Part::Data => return Form::Varying(template),
            }
        }
        Form::Fixed { bytes, numbers }
    }
}

/// Draws a request's numbers and writes them at their positions.
#[inline]
fn fill(request: &mut [u8], numbers: &[(usize, Slot)], draw: &KeyDraw, first: u64, rng: &mut Rng) {
    if let &[(at, Slot::Fresh)] = numbers {
        // The common case: one key.
        put(request, at, first + draw.next(rng));
        return;
    }
    let mut shared = [None; SHARED.len()];
    for &(at, slot) in numbers {
        put(request, at, number(slot, &mut shared, draw, first, rng));
    }
}

/// Writes a number's digits at their position.
#[inline]
fn put(request: &mut [u8], at: usize, number: u64) {
    // An array of known length is copied without a call.
    if let Some(place) = request.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = decimal(number);
    }
}

fn number(
    slot: Slot,
    shared: &mut [Option<u64>; SHARED.len()],
    draw: &KeyDraw,
    first: u64,
    rng: &mut Rng,
) -> u64 {
    match slot {
        Slot::Fresh => first + draw.next(rng),
        Slot::Shared(place) => *shared[place].get_or_insert_with(|| first + draw.next(rng)),
    }
}

/// The last twelve decimal digits, with leading zeros.
#[inline]
fn decimal(number: u64) -> [u8; DIGITS] {
    let [a, b, c, d, e, f, g, h] = eight_digits(number % 100_000_000);
    let [.., w, x, y, z] =
        if number < 100_000_000 { [b'0'; 8] } else { eight_digits(number / 100_000_000 % 10_000) };
    [w, x, y, z, a, b, c, d, e, f, g, h]
}

/// The eight digits of a number below 10^8, by three divisions of all lanes of one word in
/// parallel.
///
/// A lane is divided by multiplying with a rounded-up reciprocal and shifting; the products fit
/// their lanes: below 10,000 n * 10486 >> 20 is n / 100, below 100 n * 103 >> 10 is n / 10.
#[inline]
fn eight_digits(number: u64) -> [u8; 8] {
    let fours = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - 10 * tens) << 8;
    (ones + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_resp::{Limits, RequestParser, Step};
    use fastrand::Rng;
    use proptest::prelude::*;

    fn keys(count: Option<u64>) -> Keys {
        Keys { prefix: "key:".into(), first: 0, count }
    }

    fn load(commands: &[(&str, u32)], keys: Keys, sizes: &str) -> Load {
        let kind = |&(line, weight): &(&str, u32)| {
            let words: Vec<&str> = line.split(' ').collect();
            let pattern = Pattern::Uniform;
            RequestKind { name: words[0].into(), template: Template::new(&words, &keys), weight, pattern }
        };
        Load {
            kinds: commands.iter().map(kind).collect(),
            sizes: sizes.parse().unwrap(),
            random_data: false,
            keys,
        }
    }

    /// Requests as the server would parse them.
    fn parsed(bytes: &[u8]) -> Vec<Vec<String>> {
        let mut parser = RequestParser::default();
        let mut requests = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut spans = Vec::new();
            let Step::Request { consumed } = parser.next(rest, &Limits::default(), &mut spans) else {
                panic!("no request: {:?}", String::from_utf8_lossy(rest));
            };
            let word = |span: &braid_resp::Span| String::from_utf8_lossy(&rest[span.range()]).into_owned();
            requests.push(spans.iter().map(word).collect());
            rest = &rest[consumed..];
        }
        requests
    }

    fn generate(load: &Load, count: usize) -> Vec<Vec<String>> {
        let mut generator = Generator::new(load, &Sequences::new(load), 1, count);
        parsed(generator.batch(count, |_| {}))
    }

    #[test]
    fn placeholders_are_filled_in() {
        let some = load(&[("SET __key__ __data__", 1)], keys(Some(10)), "5");
        for request in generate(&some, 50) {
            assert_eq!((request[0].as_str(), request[2].as_str()), ("SET", "xxxxx"));
            let number = request[1].strip_prefix("key:").unwrap();
            assert!(number.len() == DIGITS && number.parse::<u64>().unwrap() < 10, "{number}");
        }
        let some =
            load(&[("X a__rand_1st__ __rand_1st__b __rand_2nd__ __rand_int__", 1)], keys(Some(1 << 40)), "1");
        for request in generate(&some, 20) {
            assert_eq!(request[1][1..], request[2][..DIGITS]);
            assert_ne!(request[2][..DIGITS], request[3]);
            assert_ne!(request[3], request[4]);
        }
    }

    #[test]
    fn without_a_number_of_keys_numbers_stay_as_they_are() {
        let some = load(&[("SET key:__rand_int__ __rand_1st__", 1)], keys(None), "5");
        assert_eq!(generate(&some, 1), [["SET", "key:__rand_int__", "__rand_1st__"]]);
        assert_eq!(generate(&load(&[("GET __key__", 1)], keys(None), "5"), 1), [["GET", "key:000000000000"]]);
    }

    #[test]
    fn request_kinds_are_drawn_by_weight() {
        let some = load(&[("SET __key__ __data__", 1), ("GET __key__", 3)], keys(Some(100)), "8");
        let mut generator = Generator::new(&some, &Sequences::new(&some), 5, 100_000);
        let mut told = Vec::new();
        let requests = parsed(generator.batch(100_000, |kind| told.push(kind)));
        let gets = requests.iter().filter(|request| request[0] == "GET").count();
        assert!((gets as f64 / 100_000.0 - 0.75).abs() < 0.01, "{gets}");
        assert!(told.iter().zip(&requests).all(|(kind, request)| (*kind == 1) == (request[0] == "GET")));
    }

    #[test]
    fn a_prebuilt_batch_is_filled_anew_each_time() {
        let some = load(&[("GET __key__", 1)], keys(Some(1 << 30)), "8");
        let mut generator = Generator::new(&some, &Sequences::new(&some), 5, 16);
        assert!(generator.prebuilt.is_some());
        let first = parsed(generator.batch(16, |_| {}));
        let second = parsed(generator.batch(7, |_| {}));
        assert_eq!((first.len(), second.len()), (16, 7));
        let all: std::collections::HashSet<_> = first.iter().chain(&second).collect();
        assert_eq!(all.len(), 23);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn every_request_is_well_formed(
            low in 0usize..50, more in 1usize..2000, random in any::<bool>(), seed in any::<u64>(),
        ) {
            let mut some = load(
                &[("SET __key__ <__data__>", 2), ("APPEND __key__ __data____data__", 1), ("PING", 1)],
                keys(Some(1000)),
                &format!("{low}-{}", low + more),
            );
            some.random_data = random;
            let mut generator = Generator::new(&some, &Sequences::new(&some), seed, 20);
            let requests = parsed(generator.batch(20, |_| {}));
            prop_assert_eq!(requests.len(), 20);
            for request in requests.iter().filter(|request| request[0] == "SET" && !random) {
                let len = request[2].len() - 2;
                prop_assert!((low..=low + more).contains(&len));
            }
        }
    }

    #[test]
    fn numbers_have_twelve_digits() {
        assert_eq!(&decimal(0), b"000000000000");
        assert_eq!(&decimal(123_456_789_012), b"123456789012");
        assert_eq!(&decimal(7_000_000), b"000007000000");
        let mut rng = Rng::with_seed(9);
        for number in (0..10_000).chain((0..10_000).map(|_| rng.u64(..1_000_000_000_000))) {
            assert_eq!(String::from_utf8(decimal(number).to_vec()).unwrap(), format!("{number:012}"));
        }
    }
}
