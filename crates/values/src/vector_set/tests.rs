// SPDX-License-Identifier: BSD-3-Clause
//! Sets as a whole, their forms in dump files, and untrusted payloads.

use std::collections::BTreeMap;

use braid_keyspace::object::Object;
use braid_rdb::{Format, Limits, Target, ValueRef};
use braid_vectors::{Metric, Projection, Quantisation, Shape};
use proptest::prelude::*;

use super::VectorSet;

fn shape(quantisation: Quantisation, dim: u32) -> Shape {
    Shape { metric: Metric::Cosine, quantisation, dim, links: 4 }
}

fn vector(seed: u16, dim: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    (0..dim).map(|_| random.f32() * 4.0 - 2.0).collect()
}

fn format(target: Target) -> Format {
    Format { target, now_ms: 0 }
}

fn payload(set: &VectorSet, target: Target) -> Vec<u8> {
    braid_rdb::dump(ValueRef::Object(set), format(target), true)
}

fn restore(payload: &[u8], check: bool) -> Option<VectorSet> {
    crate::register();
    let mut decoder = braid_rdb::open(payload, check).ok()?;
    let kind = decoder.kind().ok()?;
    let limits = Limits::default();
    let object: Object =
        decoder.erased(|decoder| braid_keyspace::object::decode(decoder, kind, &limits, i64::MIN)).ok()?;
    object.into_inner::<VectorSet>()
}

/// An element's stored components, length and attribute.
type Element = (Vec<u8>, u32, Option<Vec<u8>>);

/// The elements by name.
fn content(set: &VectorSet) -> BTreeMap<Vec<u8>, Element> {
    let of = |id| {
        let (name, attribute) = set.name_and_attribute(id);
        let norm = set.graph().norm(id).to_bits();
        (name.to_vec(), (set.graph().raw(id), norm, attribute.map(<[u8]>::to_vec)))
    };
    (0..set.len() as u32).map(of).collect()
}

/// Links of each element by name.
fn links(set: &VectorSet) -> BTreeMap<Vec<u8>, Vec<Vec<Vec<u8>>>> {
    let graph = set.graph();
    let of = |id| {
        let at = |level| graph.links(id, level).map(|link| set.name(link).to_vec()).collect();
        (set.name(id).to_vec(), (0..=graph.level(id)).map(at).collect())
    };
    (0..set.len() as u32).map(of).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16, Option<u8>),
    Remove(u8),
    Attribute(u8, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..60, any::<u16>(), prop::option::of(any::<u8>()))
            .prop_map(|(name, vector, attribute)| Step::Put(name, vector, attribute)),
        2 => (0u8..60).prop_map(Step::Remove),
        1 => (0u8..60, prop::option::of(any::<u8>())).prop_map(|(name, attribute)| Step::Attribute(name, attribute)),
    ]
}

fn run(set: &mut VectorSet, steps: &[Step], model: &mut BTreeMap<u8, Option<u8>>) {
    let text = |attribute: Option<u8>| attribute.map(|attribute| format!("{{\"n\":{attribute}}}"));
    for step in steps {
        match *step {
            Step::Put(name, seed, attribute) => {
                let element = format!("element:{name}");
                let dim = set.projection().map_or(set.graph().shape().dim, Projection::output) as usize;
                let attribute_text = text(attribute);
                let is_new = set.put(
                    element.as_bytes(),
                    &vector(seed, dim),
                    30,
                    attribute_text.as_deref().map(str::as_bytes),
                );
                assert_eq!(is_new, Ok(!model.contains_key(&name)));
                let known = model.entry(name).or_default();
                *known = attribute.or(*known);
            }
            Step::Remove(name) => {
                assert_eq!(set.remove(format!("element:{name}").as_bytes()), model.remove(&name).is_some());
            }
            Step::Attribute(name, attribute) => {
                let attribute_text = text(attribute);
                let attribute_bytes = attribute_text.as_deref().map(str::as_bytes);
                let is_there = set.set_attribute(format!("element:{name}").as_bytes(), attribute_bytes);
                assert_eq!(is_there, model.contains_key(&name));
                model.entry(name).and_modify(|known| *known = attribute);
                if !is_there {
                    model.remove(&name);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn sets_go_through_both_forms(
        steps in prop::collection::vec(step(), 1..250), more in prop::collection::vec(step(), 1..60),
        kind in 0usize..3, projects in any::<bool>(),
    ) {
        let quantisation = [Quantisation::F32, Quantisation::I8, Quantisation::Bin][kind];
        let projection = projects.then(|| Projection::walsh(9, 7).expect("in range"));
        let mut set = VectorSet::new(shape(quantisation, 7), projection).expect("in range");
        let mut model = BTreeMap::new();
        run(&mut set, &steps, &mut model);
        prop_assert_eq!(set.len(), model.len());
        prop_assert_eq!(set.attributes(), model.values().flatten().count());
        for (name, attribute) in &model {
            let id = set.find(format!("element:{name}").as_bytes()).expect("an element");
            let known = set.attribute(id).map(|text| String::from_utf8_lossy(text).into_owned());
            prop_assert_eq!(known, attribute.map(|attribute| format!("{{\"n\":{attribute}}}")));
        }
        let shared = set.cow();
        let before = (content(&set), links(&set));
        if !set.is_empty() {
            for target in [Target::Own, Target::Redis8] {
                let payload = payload(&set, target);
                let mut again = restore(&payload, true).expect("a set");
                prop_assert!((content(&again), links(&again)) == before);
                prop_assert_eq!(again.attributes(), set.attributes());
                prop_assert_eq!(again.projection(), set.projection());
                if target == Target::Own {
                    prop_assert!(self::payload(&again, target) == payload);
                    // What follows makes equal graphs.
                    let (mut other, mut same) = (set.clone(), model.clone());
                    run(&mut other, &more, &mut same.clone());
                    run(&mut again, &more, &mut same);
                    prop_assert!((content(&again), links(&again)) == (content(&other), links(&other)));
                }
            }
        }
        run(&mut set, &more, &mut model);
        prop_assert!((content(&shared), links(&shared)) == before);
    }

    #[test]
    fn damaged_payloads_are_refused_or_sound(
        steps in prop::collection::vec(step(), 1..80), at in any::<prop::sample::Index>(), flip in 1u8..,
        cut in any::<prop::sample::Index>(), own in any::<bool>(),
    ) {
        let mut set = VectorSet::new(shape(Quantisation::I8, 5), None).expect("in range");
        run(&mut set, &steps, &mut BTreeMap::new());
        set.put(b"one", &vector(1, 5), 20, Some(b"{}")).expect("its dimension");
        let good = payload(&set, if own { Target::Own } else { Target::Redis8 });
        let mut bad = good.clone();
        *at.get_mut(&mut bad[..good.len() - 10]) ^= flip;
        if let Some(mut damaged) = restore(&bad, false) {
            let dim = damaged.graph().shape().dim as usize;
            content(&damaged);
            links(&damaged);
            damaged.put(b"another", &vector(2, dim), 20, None).expect("its dimension");
            let names: Vec<Vec<u8>> = (0..damaged.len() as u32).map(|id| damaged.name(id).to_vec()).collect();
            names.iter().for_each(|name| assert!(damaged.remove(name)));
            prop_assert!(damaged.is_empty());
        }
        prop_assert!(restore(&good[..cut.index(good.len())], false).is_none());
    }
}

#[test]
fn an_empty_set_in_the_form_of_redis_is_refused() {
    let set = VectorSet::new(shape(Quantisation::I8, 5), None).expect("in range");
    for target in [Target::Own, Target::Redis8] {
        assert!(restore(&payload(&set, target), true).is_none());
    }
}

/// DUMPs of redis-server 8.0.6.
#[test]
fn sets_of_redis_are_read_with_their_links() {
    let plain = b"\x07\x81\xbd\xe7-\xa2\xbb\x1e\xb4\x00\x02\x02\x02\x02\x02P\x01\x02\x02\x05\x01a\x05\x07{\"q\":1}\
        \x05\x02\x7f\x00\x02\x07\x02\x03\x02\x80\x01\x00\x00\x00\x02\x01\x02 \x02\x02\x02\x81>\x95\xf6\x1a\x00\x00\x00\
        \x00\x02\x81?\x80\x00\x00?\x80\x00\x00\x05\x01b\x05\x07{\"x\":1}\x05\x02\x7f\x7f\x02\x0a\x02\x02\x02\x80\x01\
        \x00\x00\x01\x02\x01\x02 \x02\x03\x02\x81>\x95\xf6\x1a\x00\x00\x00\x00\x02\x00\x02\x10\x02\x00\x02\x81?5\x04\
        \xf3?\xb5\x04\xf3\x00\x0c\x00\xba\xccC\xbc^\xdc\x12W";
    let set = restore(plain, true).expect("a set");
    assert_eq!(set.len(), 2);
    let (a, b) = (set.find(b"a").expect("a"), set.find(b"b").expect("b"));
    assert_eq!(set.graph().vector(a), [1.0, 0.0]);
    assert_eq!(set.attribute(b), Some(&b"{\"x\":1}"[..]));
    assert_eq!((set.graph().level(a), set.graph().level(b), set.serial()), (0, 1, 3));
    assert_eq!(set.graph().links(a, 0).collect::<Vec<_>>(), [b]);

    let projected = b"\x07\x81\xbd\xe7-\xa2\xbb\x1e\xb4\x00\x02\x03\x02\x01\x02P\x00\x02\x01\x02\x02\x05\xc3\x10\x18\
        \x04\xf3\x045?\xf3\xe0\x01\x03\x00\xbf\x80\x0b\x015?\x05\x01x\x05\x0c\xf4\x045?\x00\x00\x00\x00\xf4\x045?\x02\
        \x06\x02\x01\x02\x80\x01\x00\x00\x00\x02\x00\x02 \x02\x00\x02\x80?\xff\xff\xff\x00\x0c\x00\xda\x1e2\xed}\x97S\n";
    let set = restore(projected, true).expect("a set");
    assert!(set.projection().is_some_and(Projection::is_walsh));
    assert_eq!(set.graph().shape().quantisation, Quantisation::F32);
}

/// Whatever share of the elements a filter matches, the closest of them are found.
#[test]
fn filters_find_the_closest_that_match() {
    const COUNT: usize = 6000;
    let shape = Shape { links: 16, ..shape(Quantisation::I8, 8) };
    let mut set = VectorSet::new(shape, None).expect("in range");
    for n in 0..COUNT {
        // A tenth has no attribute, another tenth none that is an object.
        let attribute = match n % 10 {
            3 => None,
            7 => Some("text".to_owned()),
            _ => Some(format!("{{\"name\":\"element {n}\",\"half\":{},\"n\":{n}}}", n % 2)),
        };
        let attribute = attribute.as_ref().map(String::as_bytes);
        set.put(format!("e{n}").as_bytes(), &vector(n as u16, 8), 40, attribute).expect("its dimension");
    }
    type Rule = fn(usize) -> bool;
    let cases: [(&str, Rule); 6] = [
        (".half == 1", |n| n % 2 == 1),
        (".n % 33 == 5", |n| n % 33 == 5),
        (".n % 1000 == 8", |n| n % 1000 == 8),
        (".n == 4242 or .name == 'element 11'", |n| n == 4242 || n == 11),
        (".n < 20", |n| n < 20),
        (".other == 1", |_| false),
    ];
    for (text, matches) in cases {
        let filter = super::filter::Filter::compile(text.as_bytes()).expect("a filter");
        let is_match = |n: usize| n % 10 != 3 && n % 10 != 7 && matches(n);
        let (mut hits, mut all) = (0, 0);
        for seed in 0..30 {
            let query = set.graph().query(&vector(60_000 + seed, 8)).expect("its dimension");
            let mut truth = set.graph().scan(&query, COUNT);
            truth.retain(|hit| is_match(hit.id as usize));
            truth.truncate(10);
            let unlimited = (usize::MAX, usize::MAX);
            let found = set.search_matching(&query, 10, 100, unlimited, &filter).expect("no limit");
            assert!(found.len() == truth.len(), "{text}");
            assert!(found.iter().all(|hit| is_match(hit.id as usize)), "{text}");
            hits += truth.iter().filter(|hit| found.contains(hit)).count();
            all += truth.len();
            // No more answers than allowed.
            let few = set.search_matching(&query, 10, 100, (30, usize::MAX), &filter).expect("no limit");
            assert!(few.len() <= truth.len());
        }
        assert!(hits as f64 >= 0.95 * all as f64, "{text}: {hits} of {all}");
    }
}
