// SPDX-License-Identifier: BSD-3-Clause
//! An index against a model that looks at every document for every query; and with many threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use braid_base::relocation::Mover;
use braid_search::execute::{
    DocSet, Hit, NoVectors, Order, Plan, PlanOptions, Scorer, Search, SearchOptions, Status, Vectors,
};
use braid_search::index::{Analyser, DocRef, Document, Index, Value};
use braid_search::query::{Node, Options, Shape, TagMatch, VectorOptions, Wanted, parse};
use braid_search::schema::{Field, FieldId, Kind, Schema};
use braid_search::text::{Language, fold_case, tokens};
use braid_search::words::{SpellOptions, Synonyms, check};
use proptest::prelude::*;

type Doc = BTreeMap<FieldId, String>;

fn schema() -> Schema {
    let plain = |name: &str| Field::new(name, Kind::Text { weight: 1.0, stem: false });
    let fields = vec![
        plain("t"),
        plain("u"),
        Field::tag("g"),
        Field::numeric("n").sortable(),
        Field::new("v", Kind::Vector),
    ];
    Schema::new(fields).unwrap()
}

fn part_of(key: &str, parts: u16) -> u16 {
    key.bytes().fold(7u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(u16::from(byte))) % parts
}

fn put(index: &Index, analyser: &mut Analyser, key: &str, doc: &Doc) -> DocRef {
    let values: Vec<(FieldId, Value<'_>)> =
        doc.iter().map(|(field, text)| (*field, Value::Text(text.as_bytes()))).collect();
    let document = Document { key: key.as_bytes(), score: 1.0, language: Language::English, values: &values };
    index.put(part_of(key, index.parts()), &document, analyser).unwrap()
}

fn search_with(
    index: &Index,
    query: &str,
    options: SearchOptions,
    vectors: &dyn Vectors,
) -> (usize, Vec<Hit>) {
    let schema = index.schema();
    let parameters: [(&[u8], &[u8]); 1] = [(b"q", b"5")];
    let query = parse(query, &Options { parameters: &parameters, ..Options::new(&schema) }).unwrap();
    let synonyms = Synonyms::default();
    let plan = Plan::new(&query, index, &PlanOptions::new(&synonyms, vectors)).unwrap();
    let mut search = Search::new(plan, options);
    assert!(search.run(index, vectors, || true).unwrap());
    search.finish()
}

fn all(order: Order) -> SearchOptions {
    // Slices of few documents: a query goes on where it was.
    SearchOptions { order, results_max: usize::MAX, slice_docs: 3, ..SearchOptions::default() }
}

fn keys(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| String::from_utf8_lossy(&hit.key).into_owned()).collect()
}

/// The words of a document's texts, with their places and fields.
fn words(doc: &Doc) -> Vec<(String, u128)> {
    let of = |field: FieldId| {
        let text = doc.get(&field).map_or("", String::as_str);
        tokens(text).map(move |token| (token.word.into_owned(), 1 << field)).collect::<Vec<_>>()
    };
    [of(0), of(1)].concat()
}

/// Whether a document matches, and where its words are.
fn matches(doc: &Doc, node: &Node) -> Option<Vec<u32>> {
    let places = |fields: u128, is: &dyn Fn(&str) -> bool| {
        let words = words(doc);
        let any = words.iter().any(|(word, field)| is(word) && fields & field != 0);
        let places = words.iter().enumerate().filter(|(_, (word, _))| is(word)).map(|(at, _)| at as u32);
        any.then(|| places.collect::<Vec<u32>>())
    };
    let shape_is = |shape: &Shape, text: &str| match shape {
        Shape::Prefix(prefix) => text.starts_with(prefix.as_str()),
        Shape::Infix(infix) => text.contains(infix.as_str()),
        _ => panic!("not generated"),
    };
    let tags: BTreeSet<String> = doc.get(&2).map_or_else(BTreeSet::new, |text| {
        text.split(',').map(|tag| fold_case(tag.trim()).into_owned()).filter(|tag| !tag.is_empty()).collect()
    });
    let found = |is: bool| is.then(Vec::new);
    match &node.wanted {
        Wanted::Nothing => None,
        Wanted::Everything => Some(vec![]),
        Wanted::Word { word, fields, .. } => places(*fields, &|one| one == word),
        Wanted::Words { shape, fields } => places(*fields, &|one| shape_is(shape, one)),
        Wanted::Any(children) => {
            let all: Vec<Vec<u32>> = children.iter().filter_map(|child| matches(doc, child)).collect();
            (!all.is_empty()).then(|| all.concat())
        }
        Wanted::Not(child) => found(matches(doc, child).is_none()),
        Wanted::Optional(_) => Some(vec![]),
        Wanted::Tags { tags: wanted, .. } => found(wanted.iter().any(|one| match one {
            TagMatch::Exactly(tag) => tags.contains(tag),
            TagMatch::Like(shape) => tags.iter().any(|tag| shape_is(shape, tag)),
        })),
        Wanted::Numbers { range, .. } => {
            found(doc.get(&3).is_some_and(|text| range.contains(text.parse().unwrap())))
        }
        Wanted::All { children, slop, in_order } => {
            let all: Option<Vec<Vec<u32>>> = children.iter().map(|child| matches(doc, child)).collect();
            let all = all?;
            // Phrases only.
            if slop.is_some() || *in_order {
                let starts = all[0].iter().any(|start| {
                    all.iter().enumerate().all(|(at, places)| places.contains(&(start + at as u32)))
                });
                return starts.then(|| all.concat());
            }
            Some(all.concat())
        }
        other => panic!("not generated: {other:?}"),
    }
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop::sample::select(vec!["ant", "Bee", "bear", "cat", "car", "x1"]), 0..7)
        .prop_map(|words| words.join(" "))
}

fn document() -> impl Strategy<Value = Doc> {
    let tags = prop::sample::select(vec!["red", "Green, red", "blue", ", ", "dark blue,red"]);
    (text(), proptest::option::of(text()), proptest::option::of(tags), proptest::option::of(0i32..6))
        .prop_map(|(t, u, g, n)| {
            let mut doc = Doc::from([(0, t)]);
            doc.extend(u.map(|u| (1, u)));
            doc.extend(g.map(|g| (2, g.to_owned())));
            doc.extend(n.map(|n| (3, n.to_string())));
            doc
        })
}

fn query() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "ant",
        "bee",
        "cat",
        "@t:bear",
        "@u:car",
        "be*",
        "*ar*",
        "\"ant bee\"",
        "\"cat ant x1\"",
        "@g:{red}",
        "@g:{dark blue|green}",
        "@g:{bl*}",
        "@n:[2 4]",
        "@n:[(1 +inf]",
        "@n==3",
        "x1",
        "nosuch",
        "@g:{nosuch}",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} {b} {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}|{b})")),
            inner.clone().prop_map(|a| format!("(-{a})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a} ~{b})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_looking_at_all_documents_finds(
        parts in 1u16..5,
        changes in proptest::collection::vec((0u8..25, proptest::option::weighted(0.8, document())), 0..80),
        queries in proptest::collection::vec(query(), 1..12),
    ) {
        let index = Index::new(schema(), parts);
        let mut analyser = Analyser::default();
        let mut model: BTreeMap<String, Doc> = BTreeMap::new();
        // The keys in the order in which they were put last.
        let mut order: Vec<String> = Vec::new();
        for (key, change) in changes {
            if key % 3 == 0 {
                move_all(&index, 1 << 40);
            }
            let key = format!("key{key}");
            order.retain(|one| *one != key);
            match change {
                Some(doc) => {
                    put(&index, &mut analyser, &key, &doc);
                    model.insert(key.clone(), doc);
                    order.push(key);
                }
                None => {
                    let removed = index.remove(part_of(&key, parts), key.as_bytes());
                    prop_assert_eq!(removed.is_some(), model.remove(&key).is_some());
                }
            }
        }
        prop_assert_eq!(index.totals().docs as usize, model.len());
        let len: usize = model.values().map(|doc| words(doc).len()).sum();
        prop_assert_eq!(index.totals().len as usize, len);
        let schema = index.schema();
        for text in queries {
            let root = parse(&text, &Options::new(&schema)).unwrap().root;
            let expected: Vec<String> = order.iter().filter(|key| matches(&model[*key], &root).is_some()).cloned().collect();
            let (total, hits) = search_with(&index, &text, all(Order::Sequence), &NoVectors);
            prop_assert_eq!(total, expected.len());
            prop_assert_eq!(keys(&hits), expected, "{}", text);
            let by_score = search_with(&index, &text, all(Order::Score), &NoVectors).1;
            let sorted = by_score.is_sorted_by(|one, other| {
                one.score > other.score || one.score == other.score && one.sequence < other.sequence
            });
            prop_assert!(sorted, "by score");
            let few = SearchOptions { results_max: 3, slice_docs: 1000, ..SearchOptions::default() };
            let best = search_with(&index, &text, few, &NoVectors);
            prop_assert_eq!(best.0, total);
            prop_assert_eq!(keys(&best.1), keys(&by_score[..total.min(3)]));
        }
        // Nothing is left of documents that are removed.
        for key in order {
            index.remove(part_of(&key, parts), key.as_bytes());
        }
        prop_assert_eq!(index.dictionary().len(), 0);
        prop_assert_eq!((index.totals().docs, index.totals().len), (0, 0));
        for part in 0..parts {
            prop_assert_eq!(index.part(part).records(), 0);
        }
    }
}

/// Moves all blocks, in steps of so many nanoseconds; returns how many there were.
fn move_all(index: &Index, nanos: u64) -> u64 {
    let (mut from, mut moved) = (Some(0), 0);
    while let Some(at) = from {
        let mut mover = Mover::new(nanos, true);
        from = index.relocate(at, &mut mover);
        moved += mover.hits;
    }
    moved
}

/// Words, tags, numbers and sortable values with many blocks; changes between the steps of a move.
#[test]
fn blocks_move_while_documents_come_and_go() {
    let mut fields = schema().fields().to_vec();
    fields.push(Field::tag("s").sortable());
    let index = Index::new(Schema::new(fields).unwrap(), 2);
    let mut analyser = Analyser::default();
    let doc = |number: usize| {
        let text = format!("common word{} all the same", number % 7);
        Doc::from([
            (0, text),
            (2, format!("tag{}", number % 3)),
            (3, number.to_string()),
            (5, format!("s{number}")),
        ])
    };
    let key = |number: usize| format!("key{number}");
    for number in 0..3000 {
        put(&index, &mut analyser, &key(number), &doc(number));
    }
    let queries = ["common", "word3 @g:{tag1}", "@n:[100 200] word2", "@s:{s77}", "wor*"];
    let found = || queries.map(|query| search_with(&index, query, all(Order::Sequence), &NoVectors));
    let before = format!("{:?}", found());
    assert!(move_all(&index, 1 << 40) > 3000, "each document has a block of its own");
    assert!(move_all(&index, 0) > 3000, "in the shortest steps");
    assert_eq!(format!("{:?}", found()), before);
    let mut from = Some(0);
    let mut removed = 0;
    while let Some(at) = from {
        from = index.relocate(at, &mut Mover::new(0, true));
        if removed < 2990 && removed % 2 == 0 {
            index.remove(part_of(&key(removed), 2), key(removed).as_bytes());
        }
        removed += 1;
    }
    assert!(removed > 2990, "{removed} steps");
    let (total, hits) = search_with(&index, "common", all(Order::Sequence), &NoVectors);
    assert_eq!((total, hits.len()), (1505, 1505));
}

/// What a query reads does not move, and is not waited for.
#[test]
fn blocks_that_are_read_stay() {
    let index = Index::new(schema(), 1);
    let mut analyser = Analyser::default();
    put(&index, &mut analyser, "key", &Doc::from([(0, "some words".into())]));
    let reader = index.part(0);
    let dictionary = index.dictionary();
    assert_eq!(move_all(&index, 1 << 40), 0);
    drop((reader, dictionary));
    assert!(move_all(&index, 1 << 40) > 0);
}

/// Distances between numbers, which stand for vectors.
#[derive(Default)]
struct Flat(Vec<(DocRef, f64)>);

impl Vectors for Flat {
    fn nearest(
        &self,
        _: FieldId,
        vector: &[u8],
        count: usize,
        _: &VectorOptions,
        allowed: Option<&DocSet>,
    ) -> Result<Vec<(DocRef, f64)>, String> {
        let to: f64 = std::str::from_utf8(vector).unwrap().parse().map_err(|_| "no vector".to_owned())?;
        let mut found: Vec<(DocRef, f64)> = self.0.iter().map(|(doc, at)| (*doc, (at - to).abs())).collect();
        found.retain(|(doc, _)| allowed.is_none_or(|allowed| allowed.contains(*doc)));
        found.sort_by(|one, other| one.1.total_cmp(&other.1));
        found.truncate(count);
        Ok(found)
    }

    fn within(
        &self,
        _: FieldId,
        vector: &[u8],
        radius: f64,
        _: &VectorOptions,
    ) -> Result<Vec<(DocRef, f64)>, String> {
        let all = self.nearest(0, vector, usize::MAX, &VectorOptions::default(), None)?;
        Ok(all.into_iter().filter(|(_, distance)| *distance <= radius).collect())
    }
}

#[test]
fn nearest_vectors_are_found_among_what_the_query_allows() {
    let index = Index::new(schema(), 3);
    let mut analyser = Analyser::default();
    let mut vectors = Flat::default();
    for number in 0..20 {
        let doc = Doc::from([
            (0, if number % 2 == 0 { "even" } else { "odd" }.to_owned()),
            (3, number.to_string()),
        ]);
        let doc = put(&index, &mut analyser, &format!("k{number}"), &doc);
        vectors.0.push((doc, f64::from(number)));
    }
    let found = |query: &str, order: Order| {
        let options = SearchOptions { order, slice_docs: 2, ..SearchOptions::default() };
        let (total, hits) = search_with(&index, query, options, &vectors);
        assert_eq!(total, hits.len());
        let distances =
            hits.iter().filter_map(|hit| hit.distances.first().copied().flatten()).collect::<Vec<f64>>();
        (keys(&hits).join(" "), distances)
    };
    let by_distance = |name: &str, descending| Order::Distance { name: name.to_owned(), descending };
    // In the order of the documents.
    assert_eq!(found("*=>[KNN 3 @v $q]", Order::Score), ("k4 k5 k6".to_owned(), vec![1.0, 0.0, 1.0]));
    assert_eq!(
        found("even=>[KNN 3 @v $q AS d]", by_distance("d", false)),
        ("k4 k6 k2".to_owned(), vec![1.0, 1.0, 3.0])
    );
    assert_eq!(found("even @n:[10 20]=>[KNN 2 @v $q]", Order::Score).0, "k10 k12");
    assert_eq!(found("nosuch=>[KNN 2 @v $q]", Order::Score).0, "");
    assert_eq!(found("*=>[KNN 0 @v $q]", Order::Score).0, "");
    let range = "@v:[VECTOR_RANGE 2 $q]=>{$yield_distance_as: d} odd";
    assert_eq!(found(range, by_distance("d", true)), ("k7 k3 k5".to_owned(), vec![2.0, 2.0, 0.0]));
    assert_eq!(found("-@v:[VECTOR_RANGE 2 $q] even", Order::Score).0, "k0 k2 k8 k10 k12 k14 k16 k18");

    // A vector of a document that is gone finds nothing, even if another has its number.
    assert!(index.remove(part_of("k5", 3), b"k5").is_some());
    put(&index, &mut analyser, "k5b", &Doc::from([(0, "other".to_owned())]));
    let hits = search_with(&index, "*=>[KNN 3 @v $q]", SearchOptions::default(), &vectors).1;
    assert_eq!(keys(&hits), ["k4", "k6"]);
}

#[test]
fn results_are_sorted_by_a_field_and_restricted_to_keys() {
    let index = Index::new(schema(), 2);
    let mut analyser = Analyser::default();
    let numbers = [("a", "3"), ("b", "1"), ("c", ""), ("d", "3")];
    for (key, number) in numbers {
        let mut doc = Doc::from([(0, "word".to_owned())]);
        if !number.is_empty() {
            doc.insert(3, number.to_owned());
        }
        put(&index, &mut analyser, key, &doc);
    }
    let by = |descending| all(Order::Field { field: 3, descending });
    let sorted = |descending| keys(&search_with(&index, "word", by(descending), &NoVectors).1).concat();
    assert_eq!((sorted(false), sorted(true)), ("badc".to_owned(), "dabc".to_owned()));

    let schema = index.schema();
    let query = parse("word", &Options::new(&schema)).unwrap();
    let synonyms = Synonyms::default();
    let mut plan = Plan::new(&query, &index, &PlanOptions::new(&synonyms, &NoVectors)).unwrap();
    let wanted: Vec<DocRef> = ["d", "b", "nosuch"]
        .iter()
        .filter_map(|key| {
            let number = part_of(key, 2);
            let part = index.part(number);
            let doc = part.find(key.as_bytes())?;
            Some(DocRef { part: number, doc, generation: part.facts(doc).generation })
        })
        .collect();
    plan.among(&wanted);
    let mut search = Search::new(plan, all(Order::Sequence));
    search.run(&index, &NoVectors, || true).unwrap();
    assert_eq!(keys(&search.finish().1).concat(), "bd");
}

#[test]
fn words_stand_for_their_stems_and_synonyms_and_misspellings_are_found() {
    let index = Index::new(Schema::new(vec![Field::text("t")]).unwrap(), 4);
    let mut analyser = Analyser::default();
    for (key, text) in
        [("a", "running home"), ("b", "who runs"), ("c", "runner"), ("d", "a boy"), ("e", "the children")]
    {
        put(&index, &mut analyser, key, &Doc::from([(0, text.to_owned())]));
    }
    let schema = index.schema();
    let mut synonyms = Synonyms::default();
    synonyms.add("g", ["boy", "children"]);
    let found = |query: &str, verbatim| {
        let query = parse(query, &Options { verbatim, ..Options::new(&schema) }).unwrap();
        let options = PlanOptions { scorer: Scorer::TfIdf, ..PlanOptions::new(&synonyms, &NoVectors) };
        let plan = Plan::new(&query, &index, &options).unwrap();
        let matched = plan.matched();
        let mut search = Search::new(plan, all(Order::Sequence));
        search.run(&index, &NoVectors, || true).unwrap();
        (keys(&search.finish().1).concat(), matched)
    };
    assert_eq!(found("run", false).0, "ab");
    assert_eq!(found("run", true).0, "");
    assert_eq!(found("\"running\"", false).0, "a");
    assert_eq!(found("boy", false).0, "de");
    let matched = found("runs -home", false).1;
    assert!(
        matched.contains("running")
            && matched.contains("runs")
            && !matched.contains("runner")
            && !matched.contains("home")
    );

    let query = parse("rums hme boy", &Options::new(&schema)).unwrap();
    let options = SpellOptions { distance: 1, include: vec![], exclude: vec![] };
    let terms = check(&query, &index, &options).unwrap();
    let shown: Vec<(&str, Vec<&str>)> = terms
        .iter()
        .map(|term| (term.word.as_str(), term.suggestions.iter().map(|(_, word)| word.as_str()).collect()))
        .collect();
    assert_eq!(shown, [("rums", vec!["runs"]), ("hme", vec!["home"])]);
    assert!(check(&query, &index, &SpellOptions { distance: 5, ..options }).is_err());
}

/// Many threads change documents while queries run; then the index is what the changes make.
#[test]
fn changes_and_queries_do_not_disturb_each_other() {
    const KEYS: usize = 60;
    let index = Index::new(schema(), 4);
    let done = AtomicBool::new(false);
    let texts = ["ant bee", "bee cat car", "ant", "x1 bear bear"];
    let last: Vec<BTreeMap<String, Doc>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    let mut analyser = Analyser::default();
                    let mut random = thread * 77 + 1;
                    let mut next = |below: usize| {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (random >> 33) as usize % below
                    };
                    let mut mine: BTreeMap<String, Doc> = BTreeMap::new();
                    for step in 0..3000 {
                        // A key is changed by one thread at a time: here by the same always.
                        let key = format!("{thread}-{}", next(KEYS));
                        if next(4) == 0 {
                            index.remove(part_of(&key, 4), key.as_bytes());
                            mine.remove(&key);
                            continue;
                        }
                        let text = format!("{} word{}", texts[next(texts.len())], step % 17);
                        let doc =
                            Doc::from([(0, text), (2, format!("tag{}", next(5))), (3, next(50).to_string())]);
                        put(index, &mut analyser, &key, &doc);
                        mine.insert(key, doc);
                    }
                    mine
                })
            })
            .collect();
        for query in ["ant|bee", "bear @n:[10 30]", "wor*", "@g:{tag1} -cat"] {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let (total, hits) = search_with(index, query, all(Order::Score), &NoVectors);
                    assert_eq!(total, hits.len());
                    let found: BTreeSet<String> = keys(&hits).into_iter().collect();
                    assert!(found.len() <= 3 * KEYS);
                }
            });
        }
        let last = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        last
    });
    let model: BTreeMap<String, Doc> = last.into_iter().flatten().collect();
    assert_eq!(index.totals().docs as usize, model.len());
    let schema = index.schema();
    for text in ["ant|bee", "bear @n:[10 30]", "wor*", "@g:{tag1} -cat", "word3 ~ant"] {
        let root = parse(text, &Options::new(&schema)).unwrap().root;
        let expected: BTreeSet<String> = model
            .iter()
            .filter(|(_, doc)| matches(doc, &root).is_some())
            .map(|(key, _)| key.clone())
            .collect();
        let found: BTreeSet<String> =
            keys(&search_with(&index, text, all(Order::Score), &NoVectors).1).into_iter().collect();
        assert_eq!(found, expected, "{text}");
    }
    for key in model.keys() {
        index.remove(part_of(key, 4), key.as_bytes());
    }
    assert_eq!(index.dictionary().len(), 0);
}

#[test]
fn a_slice_is_one_step() {
    let index = Index::new(schema(), 2);
    let mut analyser = Analyser::default();
    for number in 0..10 {
        put(&index, &mut analyser, &format!("k{number}"), &Doc::from([(0, "ant".to_owned())]));
    }
    let schema = index.schema();
    let query = parse("ant", &Options::new(&schema)).unwrap();
    let synonyms = Synonyms::default();
    let plan = Plan::new(&query, &index, &PlanOptions::new(&synonyms, &NoVectors)).unwrap();
    let mut search = Search::new(plan, all(Order::Score));
    // A time limit may end it after any of them.
    assert!(!search.run(&index, &NoVectors, || false).unwrap());
    let mut slices = 1;
    while search.slice(&index, &NoVectors).unwrap() == Status::Running {
        slices += 1;
    }
    assert!((4..=6).contains(&slices), "{slices}");
    assert_eq!(search.finish().0, 10);
}
