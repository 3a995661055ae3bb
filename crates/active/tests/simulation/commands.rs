// SPDX-License-Identifier: BSD-3-Clause
//! Random commands of all types. The result of each is compared with that of a standalone server:
//! to its own client a region is an ordinary server.

use std::collections::BTreeMap;

use braid_active::amount::Amount;
use braid_active::cell::Time;
use braid_active::change::Kind;
use braid_active::document::{OBJECT, push_member};
use braid_active::hidden::LIBRARIES;
use braid_active::position::Side;
use braid_active::stream::{GroupView, Id};
use braid_active::vector_set::{self, Element, Quantisation, Shape};
use braid_active::view::View;
use braid_active::{Bytes, Name, Transaction};
use fastrand::Rng;

/// A client that runs one command.
pub struct Client<'a, 'b> {
    pub transaction: &'a mut Transaction<'b>,
    pub random: &'a mut Rng,
    pub now_ms: u64,
    /// Makes values unique.
    pub number: u64,
    pub names: &'a [Name],
    /// The client sees the complete state.
    pub knows_all: bool,
}

fn bytes(text: impl ToString) -> Bytes {
    text.to_string().into_bytes().into()
}

fn written(amount: Amount) -> Bytes {
    let mut out = Vec::new();
    amount.write(&mut out);
    out.into()
}

/// A view without times.
fn timeless(view: Option<View>) -> Option<View> {
    Some(match view? {
        View::Set(members) => View::Set(members.into_iter().map(|(member, _)| (member, None)).collect()),
        View::Hash(fields) => {
            View::Hash(fields.into_iter().map(|(field, value, _)| (field, value, None)).collect())
        }
        View::SortedSet(members) => {
            View::SortedSet(members.into_iter().map(|(member, score, _)| (member, score, None)).collect())
        }
        other => other,
    })
}

/// Key names. The first letter is the type; `?` stands for any type.
pub const NAMES: [&str; 12] = ["s", "s2", "h", "a", "z", "l", "x", "p", "j", "j2", "v", "?"];

impl Client<'_, '_> {
    /// Runs a random command. Returns an error if the result differs from a standalone server's.
    pub fn run(&mut self) -> Result<(), String> {
        let name = self.names[self.random.usize(0..self.names.len())].clone();
        let database = u32::from(self.random.u8(0..16) == 0);
        let before = timeless(self.transaction.view(database, &name));
        // The number was evicted; its keyspace gets the true sum later.
        self.knows_all = !self.transaction.keeps_rest(database, &name);
        if self.random.u8(0..100) == 0 {
            self.transaction.flush(Some(database));
            return self.compare("FLUSHDB", database, &name, None);
        }
        if self.random.u8(0..40) == 0 {
            return self.library();
        }
        if self.random.u8(0..14) == 0 && before.is_some() {
            return self.any(database, &name, before);
        }
        let letter = match name[0] {
            b'?' => *self.random.choice(b"shazlxpjv").expect("letters"),
            letter => letter,
        };
        match letter {
            b's' => self.string(database, &name, before),
            b'h' => self.hash(database, &name, before),
            b'a' => self.set(database, &name, before),
            b'z' => self.sorted_set(database, &name, before),
            b'l' => self.list(database, &name, before),
            b'x' => self.stream(database, &name, before),
            b'j' => self.document(database, &name, before),
            b'v' => self.vector_set(database, &name, before),
            _ => self.count(database, &name, before),
        }
    }

    fn compare(&self, what: &str, database: u32, name: &Name, expected: Option<View>) -> Result<(), String> {
        let shown = timeless(self.transaction.view(database, name));
        if shown == expected || !self.knows_all {
            return Ok(());
        }
        Err(format!(
            "after {what} of {} a client sees {shown:?} instead of {expected:?}",
            name.escape_ascii()
        ))
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.usize(0..count)
    }

    fn time(&mut self) -> u64 {
        self.now_ms + self.random.u64(1..20_000)
    }

    /// FUNCTION LOAD, DELETE, FLUSH, and FLUSHALL, which leaves libraries.
    fn library(&mut self) -> Result<(), String> {
        let name: Name = ["f", "g"][self.pick(2)].as_bytes().into();
        let before = self.transaction.view(LIBRARIES, &name);
        match self.pick(8) {
            0..=3 => {
                let code = bytes(format!("v{}", self.number));
                self.transaction.set(LIBRARIES, &name, code.clone(), None);
                self.compare("FUNCTION LOAD", LIBRARIES, &name, Some(View::String(code)))
            }
            4 => {
                self.transaction.flush(Some(LIBRARIES));
                self.compare("FUNCTION FLUSH", LIBRARIES, &name, None)
            }
            5 => {
                self.transaction.flush(None);
                self.compare("FLUSHALL", LIBRARIES, &name, before)
            }
            _ => {
                self.transaction.remove(LIBRARIES, &name);
                self.compare("FUNCTION DELETE", LIBRARIES, &name, None)
            }
        }
    }

    /// DEL, EXPIRE, PERSIST.
    fn any(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        match self.pick(4) {
            0 | 1 => {
                self.transaction.remove(database, name);
                self.compare("DEL", database, name, None)
            }
            2 => {
                let time = self.time();
                self.transaction.live(database, name, Time::At(time));
                self.compare("EXPIRE", database, name, before)
            }
            _ => {
                self.transaction.live(database, name, Time::Never);
                self.compare("PERSIST", database, name, before)
            }
        }
    }

    fn string(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let text = match &before {
            Some(View::String(text)) => Some(text.clone()),
            None => None,
            Some(_) if self.random.bool() => None,
            Some(_) => return Ok(()),
        };
        match self.pick(4) {
            0 | 1 if before.is_none() || text.is_some() => {
                let Some(number) = text.as_ref().map_or(Some(Amount::ZERO), |text| Amount::parse(text))
                else {
                    return Ok(());
                };
                let by = Amount::from_steps(
                    i128::from(self.random.i64(-30..30)) * 10i128.pow(16 + u32::from(self.random.bool())),
                );
                if !self.transaction.increment(database, name, by) {
                    return Err("an increment was refused".into());
                }
                self.compare("INCRBYFLOAT", database, name, Some(View::String(written(number.plus(by)))))
            }
            2 => {
                let time = (self.pick(4) == 0).then(|| self.time());
                let value = bytes(self.number % 100);
                self.transaction.set(database, name, value.clone(), time);
                self.compare("SET", database, name, Some(View::String(value)))
            }
            _ => {
                // Some are too long for the blocks of short strings.
                let len = if self.pick(8) == 0 { 600 } else { 1 };
                let value = bytes(format!("{:v<len$}{}", "", self.number));
                self.transaction.set(database, name, value.clone(), None);
                self.compare("SET", database, name, Some(View::String(value)))
            }
        }
    }

    fn hash(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut fields = match before {
            Some(View::Hash(fields)) => fields,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let field = bytes(["f", "g", "i"][self.pick(3)]);
        let at = fields.binary_search_by(|(other, _, _)| other.cmp(&field));
        let what = self.pick(8);
        match (what, at) {
            (0..=2, _) => {
                let value =
                    if what == 0 { bytes(format!("v{}", self.number)) } else { bytes(self.number % 9) };
                let time = (self.pick(6) == 0).then(|| self.time());
                self.transaction.hash_set(database, name, field.clone(), value.clone(), time);
                match at {
                    Ok(at) => fields[at].1 = value,
                    Err(at) => fields.insert(at, (field, value, None)),
                }
            }
            (3..=4, _) => {
                let Some(number) = at.map_or(Some(Amount::ZERO), |at| Amount::parse(&fields[at].1)) else {
                    return Ok(());
                };
                let by = Amount::of_integer(self.random.i64(-9..9));
                if !self.transaction.hash_increment(database, name, field.clone(), by) {
                    return Err("an increment was refused".into());
                }
                let value = written(number.plus(by));
                match at {
                    Ok(at) => fields[at].1 = value,
                    Err(at) => fields.insert(at, (field, value, None)),
                }
            }
            (5, Ok(_)) => {
                let time = if self.random.bool() { Time::At(self.time()) } else { Time::Never };
                self.transaction.hash_live(database, name, field, time);
            }
            (6.., Ok(at)) => {
                self.transaction.hash_remove(database, name, field);
                fields.remove(at);
            }
            _ => return Ok(()),
        }
        self.compare("a hash command", database, name, (!fields.is_empty()).then_some(View::Hash(fields)))
    }

    /// JSON.SET, JSON.DEL, JSON.NUMINCRBY and JSON.ARRAPPEND at a path, JSON.SET of the root.
    fn document(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut parts = match before {
            Some(View::Parts(Kind::Json, parts)) => parts,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let part = |members: &[&str]| -> Bytes {
            let mut part = Vec::new();
            members.iter().for_each(|member| push_member(&mut part, member.as_bytes()));
            part.into()
        };
        let object = Bytes::from(OBJECT);
        if parts.is_empty() || self.pick(8) == 0 {
            parts = vec![(part(&[]), object), (part(&["c"]), bytes(self.number))];
            self.transaction.bring_parts(database, name, Kind::Json, &parts);
            return self.compare("JSON.SET", database, name, Some(View::Parts(Kind::Json, parts)));
        }
        let members = [&["a"][..], &["a", "b"], &["a", "b", "c"], &["c"]][self.pick(4)];
        let (at, outer) = (part(members), part(&members[..members.len() - 1]));
        let had = parts.iter().position(|(one, _)| *one == at);
        let is_inside = |(one, _): &(Bytes, Bytes)| one.starts_with(&at);
        let what = self.pick(9);
        match (what, had) {
            (0..=3, _) => {
                if parts.iter().all(|one| *one != (outer.clone(), object.clone())) {
                    return Ok(());
                }
                let new = match what {
                    0 => vec![(at.clone(), object.clone())],
                    1 => {
                        vec![(at.clone(), object), ([&at[..], &part(&["n"])].concat().into(), bytes("null"))]
                    }
                    2 => vec![(at.clone(), bytes(["[]", "[1]", "[1,2]"][self.pick(3)]))],
                    _ => vec![(at.clone(), bytes(self.number % 9))],
                };
                self.transaction.bring_member(database, name, &at, &new);
                parts.retain(|one| !is_inside(one));
                parts.extend(new);
                parts.sort();
            }
            (4 | 5, Some(index)) => {
                let by = self.random.i64(-9..9);
                let number =
                    std::str::from_utf8(&parts[index].1).ok().and_then(|text| text.parse::<i64>().ok());
                let is_done = self.transaction.part_increment(database, name, &at, by);
                match number {
                    None if !is_done => return Ok(()),
                    Some(number) if is_done => parts[index].1 = bytes(number + by),
                    _ => return Err(format!("JSON.NUMINCRBY of {number:?}: {is_done}")),
                }
            }
            (6.., Some(index)) if what < 8 && parts[index].1.starts_with(b"[") => {
                let array = String::from_utf8_lossy(&parts[index].1).into_owned();
                let comma = if array == "[]" { "" } else { "," };
                let elements = [&["7"][..], &["\"],\""], &["8", "[9]"]][self.pick(3)];
                parts[index].1 =
                    bytes(format!("{}{comma}{}]", &array[..array.len() - 1], elements.join(",")));
                if what == 7 {
                    self.transaction.bring_parts(database, name, Kind::Json, &parts);
                } else {
                    let elements = elements.iter().map(bytes).collect();
                    assert!(self.transaction.append_to_array(database, name, &at, elements));
                }
            }
            (8, Some(_)) => {
                self.transaction.bring_member(database, name, &at, &[]);
                parts.retain(|one| !is_inside(one));
            }
            _ => return Ok(()),
        }
        self.compare("a JSON command", database, name, Some(View::Parts(Kind::Json, parts)))
    }

    /// VADD and VREM. A new set gets one of two shapes.
    fn vector_set(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let before = match before {
            Some(View::Parts(Kind::VectorSet, parts)) => parts,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let shape = before.first().and_then(|(part, _)| Shape::of_part(part));
        let other = Shape { quantisation: Quantisation::Integer, dimension: self.random.u32(1..3) };
        let shape = shape.unwrap_or(other);
        let mut elements: BTreeMap<Bytes, Bytes> = before.into_iter().skip(1).collect();
        let part = shape.part(["e", "f", "g"][self.pick(3)].as_bytes());
        if self.pick(3) == 0 && elements.remove(&part).is_some() {
            self.transaction.part(database, name, Kind::VectorSet, part, None);
        } else {
            let vector = vec![self.number as u8; 4 * shape.dimension as usize];
            let value = Element { name: b"", links: 16, vector: &vector, attribute: b"" }.value();
            elements.insert(part.clone(), value.clone());
            self.transaction.part(database, name, Kind::VectorSet, part, Some(value));
        }
        let parts = vector_set::visible(elements.into_iter());
        let expected = (!parts.is_empty()).then_some(View::Parts(Kind::VectorSet, parts));
        self.compare("a command of a vector set", database, name, expected)
    }

    fn set(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut members = match before {
            Some(View::Set(members)) => members,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let member = bytes(["m", "n", "o"][self.pick(3)]);
        let at = members.binary_search_by(|(other, _)| other.cmp(&member));
        match (self.pick(9), at) {
            (0..=4, _) => {
                self.transaction.set_add(database, name, member.clone());
                if let Err(at) = at {
                    members.insert(at, (member, None));
                }
            }
            (5..=7, Ok(at)) => {
                self.transaction.set_remove(database, name, member);
                members.remove(at);
            }
            (8, Ok(_)) => {
                let time = Time::At(self.time());
                self.transaction.set_live(database, name, member, time);
            }
            _ => return Ok(()),
        }
        self.compare("a set command", database, name, (!members.is_empty()).then_some(View::Set(members)))
    }

    fn sorted_set(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut members = match before {
            Some(View::SortedSet(members)) => members,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let member = bytes(["m", "n", "o"][self.pick(3)]);
        let at = members.binary_search_by(|(other, _, _)| other.cmp(&member));
        match (self.pick(9), at) {
            (what @ 0..=5, _) => {
                // Quarters, so that doubles add exactly.
                let number = self.random.i32(-40..40);
                let (score, is_added) = (f64::from(number) / 4.0, what > 2);
                if is_added {
                    let by = Amount::of_float(score).ok_or("a score has no amount")?;
                    if !self.transaction.sorted_set_increment(database, name, member.clone(), by) {
                        return Err("an increment was refused".into());
                    }
                } else {
                    self.transaction.sorted_set_add(database, name, member.clone(), score);
                }
                match at {
                    Ok(at) if is_added => members[at].1 += score,
                    Ok(at) => members[at].1 = score,
                    Err(at) => members.insert(at, (member, score, None)),
                }
            }
            (6..=7, Ok(at)) => {
                self.transaction.sorted_set_remove(database, name, member);
                members.remove(at);
            }
            (8, Ok(_)) => {
                let time = Time::At(self.time());
                self.transaction.sorted_set_live(database, name, member, time);
            }
            _ => return Ok(()),
        }
        let expected = (!members.is_empty()).then_some(View::SortedSet(members));
        self.compare("a sorted set command", database, name, expected)
    }

    fn list(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut values = match before {
            Some(View::List(values)) => values,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        let value = |tag: &str, number: u64| bytes(format!("{tag}{number}"));
        let what = if values.is_empty() { self.pick(4) } else { self.pick(10) };
        match what {
            0..=1 => {
                let new: Vec<Bytes> = ["b", "c"].iter().map(|tag| value(tag, self.number)).collect();
                self.transaction.list_push(database, name, Side::Right, new.clone());
                values.extend(new);
            }
            2..=3 => {
                let new: Vec<Bytes> = ["d", "e"].iter().map(|tag| value(tag, self.number)).collect();
                self.transaction.list_push(database, name, Side::Left, new.clone());
                new.into_iter().for_each(|one| values.insert(0, one));
            }
            4 => {
                self.transaction.list_remove(database, name, 0);
                values.remove(0);
            }
            5 => {
                self.transaction.list_remove(database, name, values.len() - 1);
                values.pop();
            }
            6 => {
                let at = self.pick(values.len());
                self.transaction.list_remove(database, name, at);
                values.remove(at);
            }
            7 => {
                let at = self.pick(values.len());
                values[at] = value("s", self.number);
                self.transaction.list_set(database, name, at, values[at].clone());
            }
            _ => {
                let at = self.pick(values.len() + 1);
                values.insert(at, value("i", self.number));
                self.transaction.list_insert(database, name, at, values[at].clone());
            }
        }
        self.compare("a list command", database, name, (!values.is_empty()).then_some(View::List(values)))
    }

    fn count(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let mut registers = match before {
            Some(View::HyperLogLog(registers)) => registers,
            None => Vec::new(),
            Some(_) => return Ok(()),
        };
        // Rank 0: a PFADD without elements.
        let (register, rank) = (self.random.u16(0..4), self.random.u8(0..6));
        let counted = if rank == 0 { Vec::new() } else { vec![(register, rank)] };
        self.transaction.count(database, name, counted);
        match registers.binary_search_by_key(&register, |(register, _)| *register) {
            Ok(at) => registers[at].1 = registers[at].1.max(rank),
            Err(at) if rank > 0 => registers.insert(at, (register, rank)),
            Err(_) => {}
        }
        self.compare("PFADD", database, name, Some(View::HyperLogLog(registers)))
    }

    fn stream(&mut self, database: u32, name: &Name, before: Option<View>) -> Result<(), String> {
        let (mut entries, mut last, mut groups) = match before {
            Some(View::Stream { entries, last, groups }) => (entries, last, groups),
            None => Default::default(),
            Some(_) => return Ok(()),
        };
        let group = bytes(["g", "k"][self.pick(2)]);
        let consumer = bytes(["c", "d"][self.pick(2)]);
        let at = groups.binary_search_by(|(other, _)| other.cmp(&group));
        match (self.pick(12), at) {
            (0..=4, _) => {
                let fields: Box<[Bytes]> = [bytes("f"), bytes(self.number)].into();
                let id = self.transaction.stream_add(database, name, None, fields.clone());
                let id = id.ok_or("no ID is left")?;
                if id <= last {
                    return Err(format!("{id:?} is not later than {last:?}"));
                }
                entries.push((id, fields));
                last = id;
            }
            (5, _) if !entries.is_empty() => {
                let (id, _) = entries.remove(self.random.usize(0..entries.len()));
                self.transaction.stream_remove(database, name, id);
            }
            (6..=7, Err(at)) => {
                if entries.is_empty() && groups.is_empty() && last == Id::default() {
                    self.transaction.stream_set_id(database, name, last);
                }
                self.transaction.group_create(database, name, &group, Id::default());
                groups.insert(at, (group, GroupView::default()));
            }
            (7, Ok(at)) => {
                self.transaction.group_destroy(database, name, &group);
                groups.remove(at);
            }
            (8..=9, Ok(at)) => {
                let view = &mut groups[at].1;
                let new = entries.iter().map(|(id, _)| *id).filter(|id| *id > view.delivered);
                let new: Vec<(Id, u64)> = new.take(2).map(|id| (id, 1)).collect();
                self.transaction.group_deliver(database, name, &group, &consumer, &new);
                return Ok(());
            }
            (10, Ok(at)) => {
                let view = &mut groups[at].1;
                let Some(id) = view.pending.keys().next().copied() else { return Ok(()) };
                self.transaction.group_acknowledge(database, name, &group, id);
                view.pending.remove(&id);
            }
            (11, Ok(at)) => {
                if self.random.bool() {
                    self.transaction.group_set_id(database, name, &group, last);
                    groups[at].1.delivered = last;
                } else {
                    self.transaction.group_remove_consumer(database, name, &group, &consumer);
                    groups[at].1.pending.retain(|_, pending| pending.consumer != consumer);
                    groups[at].1.consumers.retain(|other| *other != consumer);
                }
            }
            _ => return Ok(()),
        }
        let expected = View::Stream { entries, last, groups };
        self.compare("a stream command", database, name, Some(expected))
    }
}
