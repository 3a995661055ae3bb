// SPDX-License-Identifier: BSD-3-Clause
//! Any filter is either refused, at a place within it, or gives the same answer for an attribute
//! twice. A vector set whose dump was damaged is either refused or as sound as any other.
//!
//! The first byte chooses: an even one is the length of an attribute, which follows; the rest is
//! the filter. After an odd one come the form, the quantisation, the number of elements and a seed,
//! then changes of the dump: a place in two bytes and a byte each.

#![no_main]

use braid_keyspace::Value;
use braid_persistence::read_value;
use braid_rdb::{Format, Limits, Target, ValueRef};
use braid_values::vector_set::VectorSet;
use braid_values::vector_set::filter::Filter;
use braid_vectors::{Metric, Projection, Quantisation, Shape};
use libfuzzer_sys::fuzz_target;

const DIM: u32 = 6;

fn filter(attribute: &[u8], text: &[u8]) {
    match Filter::compile(text) {
        Ok(filter) => assert_eq!(filter.matches(attribute), filter.matches(attribute)),
        Err(error) => assert!(text.ends_with(&error.near), "an error elsewhere"),
    }
}

/// A vector from a seed.
fn vector(seed: u64, dim: u32) -> Vec<f32> {
    let component = |at: u32| {
        let mixed = (seed * 97 + u64::from(at) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..dim).map(component).collect()
}

fn make(quantisation: u8, count: u8, seed: u8) -> VectorSet {
    let kind = [Quantisation::F32, Quantisation::I8, Quantisation::Bin][usize::from(quantisation % 3)];
    let shape = Shape { metric: Metric::Cosine, quantisation: kind, dim: DIM, links: 4 };
    let projection = (quantisation & 64 != 0).then(|| Projection::walsh(2 * DIM, DIM).expect("in range"));
    let mut set = VectorSet::new(shape, projection).expect("in range");
    for number in 0..=u64::from(count % 48) {
        let attribute = (number % 3 == 0).then_some(&b"{\"n\":1}"[..]);
        let vector = vector(number + 256 * u64::from(seed), DIM);
        set.put(format!("e{number}").as_bytes(), &vector, 16, attribute).expect("its dimension");
    }
    set
}

fn dump(set: &VectorSet, target: Target) -> Vec<u8> {
    braid_rdb::dump(ValueRef::Object(set), Format { target, now_ms: i64::MIN }, true)
}

fn restore(payload: &[u8]) -> Option<VectorSet> {
    let mut decoder = braid_rdb::open(payload, false).ok()?;
    let kind = decoder.kind().ok()?;
    match read_value(&mut decoder, kind, &Limits::default(), i64::MIN).ok()? {
        Value::Object(object) => object.into_inner::<VectorSet>(),
        _ => None,
    }
}

/// Uses a set in all ways, and empties it.
fn exercise(mut set: VectorSet) {
    assert!(set.memory_bytes() > 0 && set.projection().is_none_or(|made| made.input() > 0));
    let dim = set.graph().shape().dim;
    for id in 0..set.len() as u32 {
        assert_eq!(set.find(set.name(id)), Some(id));
        let found = set.search(&set.graph().query_of(id), 3, 8);
        assert!(!found.is_empty() && found.iter().all(|hit| (hit.id as usize) < set.len()));
    }
    let copy = set.cow();
    let found = set.look_around(&vector(1, dim), 16).expect("its dimension");
    set.put_near(b"another", &vector(1, dim), 16, Some(b"x"), Some(found)).expect("its dimension");
    let again = restore(&dump(&set, Target::Own)).expect("just dumped");
    assert_eq!((again.len(), again.attributes()), (set.len(), set.attributes()));
    while !set.is_empty() {
        let name = set.name(set.len() as u32 / 2).to_vec();
        assert!(set.remove(&name));
    }
    assert_eq!(restore(&dump(&copy, Target::Own)).expect("just dumped").len(), copy.len());
}

fuzz_target!(|input: &[u8]| {
    braid_values::register();
    let Some((&choice, rest)) = input.split_first() else { return };
    if choice % 2 == 0 {
        let (attribute, text) = rest.split_at(usize::from(choice).min(rest.len()));
        return filter(attribute, text);
    }
    let Some((&[form, quantisation, count, seed], changes)) = rest.split_first_chunk() else { return };
    let target = if form % 2 == 0 { Target::Own } else { Target::Redis8 };
    let mut payload = dump(&make(quantisation, count, seed), target);
    let len = payload.len();
    for &[high, low, byte] in changes.as_chunks().0 {
        payload[usize::from(u16::from_be_bytes([high, low])) % len] ^= byte;
    }
    match restore(&payload) {
        Some(set) if !set.is_empty() => exercise(set),
        Some(_) => panic!("an empty set"),
        None => assert!(!changes.as_chunks::<3>().0.is_empty(), "an undamaged dump is refused"),
    }
});
