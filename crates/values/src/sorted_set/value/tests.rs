// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets in both forms, checked against a simple model: a map from member to score, sorted
//! on demand.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::*;

const LIMITS: PackedLimits = PackedLimits { entries_max: 128, value_bytes_max: 64 };
/// Never packed.
const BIG: PackedLimits = PackedLimits { entries_max: 0, value_bytes_max: 64 };

type Model = BTreeMap<Vec<u8>, f64>;

fn ordered(model: &Model) -> Vec<(Vec<u8>, f64)> {
    let mut entries: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    // A stable sort, so that equal scores keep the order of members.
    entries.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap());
    entries
}

fn owned((member, score): Entry<'_>) -> (Vec<u8>, f64) {
    (member.to_vec(), score)
}

fn check(set: &SortedSet) {
    if let Form::Big(big) = &set.form {
        big.check();
    }
}

/// Compares the results of all reads.
fn compare(set: &SortedSet, now: i64, model: &Model) {
    check(set);
    let view = set.view(now);
    let expected = ordered(model);
    let len = expected.len();
    assert_eq!(view.len(), len);
    assert_eq!(view.iter(0..len).map(owned).collect::<Vec<_>>(), expected);
    let mut reversed: Vec<_> = view.iter_back(0..len).map(owned).collect();
    reversed.reverse();
    assert_eq!(reversed, expected);
    for (rank, (member, score)) in expected.iter().enumerate() {
        assert_eq!(view.rank(member), Some((rank, *score)));
        assert_eq!(view.score(member), Some(*score));
        assert_eq!(view.get(rank).map(owned), Some((member.clone(), *score)));
    }
    assert!(
        view.get(len).is_none()
            && view.score(b"never there").is_none()
            && view.rank(b"never there").is_none()
    );
    let mut seen = HashSet::new();
    let mut cursor = 0;
    loop {
        cursor = view.scan(cursor, 3, |(member, score)| {
            assert_eq!(model.get(&member.to_vec()), Some(&score));
            seen.insert(member.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), len);
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u8>, f64, AddRule),
    Remove(Vec<u8>),
    RemoveRanks(usize, usize),
    PopMin(usize),
    PopMax(usize),
    RemoveScores(f64, f64, bool, bool),
    Pack,
    Clone,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u32..40).prop_map(|number| format!("m{number}").into_bytes()),
        2 => (-3i64..40).prop_map(|number| number.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
        1 => (60usize..300).prop_map(|len| vec![b'l'; len]),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-5i32..5).prop_map(f64::from),
        2 => (-50i32..50).prop_map(|tenths| f64::from(tenths) / 10.0),
        1 => proptest::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e-300, 9.3e18, -0.0]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let rule = (any::<[bool; 5]>(), any::<bool>()).prop_map(|([a, b, c, d, e], plain)| match plain {
        true => AddRule::default(),
        false => AddRule {
            only_new: a,
            only_existing: b && !a,
            only_greater: c && !a,
            only_less: d && !a && !c,
            increment: e,
        },
    });
    prop_oneof![
        10 => (member(), score(), rule).prop_map(|(m, s, r)| Step::Add(m, s, r)),
        3 => member().prop_map(Step::Remove),
        1 => (0usize..50, 0usize..6).prop_map(|(start, count)| Step::RemoveRanks(start, count)),
        1 => (0usize..4).prop_map(Step::PopMin),
        1 => (0usize..4).prop_map(Step::PopMax),
        1 => (score(), score(), any::<bool>(), any::<bool>())
            .prop_map(|(a, b, x, y)| Step::RemoveScores(a, b, x, y)),
        1 => Just(Step::Pack),
        1 => Just(Step::Clone),
    ]
}

fn range(min: f64, max: f64, min_out: bool, max_out: bool) -> ScoreRange {
    let bound = |score, out| if out { ScoreBound::Exclusive(score) } else { ScoreBound::Inclusive(score) };
    ScoreRange { min: bound(min, min_out), max: bound(max, max_out) }
}

fn expected_add(model: &mut Model, member: &[u8], given: f64, rule: AddRule) -> Added {
    let present = model.get(member).copied();
    if (present.is_some() && rule.only_new) || (present.is_none() && rule.only_existing) {
        return Added::Refused;
    }
    let score = if rule.increment { present.unwrap_or(0.0) + given } else { given };
    if score.is_nan() {
        return Added::NotANumber;
    }
    if let Some(present) = present {
        if (rule.only_greater && score <= present) || (rule.only_less && score >= present) {
            return Added::Refused;
        }
        if score == present {
            return Added::Same(score);
        }
    }
    model.insert(member.to_vec(), score);
    if present.is_some() { Added::Updated(score) } else { Added::Added(score) }
}

fn apply(set: &mut SortedSet, model: &mut Model, step: &Step, limits: &PackedLimits) {
    let mut gone = Vec::new();
    let expected: Vec<(Vec<u8>, f64)>;
    match step {
        Step::Add(member, score, rule) => {
            assert_eq!(set.add(member, *score, *rule, limits), expected_add(model, member, *score, *rule));
            return;
        }
        Step::Remove(member) => {
            assert_eq!(set.remove(member), model.remove(member));
            return;
        }
        Step::Pack => return set.pack_if_small(&LIMITS),
        Step::Clone => {
            *set = set.clone();
            return;
        }
        Step::RemoveRanks(start, count) => {
            expected = ordered(model).into_iter().skip(*start).take(*count).collect();
            set.remove_ranks(*start..start + count, |member, score| gone.push(owned((member, score))));
        }
        Step::PopMin(count) => {
            expected = ordered(model).into_iter().take(*count).collect();
            set.pop_min(*count, |member, score| gone.push(owned((member, score))));
        }
        Step::PopMax(count) => {
            expected = ordered(model).into_iter().rev().take(*count).collect();
            set.pop_max(*count, |member, score| gone.push(owned((member, score))));
        }
        Step::RemoveScores(a, b, x, y) => {
            let inside =
                |score: f64| (score > *a || (score == *a && !x)) && (score < *b || (score == *b && !y));
            expected = ordered(model).into_iter().filter(|(_, score)| inside(*score)).collect();
            let ranks = set.view(0).ranks_by_score(&range(*a, *b, *x, *y));
            assert_eq!(ranks.len(), expected.len());
            set.remove_ranks(ranks, |member, score| gone.push(owned((member, score))));
        }
    }
    assert_eq!(gone, expected);
    gone.iter().for_each(|(member, _)| {
        model.remove(member);
    });
}

const CASES: u32 = if cfg!(miri) { 2 } else { 60 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(steps in proptest::collection::vec(step(), 1..if cfg!(miri) { 40 } else { 120 }), big: bool) {
        let limits = if big { BIG } else { LIMITS };
        let (mut set, mut model) = (SortedSet::new(), Model::new());
        for step in &steps {
            apply(&mut set, &mut model, step, &limits);
        }
        compare(&set, 0, &model);
    }

    #[test]
    fn ranges_by_member(
        members in proptest::collection::hash_set(proptest::collection::vec(0u8..3, 0..4), 0..60),
        low in proptest::collection::vec(0u8..3, 0..4),
        high in proptest::collection::vec(0u8..3, 0..4),
        kinds in (0u8..4, 0u8..4), big: bool,
    ) {
        let limits = if big { BIG } else { LIMITS };
        let set = SortedSet::from_pairs(members.iter().map(|member| (&member[..], 0.0)), &limits);
        let bound = |kind, member| match kind {
            0 => LexBound::Minimum,
            1 => LexBound::Maximum,
            2 => LexBound::Inclusive(member),
            _ => LexBound::Exclusive(member),
        };
        let range = LexRange { min: bound(kinds.0, &low), max: bound(kinds.1, &high) };
        let after_min = |m: &[u8]| match kinds.0 {
            0 => true,
            1 => false,
            2 => m >= &low[..],
            _ => m > &low[..],
        };
        let before_max = |m: &[u8]| match kinds.1 {
            0 => false,
            1 => true,
            2 => m <= &high[..],
            _ => m < &high[..],
        };
        let mut expected: Vec<&Vec<u8>> = members.iter().filter(|m| after_min(m) && before_max(m)).collect();
        expected.sort();
        let view = set.view(0);
        let got: Vec<Vec<u8>> = view.iter(view.ranks_by_member(&range)).map(|(m, _)| m.to_vec()).collect();
        prop_assert_eq!(got.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn expired_members_are_hidden(
        times in proptest::collection::vec((0i64..20, 0i32..5), 1..90), now in 0i64..20,
    ) {
        let (mut set, mut model) = (SortedSet::new(), Model::new());
        for (index, (at, score)) in times.iter().enumerate() {
            let member = format!("m{index}").into_bytes();
            set.add(&member, f64::from(*score), AddRule::default(), &BIG);
            // Time 0 means no expiry.
            assert!(set.set_expiry(&member, (*at > 0).then_some(*at)));
            if *at == 0 || *at >= now {
                model.insert(member, f64::from(*score));
            }
        }
        compare(&set, now, &model);
        let first = times.iter().map(|(at, _)| *at).filter(|at| *at > 0).min();
        prop_assert_eq!(set.next_expiry(), first);
        let mut removed = 0;
        while set.remove_expired(now, 7, |_, _| removed += 1) > 0 {}
        prop_assert_eq!(removed, times.len() - model.len());
        compare(&set, now, &model);
        prop_assert!(set.next_expiry().is_none_or(|at| at >= now));
    }

    #[test]
    fn any_cursor_is_safe(cursor: u64, count: usize, shift in 0u32..64) {
        let mut set = SortedSet::new();
        for number in 0..if cfg!(miri) { 200 } else { 600u32 } {
            set.add(&number.to_le_bytes(), 0.0, AddRule::default(), &BIG);
        }
        set.view(0).scan(cursor >> shift, count, |_| ());
    }

    #[test]
    fn hostile_lists_never_panic(texts in proptest::collection::vec(prop_oneof![
        (0i64..9).prop_map(|n| n.to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..4),
        Just(b"nan".to_vec()), Just(b"inf".to_vec()), Just(b"-0".to_vec()), Just(b"1.5".to_vec()),
    ], 0..12)) {
        let mut list = Listpack::new();
        texts.iter().for_each(|text| assert!(list.push_back(text)));
        if let Some(set) = SortedSet::from_listpack(list, &BIG) {
            let model: Model = texts.chunks(2).map(|pair| {
                (pair[0].clone(), braid_base::number::parse_f64(&pair[1]).unwrap())
            }).collect();
            prop_assert_eq!(model.len() * 2, texts.len());
            compare(&set, 0, &model);
        }
    }
}

#[test]
fn grows_through_several_levels_and_back() {
    let mut random = fastrand::Rng::with_seed(7);
    for order in ["random", "up", "down", "equal"] {
        let (mut set, mut model) = (SortedSet::new(), Model::new());
        for number in 0..9000u32 {
            let score = match order {
                "up" => f64::from(number),
                "down" => -f64::from(number),
                "equal" => 1.0,
                _ => f64::from(random.u32(..3000)),
            };
            let member = random.u64(..).to_be_bytes();
            apply(&mut set, &mut model, &Step::Add(member.to_vec(), score, AddRule::default()), &LIMITS);
        }
        compare(&set, 0, &model);
        let members: Vec<Vec<u8>> = model.keys().cloned().collect();
        for member in &members {
            // New positions near and far.
            let delta = if random.bool() { 0.5 } else { f64::from(random.i32(-4000..4000)) };
            let rule = AddRule { increment: true, ..AddRule::default() };
            if random.u8(..4) > 0 {
                apply(&mut set, &mut model, &Step::Add(member.clone(), delta, rule), &LIMITS);
            } else {
                apply(&mut set, &mut model, &Step::Remove(member.clone()), &LIMITS);
            }
        }
        compare(&set, 0, &model);
        while set.len() > 100 {
            let (start, count) = (random.usize(..set.len()), random.usize(..200));
            apply(&mut set, &mut model, &Step::RemoveRanks(start, count), &LIMITS);
            check(&set);
        }
        apply(&mut set, &mut model, &Step::PopMin(3), &LIMITS);
        apply(&mut set, &mut model, &Step::PopMax(70), &LIMITS);
        compare(&set, 0, &model);
        apply(&mut set, &mut model, &Step::PopMax(1000), &LIMITS);
        assert!(set.is_empty() && model.is_empty());
        check(&set);
    }
}

#[test]
fn members_take_little_memory_in_any_order_and_number() {
    let bytes_each = |scores: &mut dyn Iterator<Item = u32>| {
        let mut set = SortedSet::new();
        scores.for_each(|score| {
            set.add(&u64::from(score).to_be_bytes(), f64::from(score), AddRule::default(), &LIMITS);
        });
        check(&set);
        set.memory_bytes() / set.len()
    };
    let number = if cfg!(miri) { 500 } else { 20_000 };
    let (up, down) = (bytes_each(&mut (0..number)), bytes_each(&mut (0..number).rev()));
    assert!(up <= 43 && down <= 43, "{up} {down}: members in order leave full leaves");
    let mut random = fastrand::Rng::with_seed(5);
    for number in if cfg!(miri) { 500..=500 } else { 20_000..=40_000 }.step_by(2500) {
        let each = bytes_each(&mut (0..number).map(|_| random.u32(..)));
        assert!(each <= 48, "{number}: {each}");
        let each = bytes_each(&mut (0..number).map(|at: u32| at.wrapping_mul(2_654_435_761)));
        assert!(each <= 48, "{number}: {each}, where leaves fill up together");
    }
}

#[test]
fn scan_returns_stable_members_while_the_set_is_resized() {
    for (seed, grow) in [(1u64, true), (2, false), (3, true), (4, false)] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut set = SortedSet::new();
        let stable: Vec<[u8; 8]> = (0..300u64).map(|number| (number << 32).to_le_bytes()).collect();
        let others: Vec<[u8; 8]> = (0..20_000u64).map(|number| (number << 32 | 1).to_le_bytes()).collect();
        for member in stable.iter().chain(if grow { &[] } else { &others[..] }) {
            set.add(member, 0.0, AddRule::default(), &BIG);
        }
        let mut seen = HashSet::new();
        let (mut cursor, mut next, mut calls) = (0, 0, 0);
        loop {
            cursor = set.view(0).scan(cursor, 20, |(member, _)| {
                seen.insert(member.to_vec());
            });
            calls += 1;
            assert!(calls < 20_000, "the walk does not end");
            if cursor == 0 {
                break;
            }
            for member in others.iter().skip(next).take(random.usize(..2000)) {
                if grow {
                    set.add(member, 0.0, AddRule::default(), &BIG);
                } else {
                    set.remove(member);
                }
                next += 1;
            }
        }
        assert!(calls > 5, "too few calls with changes between them");
        assert!(stable.iter().all(|member| seen.contains(&member[..])));
        check(&set);
        let Form::Big(big) = &set.form else { panic!("big") };
        assert!(if grow { big.segments() > 16 } else { big.segments() <= 12 }, "{}", big.segments());
    }
}

#[test]
fn forms_follow_the_limits() {
    let mut set = SortedSet::new();
    for number in 0..128 {
        set.add(format!("m{number}").as_bytes(), 1.5, AddRule::default(), &LIMITS);
    }
    assert_eq!(set.encoding(), "listpack");
    set.add(b"m1", 7.0, AddRule::default(), &LIMITS);
    assert_eq!(set.encoding(), "listpack");
    set.add(b"one more", 1.0, AddRule::default(), &LIMITS);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(b"one more");
    assert_eq!(set.encoding(), "skiplist", "shrinking alone changes nothing, as in Redis");
    set.pack_if_small(&LIMITS);
    assert_eq!((set.encoding(), set.len()), ("listpack", 128));
    set.add(&[b'x'; 65], 1.0, AddRule { only_existing: true, ..AddRule::default() }, &LIMITS);
    assert_eq!(set.encoding(), "listpack");
    set.set_expiry(b"absent", Some(5));
    assert_eq!(set.encoding(), "listpack");
    set.set_expiry(b"m1", Some(5));
    assert_eq!(set.encoding(), "skiplist");
}

#[test]
fn packed_bytes_match_redis() {
    let mut set = SortedSet::new();
    for (member, score) in [("b", 2.5), ("a", 3.0), ("c", -0.0), ("7", f64::INFINITY), ("d", 1e21)] {
        set.add(member.as_bytes(), score, AddRule::default(), &LIMITS);
    }
    let texts: Vec<Vec<u8>> = set.as_listpack().unwrap().iter().map(|element| element.to_vec()).collect();
    let expected =
        ["c", "0", "b", "2.5", "a", "3", "d", "1e+21", "7", "inf"].map(|text| text.as_bytes().to_vec());
    assert_eq!(texts, expected);
    assert_eq!(set.as_listpack().unwrap().get_index(1), Some(Element::Int(0)));
    set.add(b"12", -1.5, AddRule::default(), &LIMITS);
    let hex: String = set.as_listpack().unwrap().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    // From a DUMP reply of Redis 7.0.15 for the same members and scores.
    let dumped = "320000000c000c01842d312e35058163020001816202\
                  83322e350481610203018164028531652b323106070183696e6604ff";
    assert_eq!(hex, dumped);
}

#[test]
fn signed_zeros_are_one_score() {
    for limits in [LIMITS, BIG] {
        let mut set = SortedSet::new();
        set.add(b"m", 0.0, AddRule::default(), &limits);
        assert_eq!(set.add(b"m", -0.0, AddRule::default(), &limits), Added::Same(-0.0));
        assert_eq!(set.view(0).ranks_by_score(&range(-0.0, -0.0, false, false)), 0..1);
    }
    let mut set = SortedSet::new();
    set.add(b"m", -0.0, AddRule::default(), &BIG);
    assert!(set.view(0).score(b"m").unwrap().is_sign_negative(), "a big set keeps the sign");
}

#[test]
fn expiry_follows_the_member() {
    let mut set = SortedSet::new();
    set.add(b"m", 1.0, AddRule::default(), &LIMITS);
    let without = {
        set.set_expiry(b"m", Some(10));
        set.set_expiry(b"m", None);
        set.memory_bytes()
    };
    set.set_expiry(b"m", Some(10));
    assert!(set.memory_bytes() > without, "only members with an expiry take memory for it");
    assert_eq!(set.view(0).expiry(b"m"), Some(Some(10)));
    set.add(b"m", 1.0, AddRule { increment: true, ..AddRule::default() }, &LIMITS);
    set.add(b"m", 9.0, AddRule { only_new: true, ..AddRule::default() }, &LIMITS);
    set.add(b"m", 0.0, AddRule { only_greater: true, ..AddRule::default() }, &LIMITS);
    assert_eq!(set.view(0).expiry(b"m"), Some(Some(10)), "an increment or a refused change keeps the expiry");
    assert_eq!(set.clone().next_expiry(), Some(10));
    assert_eq!((set.view(10).score(b"m"), set.view(11).score(b"m")), (Some(2.0), None));
    set.add(b"m", 5.0, AddRule::default(), &LIMITS);
    assert_eq!((set.next_expiry(), set.view(99).expiry(b"m")), (None, Some(None)));
    set.set_expiry(b"m", Some(10));
    set.remove(b"m");
    assert_eq!(set.next_expiry(), None);
}

#[test]
fn random_members_are_fair() {
    let mut random = fastrand::Rng::with_seed(3);
    let members: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let set = SortedSet::from_pairs(members.iter().map(|m| (m.as_bytes(), 1.0)), &LIMITS);
    let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for _ in 0..20_000 {
        *counts.entry(set.view(0).random(&mut random).unwrap().0.to_vec()).or_default() += 1;
    }
    assert_eq!(counts.len(), 200);
    assert!(counts.values().all(|count| (50..160).contains(count)), "{counts:?}");
    for count in [0, 1, 150, 200, 500] {
        let chosen: HashSet<Vec<u8>> =
            set.view(0).random_distinct(count, &mut random).into_iter().map(|(m, _)| m.to_vec()).collect();
        assert_eq!(chosen.len(), count.min(200));
    }
}

#[test]
fn sets_combine_as_in_redis() {
    let set =
        |pairs: &[(&str, f64)]| SortedSet::from_pairs(pairs.iter().map(|(m, s)| (m.as_bytes(), *s)), &LIMITS);
    let one = set(&[("a", 1.0), ("b", 2.0), ("3", f64::INFINITY)]);
    let two = set(&[("b", 10.0), ("c", 20.0), ("3", f64::NEG_INFINITY), ("d", 0.0)]);
    let (one, two) = (one.view(0), two.view(0));
    let inputs = [Input { source: &one, weight: 2.0 }, Input { source: &two, weight: 1.0 }];
    let sorted = |mut combined: Vec<(Box<[u8]>, f64)>| {
        combined.sort_by(|a, b| a.0.cmp(&b.0));
        combined.into_iter().map(|(m, s)| (String::from_utf8(m.into()).unwrap(), s)).collect::<Vec<_>>()
    };
    let expect = |pairs: &[(&str, f64)]| pairs.iter().map(|(m, s)| (m.to_string(), *s)).collect::<Vec<_>>();
    assert_eq!(
        sorted(union(&inputs, Aggregate::Sum)),
        expect(&[("3", 0.0), ("a", 2.0), ("b", 14.0), ("c", 20.0), ("d", 0.0)])
    );
    assert_eq!(sorted(intersection(&inputs, Aggregate::Max)), expect(&[("3", f64::INFINITY), ("b", 10.0)]));
    assert_eq!(
        sorted(intersection(&inputs, Aggregate::Min)),
        expect(&[("3", f64::NEG_INFINITY), ("b", 4.0)])
    );
    assert_eq!(sorted(difference(&inputs)), expect(&[("a", 1.0)]));
    assert_eq!([0, 1, 2, 5].map(|limit| intersection_count(&inputs, limit)), [2, 1, 2, 2]);
    let zero = [Input { source: &one, weight: 0.0 }];
    assert!(union(&zero, Aggregate::Sum).iter().all(|(_, score)| *score == 0.0));
    // 0 times infinity: 0 in the smallest input; in others MIN and MAX ignore it, and it makes a
    // sum 0.
    let no_number = [Input { source: &one, weight: 1.0 }, Input { source: &two, weight: 0.0 }];
    let infinite_in = |inputs: &[Input<'_>], aggregate| {
        let score = |combined: Vec<(Box<[u8]>, f64)>| combined.iter().find(|(m, _)| &**m == b"3").unwrap().1;
        (score(union(inputs, aggregate)), score(intersection(inputs, aggregate)))
    };
    assert_eq!(infinite_in(&no_number, Aggregate::Sum), (f64::INFINITY, 0.0));
    assert_eq!(infinite_in(&no_number, Aggregate::Min), (0.0, f64::INFINITY));
    assert_eq!(infinite_in(&no_number, Aggregate::Max), (f64::INFINITY, f64::INFINITY));
    let smallest = [Input { source: &one, weight: 0.0 }, Input { source: &two, weight: 1.0 }];
    assert_eq!(infinite_in(&smallest, Aggregate::Max), (0.0, 0.0));
    assert!(union(&[], Aggregate::Sum).is_empty() && intersection(&[], Aggregate::Sum).is_empty());
}
