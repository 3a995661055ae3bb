// SPDX-License-Identifier: BSD-3-Clause
//! Integer sets in one block. First byte 128 or more: the rest is either refused or read as a set
//! that writes the same bytes again. In any case: changes to a set, against a model.

#![no_main]

mod input;

use std::collections::BTreeSet;

use braid_containers::int_set::IntSet;
use input::Input;
use libfuzzer_sys::fuzz_target;

fn check(set: &IntSet, model: &BTreeSet<i64>) {
    assert_eq!(set.len(), model.len());
    assert!(set.iter().eq(model.iter().copied()));
    assert_eq!((set.first(), set.last()), (model.first().copied(), model.last().copied()));
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let Some(choice) = input.byte() else { return };
    let mut set = IntSet::new();
    if choice >= 128 {
        let Some(read) = IntSet::from_bytes(input.0) else { return };
        let mut again = Vec::new();
        read.write_to(&mut again);
        assert_eq!(again, input.0);
        set = read;
        input = Input(&data[data.len() / 2..]);
    }
    let mut model: BTreeSet<i64> = set.iter().collect();
    check(&set, &model);
    while let (Some(what), Some(number)) = (input.byte(), input.number()) {
        match what % 5 {
            0 | 1 => assert_eq!(set.add(number), model.insert(number)),
            2 => assert_eq!(set.remove(number), model.remove(&number)),
            3 => assert_eq!(set.contains(number), model.contains(&number)),
            _ => {
                let index = usize::from(what) % (model.len() + 1);
                let expected = model.iter().nth(index).copied();
                assert_eq!(set.remove_at(index), expected);
                expected.map(|number| model.remove(&number));
            }
        }
    }
    check(&set, &model);
});
