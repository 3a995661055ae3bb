//! A collection that was lent stays as it was, whatever becomes of the one that it was lent by, and nothing is lost or freed twice.

use braid_containers::hash::{Expiry, Hash, HashLimits};
use braid_containers::list::{End, List, ListLimits};
use braid_containers::set::{Set, SetLimits};
use braid_containers::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_containers::stream::{BlockLimits, Stream, StreamId, Trim};

const NEVER: i64 = i64::MIN;

fn hash_content(hash: &Hash) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut content: Vec<_> =
        hash.iter_with_expiry().map(|(field, value, _)| (field.to_vec(), value.to_vec())).collect();
    content.sort();
    content
}

fn set_content(set: &Set) -> Vec<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = set.iter_with_expiry().map(|(member, _)| member.to_vec()).collect();
    members.sort();
    members
}

fn sorted_content(set: &SortedSet) -> Vec<(Vec<u8>, u64)> {
    let view = set.view(NEVER);
    view.iter(0..view.len()).map(|(member, score)| (member.to_vec(), score.to_bits())).collect()
}

fn list_content(list: &List) -> Vec<Vec<u8>> {
    let mut content = Vec::new();
    list.range(0, list.len(), |element| content.push(element.to_vec()));
    content
}

fn stream_content(stream: &Stream) -> Vec<(StreamId, usize)> {
    stream.log().range(StreamId::MIN, StreamId::MAX).map(|entry| (entry.id, entry.fields.len())).collect()
}

/// Lends what `make` makes again and again; one thread changes it, or drops it, while another reads what was lent.
fn check<T: Send, C: PartialEq + Send>(
    seed: u64,
    make: impl Fn() -> T,
    lend: impl Fn(&mut T) -> T,
    content: impl Fn(&T) -> C + Sync,
    change: impl Fn(&mut T, &mut fastrand::Rng),
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut one = make();
    for round in 0..6 {
        let before = content(&one);
        let lent = lend(&mut one);
        let content = &content;
        one = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let seen = content(&lent);
                // Whoever reads it may be done with it first, or keep it.
                (seen, (round % 2 == 0).then_some(lent))
            });
            for _ in 0..2000 {
                change(&mut one, &mut random);
            }
            let after = content(&one);
            let (seen, lent) = reader.join().unwrap();
            assert!(seen == before, "what was lent is as it was");
            if let Some(lent) = lent {
                assert!(content(&lent) == before, "and stays so");
                if round == 2 {
                    drop(one);
                    assert!(content(&lent) == before, "when the owner goes, too");
                    return make();
                }
            }
            assert!(content(&one) == after, "the owner's is not touched by the end of the loan");
            one
        });
    }
}

#[test]
fn hashes() {
    let limits = HashLimits::default();
    let name = |number: u32| format!("field {number}");
    let value = |random: &mut fastrand::Rng| vec![random.u8(..); [3, 30, 300, 3000][random.usize(0..4)]];
    check(
        1,
        || {
            let mut random = fastrand::Rng::with_seed(7);
            let mut hash = Hash::new();
            for number in 0..5000 {
                hash.set(name(number).as_bytes(), &value(&mut random), Expiry::Keep, NEVER, &limits);
            }
            assert!(hash.is_large());
            hash
        },
        |hash| hash.lend(),
        hash_content,
        |hash, random| {
            let field = name(random.u32(0..6000));
            if random.bool() {
                hash.set(field.as_bytes(), &value(random), Expiry::Keep, NEVER, &limits);
            } else {
                hash.remove(field.as_bytes(), NEVER);
            }
        },
    );
}

#[test]
fn hashes_with_fields_that_expire_say_so() {
    let limits = HashLimits::default();
    let mut hash = Hash::new();
    for number in 0..5000u32 {
        hash.set(&number.to_le_bytes(), b"value", Expiry::At(i64::from(number) + 10), NEVER, &limits);
    }
    let lent = hash.lend();
    assert!(lent.expiring_len() > 0);
    assert_eq!(hash.expiring_len(), 5000);
    assert!(lent.iter_with_expiry().all(|(_, _, expire_at)| expire_at.is_some()));
}

#[test]
fn sets() {
    let limits = SetLimits::default();
    check(
        2,
        || {
            let mut set = Set::for_member(b"text", 5000, &limits);
            for number in 0..5000u32 {
                set.add(format!("member {number}").as_bytes(), NEVER, &limits);
            }
            assert!(set.is_large());
            set
        },
        |set| set.lend(),
        set_content,
        |set, random| {
            let member = format!("member {}", random.u32(0..6000));
            if random.bool() {
                set.add(member.as_bytes(), NEVER, &limits);
            } else {
                set.remove(member.as_bytes(), NEVER);
            }
        },
    );
}

#[test]
fn sorted_sets() {
    let limits = PackedLimits::default();
    check(
        3,
        || {
            let mut set = SortedSet::new();
            for number in 0..5000u32 {
                let member = format!("member {number}");
                set.add(member.as_bytes(), f64::from(number % 700), AddRule::default(), &limits);
            }
            assert!(set.is_large());
            set
        },
        SortedSet::lend,
        sorted_content,
        |set, random| {
            let member = format!("member {}", random.u32(0..6000));
            match random.u32(0..20) {
                0..12 => {
                    set.add(member.as_bytes(), f64::from(random.u32(0..700)), AddRule::default(), &limits);
                }
                12..19 => {
                    set.remove(member.as_bytes());
                }
                _ => {
                    let rank = random.usize(0..set.len().max(1));
                    set.remove_ranks(rank..rank + 3, |_, _| ());
                }
            }
        },
    );
}

#[test]
fn lists() {
    for (seed, compress_depth) in [(4, 0), (5, 2)] {
        let limits = ListLimits { compress_depth, ..ListLimits::default() };
        check(
            seed,
            || {
                let mut list = List::new();
                for number in 0..20_000u32 {
                    list.push(End::Back, format!("element {number}").as_bytes(), &limits);
                }
                list.push(End::Back, &[b'x'; 20_000], &limits);
                list.push(End::Front, &[b'y'; 20_000], &limits);
                assert!(list.is_large());
                list
            },
            List::lend,
            list_content,
            |list, random| {
                let end = if random.bool() { End::Front } else { End::Back };
                let index = random.usize(0..list.len());
                let text = vec![b'n'; [3, 40, 9000][random.usize(0..3)]];
                match random.u32(0..200) {
                    0..50 => {
                        list.pop(end, &limits, |_| ());
                    }
                    50..100 => list.push(end, &text, &limits),
                    100..195 => {
                        list.set(index as i64, &text, &limits);
                    }
                    195..198 => {
                        list.remove_range(index, 40, &limits);
                    }
                    _ => {
                        list.remove_equal(&text, 3, &limits);
                    }
                }
            },
        );
    }
}

#[test]
fn streams() {
    let limits = BlockLimits::default();
    let append = |stream: &mut Stream| {
        let id = StreamId { ms: stream.log().last_id().ms + 1, seq: 0 };
        stream.log_mut().append(id, &[(b"field", b"value"), (b"other", b"more")], &limits).unwrap();
    };
    check(
        6,
        || {
            let mut stream = Stream::new();
            (0..20_000).for_each(|_| append(&mut stream));
            assert!(stream.is_large());
            stream
        },
        |stream| stream.lend(),
        stream_content,
        |stream, random| match random.u32(0..20) {
            0..10 => append(stream),
            10..19 => {
                let last = stream.log().last_id().ms;
                let id = StreamId { ms: random.u64(last.saturating_sub(20_000)..last + 1), seq: 0 };
                stream.log_mut().delete(id);
            }
            _ => {
                let len = stream.log().len();
                stream.log_mut().trim(Trim::MaxLen(len.saturating_sub(5)), false, 0);
            }
        },
    );
}
