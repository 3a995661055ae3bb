// SPDX-License-Identifier: BSD-3-Clause
//! Strings with a second owner: whatever the keyspace does with the key, the owner sees what it
//! took, and the keyspace shows the change.

use std::collections::BTreeMap;

use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::{Value, ValueRef};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::txn::{Expiry, KeyRef, Txn};
use braid_keyspace::{Event, HeldString};

const EVENT: Event = Event::string("edited");
const NOW: i64 = 1_000_000;

type Content = (String, Option<i64>);

struct Held {
    string: HeldString,
    key: String,
    content: Content,
}

impl Held {
    fn check(&self) {
        let (value, expiry) = &self.content;
        assert_eq!((self.string.key(), self.string.value()), (self.key.as_bytes(), value.as_bytes()));
        assert_eq!(self.string.expiry(), *expiry);
    }
}

fn lock<R>(
    keyspace: &Keyspace,
    context: &mut Context,
    keys: &[&str],
    body: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let keys: Vec<_> = keys
        .iter()
        .map(|key| KeyRef { key: key.as_bytes(), hash: keyspace.hash(key.as_bytes()), write: true })
        .collect();
    body(&mut Txn::lock(keyspace, context, 0, NOW, &keys))
}

fn content(keyspace: &Keyspace, context: &mut Context, key: &str) -> Option<Content> {
    lock(keyspace, context, &[key], |txn| {
        let entry = txn.peek(key.as_bytes())?;
        let ValueRef::Bytes(bytes) = entry.value() else { panic!("{key} is no embedded string") };
        Some((String::from_utf8(bytes.to_vec()).expect("text"), entry.expiry()))
    })
}

/// One random change of a key, or of two; the same change of `model`.
fn change(
    keyspace: &Keyspace,
    context: &mut Context,
    model: &mut BTreeMap<String, Content>,
    random: &mut fastrand::Rng,
) {
    let [one, two] = [(); 2].map(|()| format!("key {}", random.u8(0..6)));
    // Most values have the length of the ones that they replace.
    let value = format!("value {:0width$}", random.u16(..), width = [5, 5, 5, 40][random.usize(0..4)]);
    let at = random.bool().then(|| NOW + random.i64(1..1000));
    let expiry = [Expiry::Keep, at.map_or(Expiry::Clear, Expiry::At)][random.usize(0..2)];
    let had = model.get(&one).cloned();
    lock(keyspace, context, &[&one, &two], |txn| match random.u8(0..6) {
        0 | 1 => {
            txn.set(one.as_bytes(), Value::plain(value.as_bytes(), false), expiry);
            let after = match expiry {
                Expiry::Keep => had.and_then(|(_, expiry)| expiry),
                Expiry::Clear => None,
                Expiry::At(at) => Some(at),
            };
            model.insert(one.clone(), (value, after));
        }
        2 => {
            assert_eq!(txn.delete(one.as_bytes()), had.is_some());
            model.remove(&one);
        }
        3 => {
            assert_eq!(txn.set_expiry(one.as_bytes(), at), had.is_some());
            if let Some((_, expiry)) = model.get_mut(&one) {
                *expiry = at;
            }
        }
        4 => {
            assert_eq!(txn.rename(one.as_bytes(), 0, two.as_bytes()), had.is_some());
            if let Some(content) = model.remove(&one) {
                model.insert(two.clone(), content);
            }
        }
        _ => {
            let Some((text, _)) = model.get_mut(&one) else { return };
            let edit = |bytes: &mut [u8], _| (bytes[0] = b'V', 1);
            txn.edit_string(EVENT, one.as_bytes(), 0, edit).expect("a string");
            text.replace_range(..1, "V");
        }
    });
}

#[test]
fn owners_see_what_they_took() {
    let seeds = if cfg!(miri) { 2 } else { 40 };
    for (seed, threads) in (0..seeds).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = Shape { shards: 4, databases: 1, threads, threads_max: threads };
        let keyspace = Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"));
        let mut context = Context::new(&keyspace, 0);
        let (mut model, mut all) = (BTreeMap::<String, Content>::new(), Vec::<Held>::new());
        let mut times_held = 0;
        for _ in 0..if cfg!(miri) { 100 } else { 400 } {
            match random.u8(0..8) {
                0 => {
                    let key = format!("key {}", random.u8(0..6));
                    let is_absent = !model.contains_key(&key);
                    assert!(lock(&keyspace, &mut context, &[&key], |txn| txn.hold(key.as_bytes()).is_none()));
                    let world = keyspace.gate.stop_world(None);
                    let txn = Txn::world(&keyspace, &mut context, world, 0, NOW);
                    let string = txn.hold(key.as_bytes());
                    assert!(txn.hold(key.as_bytes()).is_none(), "there is one second owner at a time");
                    assert!(string.is_none() || !is_absent);
                    drop(txn);
                    times_held += usize::from(string.is_some());
                    let held = |string| Held { string, content: model[&key].clone(), key: key.clone() };
                    all.extend(string.map(held));
                }
                1 if !all.is_empty() => drop(all.swap_remove(random.usize(0..all.len()))),
                _ => change(&keyspace, &mut context, &mut model, &mut random),
            }
            context.limbo.reclaim_now();
            all.iter().for_each(Held::check);
            for key in (0..6).map(|number| format!("key {number}")) {
                assert_eq!(content(&keyspace, &mut context, &key).as_ref(), model.get(&key), "seed {seed}");
            }
        }
        assert!(times_held > 0);
        // Either side may end first.
        if random.bool() {
            drop((context, keyspace));
            all.iter().for_each(Held::check);
        }
    }
}
