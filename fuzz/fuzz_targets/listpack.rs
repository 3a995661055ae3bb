// SPDX-License-Identifier: BSD-3-Clause
//! Listpacks. First byte 128 or more: the rest is either refused or read as a list that reads the
//! same in both directions. In any case: changes to a list, against a model.

#![no_main]

mod input;

use braid_containers::listpack::{Listpack, validate};
use input::Input;
use libfuzzer_sys::fuzz_target;

fn texts(list: &Listpack) -> Vec<Vec<u8>> {
    list.iter().map(|element| element.to_vec()).collect()
}

fn check(list: &Listpack, model: &[Vec<u8>]) {
    assert!(validate(list.bytes(), true));
    assert_eq!(list.len(), model.len());
    assert_eq!(texts(list), model);
    let mut backwards = Vec::new();
    let mut at = list.last();
    while let Some(place) = at {
        backwards.push(list.get(place).expect("an entry").to_vec());
        at = list.prev(place);
    }
    backwards.reverse();
    assert_eq!(backwards, model);
}

/// Applies one change to both. `None` at the end of the input.
fn change(input: &mut Input<'_>, list: &mut Listpack, model: &mut Vec<Vec<u8>>) -> Option<()> {
    let (what, index) = (input.byte()?, usize::from(input.byte()?) % (model.len() + 1));
    let place = if index < model.len() { list.seek(index as i64).expect("an entry") } else { list.end() };
    match what % 12 {
        0 | 1 => {
            let text = input.text()?;
            assert!(list.push_back(&text));
            model.push(text);
        }
        2 => {
            let text = input.text()?;
            assert!(list.push_front(&text));
            model.insert(0, text);
        }
        3 => {
            let number = input.number()?;
            assert!(list.push_back_int(number));
            model.push(number.to_string().into_bytes());
        }
        4 => {
            let text = input.text()?;
            assert!(list.insert(place, &text));
            model.insert(index, text);
        }
        5 => {
            let text = input.text()?;
            assert_eq!(list.replace(place, &text), index < model.len());
            if index < model.len() {
                model[index] = text;
            }
        }
        6 => {
            assert_eq!(list.remove(place), index < model.len());
            if index < model.len() {
                model.remove(index);
            }
        }
        7 => {
            let count = usize::from(input.byte()? % 5).min(model.len() - index);
            assert_eq!(list.remove_range(index as i64, count), count);
            model.drain(index..index + count);
        }
        8 => {
            let other = list.split_off(place);
            assert_eq!(texts(&other), model[index..]);
            if what < 128 {
                assert!(list.merge(&other));
            } else {
                model.truncate(index);
            }
        }
        9 => {
            let text = input.text()?;
            let found = list.find(&text, 0, 0).map(|at| list.entries().position(|(place, _)| place == at));
            assert_eq!(found.flatten(), model.iter().position(|other| *other == text));
        }
        10 => list.reserve(usize::from(what) * 4, what > 100),
        _ => list.shrink(),
    }
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let Some(choice) = input.byte() else { return };
    let (mut list, mut model) = (Listpack::new(), Vec::new());
    if choice >= 128 {
        let Some(read) = Listpack::from_bytes(input.0) else { return };
        model = texts(&read);
        list = read;
        input = Input(&data[data.len() / 2..]);
    }
    check(&list, &model);
    for _ in 0..200 {
        if change(&mut input, &mut list, &mut model).is_none() {
            break;
        }
    }
    check(&list, &model);
});
