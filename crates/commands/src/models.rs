// SPDX-License-Identifier: BSD-3-Clause
//! Each collection type against a simple model, through its commands: thresholds are so small that
//! every encoding is used.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use crate::testing::Tester;

const SMALL: &str = "hash-max-listpack-entries 4\nhash-max-listpack-value 8\nset-max-intset-entries 3\n\
                     set-max-listpack-entries 4\nset-max-listpack-value 8\nzset-max-listpack-entries 4\n\
                     zset-max-listpack-value 8\nlist-max-listpack-size 3\nlist-compress-depth 1\n\
                     stream-node-max-entries 3";

/// Short names, long ones and numbers.
fn name() -> impl Strategy<Value = String> {
    (0u32..12).prop_map(|n| match n {
        0..=3 => n.to_string(),
        4..=8 => format!("m{n}"),
        _ => format!("long-member-name-{n}"),
    })
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array<'a>(texts: impl ExactSizeIterator<Item = &'a String>) -> String {
    format!("*{}\r\n{}", texts.len(), texts.map(|text| bulk(text)).collect::<String>())
}

/// The strings of a reply, sorted.
fn sorted(reply: &str) -> Vec<String> {
    let mut texts: Vec<String> = reply.split("\r\n").skip(2).step_by(2).map(Into::into).collect();
    texts.sort();
    texts
}

fn number(value: impl Into<i128>) -> String {
    format!(":{}\r\n", value.into())
}

fn check(tester: &mut Tester, line: &str, expected: &str) -> Result<(), TestCaseError> {
    let found = tester.run(line);
    prop_assert_eq!(found, expected, "{}", line);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lists(steps in proptest::collection::vec((0u8..10, name(), -6i64..6), 1..80)) {
        let (mut tester, mut model) = (Tester::with(SMALL), VecDeque::<String>::new());
        for (what, text, index) in steps {
            let len = model.len() as i64;
            let place = if index < 0 { index + len } else { index };
            let place = usize::try_from(place).ok().filter(|&place| place < model.len());
            match what {
                0..=2 => {
                    model.push_back(text.clone());
                    check(&mut tester, &format!("RPUSH k {text}"), &number(len + 1))?;
                }
                3 => {
                    model.push_front(text.clone());
                    check(&mut tester, &format!("LPUSH k {text}"), &number(len + 1))?;
                }
                4 => {
                    let popped = model.pop_front().map_or("$-1\r\n".into(), |text| bulk(&text));
                    check(&mut tester, "LPOP k", &popped)?;
                }
                5 => {
                    let popped = model.pop_back().map_or("$-1\r\n".into(), |text| bulk(&text));
                    check(&mut tester, "RPOP k", &popped)?;
                }
                6 => {
                    let reply = match place {
                        Some(place) => {
                            model[place] = text.clone();
                            "+OK\r\n"
                        }
                        None if model.is_empty() => "-ERR no such key\r\n",
                        None => "-ERR index out of range\r\n",
                    };
                    check(&mut tester, &format!("LSET k {index} {text}"), reply)?;
                }
                7 => {
                    let before = model.len();
                    model.retain(|other| *other != text);
                    check(&mut tester, &format!("LREM k 0 {text}"), &number((before - model.len()) as i64))?;
                }
                8 => {
                    let reply = match model.iter().position(|other| *other == text) {
                        Some(at) => {
                            model.insert(at, "new".into());
                            len + 1
                        }
                        None if model.is_empty() => 0,
                        None => -1,
                    };
                    check(&mut tester, &format!("LINSERT k BEFORE {text} new"), &number(reply))?;
                }
                _ => {
                    let found = place.map_or("$-1\r\n".into(), |place| bulk(&model[place]));
                    check(&mut tester, &format!("LINDEX k {index}"), &found)?;
                }
            }
            check(&mut tester, "LRANGE k 0 -1", &array(model.iter()))?;
            check(&mut tester, "EXISTS k", &number(i64::from(!model.is_empty())))?;
        }
    }

    #[test]
    fn hashes(steps in proptest::collection::vec((0u8..6, name(), name()), 1..80)) {
        let (mut tester, mut model) = (Tester::with(SMALL), BTreeMap::<String, String>::new());
        for (what, field, value) in steps {
            match what {
                0..=2 => {
                    let is_new = model.insert(field.clone(), value.clone()).is_none();
                    check(&mut tester, &format!("HSET k {field} {value}"), &number(i64::from(is_new)))?;
                }
                3 | 4 => {
                    let there = model.remove(&field).is_some();
                    check(&mut tester, &format!("HDEL k {field}"), &number(i64::from(there)))?;
                }
                _ => {
                    let found = model.get(&field).map_or("$-1\r\n".into(), |value| bulk(value));
                    check(&mut tester, &format!("HGET k {field}"), &found)?;
                }
            }
            check(&mut tester, "HLEN k", &number(model.len() as i64))?;
            let mut values: Vec<String> = model.values().cloned().collect();
            values.sort();
            prop_assert_eq!(sorted(&tester.run("HVALS k")), values);
            let fields: Vec<String> = model.keys().cloned().collect();
            prop_assert_eq!(sorted(&tester.run("HKEYS k")), fields);
        }
    }

    #[test]
    fn sets(steps in proptest::collection::vec((0u8..6, 0usize..2, name()), 1..80)) {
        let mut tester = Tester::with(SMALL);
        let mut models = [BTreeSet::<String>::new(), BTreeSet::new()];
        for (what, at, member) in steps {
            match what {
                0..=2 => {
                    let is_new = models[at].insert(member.clone());
                    check(&mut tester, &format!("SADD k{at} {member}"), &number(i64::from(is_new)))?;
                }
                3 => {
                    let there = models[at].remove(&member);
                    check(&mut tester, &format!("SREM k{at} {member}"), &number(i64::from(there)))?;
                }
                4 => {
                    let there = models[at].remove(&member);
                    if there {
                        models[1 - at].insert(member.clone());
                    }
                    check(&mut tester, &format!("SMOVE k{at} k{} {member}", 1 - at), &number(i64::from(there)))?;
                }
                _ => {
                    let there = models[at].contains(&member);
                    check(&mut tester, &format!("SISMEMBER k{at} {member}"), &number(i64::from(there)))?;
                }
            }
            let [one, other] = &models;
            for (line, expected) in [
                ("SMEMBERS k0", one.clone()),
                ("SUNION k0 k1", one | other),
                ("SINTER k0 k1", one & other),
                ("SDIFF k0 k1", one - other),
            ] {
                let found = sorted(&tester.run(line));
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{}", line);
            }
        }
    }

    #[test]
    fn sorted_sets(steps in proptest::collection::vec((0u8..7, name(), -3i32..4), 1..80)) {
        let (mut tester, mut model) = (Tester::with(SMALL), BTreeMap::<String, i32>::new());
        for (what, member, score) in steps {
            match what {
                0..=2 => {
                    let is_new = model.insert(member.clone(), score).is_none();
                    check(&mut tester, &format!("ZADD k {score} {member}"), &number(i64::from(is_new)))?;
                }
                3 => {
                    let there = model.remove(&member).is_some();
                    check(&mut tester, &format!("ZREM k {member}"), &number(i64::from(there)))?;
                }
                4 => {
                    let sum = model.entry(member.clone()).or_default();
                    *sum += score;
                    check(&mut tester, &format!("ZINCRBY k {score} {member}"), &bulk(&sum.to_string()))?;
                }
                5 => {
                    let before = model.len();
                    model.retain(|_, other| *other != score);
                    let line = format!("ZREMRANGEBYSCORE k {score} {score}");
                    check(&mut tester, &line, &number((before - model.len()) as i64))?;
                }
                _ => {
                    let order = |member: &String| (model[member], member.clone());
                    let rank = model.keys().filter(|other| model.contains_key(&member) && order(other) < order(&member));
                    let reply = if model.contains_key(&member) { number(rank.count() as i64) } else { "$-1\r\n".into() };
                    check(&mut tester, &format!("ZRANK k {member}"), &reply)?;
                }
            }
            let mut expected: Vec<(i32, &String)> = model.iter().map(|(member, score)| (*score, member)).collect();
            expected.sort();
            let members: Vec<&String> = expected.iter().map(|(_, member)| *member).collect();
            check(&mut tester, "ZRANGE k 0 -1", &array(members.iter().copied()))?;
            check(&mut tester, "ZREVRANGE k 0 -1", &array(members.iter().rev().copied()))?;
            let most: Vec<&String> = expected.iter().filter(|(score, _)| *score >= 0).map(|(_, member)| *member).collect();
            check(&mut tester, "ZRANGEBYSCORE k 0 +inf", &array(most.iter().copied()))?;
            check(&mut tester, "ZCOUNT k (0 +inf", &number(model.values().filter(|score| **score > 0).count() as i64))?;
        }
    }

    #[test]
    fn streams(steps in proptest::collection::vec((0u8..6, 0usize..12), 1..60)) {
        let (mut tester, mut model, mut last) = (Tester::with(SMALL), Vec::<u32>::new(), 0u32);
        for (what, index) in steps {
            match what {
                0..=2 => {
                    last += 1;
                    model.push(last);
                    check(&mut tester, &format!("XADD k {last}-0 f {index}"), &bulk(&format!("{last}-0")))?;
                }
                3 | 4 => {
                    let Some(&id) = model.get(index % model.len().max(1)) else { continue };
                    model.retain(|other| *other != id);
                    check(&mut tester, &format!("XDEL k {id}-0 {id}-0"), ":1\r\n")?;
                }
                _ => {
                    let cut = model.len().saturating_sub(index);
                    model.drain(..cut);
                    check(&mut tester, &format!("XTRIM k MAXLEN {index}"), &number(cut as i64))?;
                }
            }
            check(&mut tester, "XLEN k", &number(model.len() as i64))?;
            for (line, reversed) in [("XRANGE k - +", false), ("XREVRANGE k + -", true)] {
                let reply = tester.run(line);
                let mut ids: Vec<u32> =
                    reply.split("\r\n").filter_map(|text| text.strip_suffix("-0")?.parse().ok()).collect();
                if reversed {
                    ids.reverse();
                }
                prop_assert_eq!(&ids, &model);
            }
        }
    }
}
