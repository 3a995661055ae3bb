// SPDX-License-Identifier: BSD-3-Clause
//! Stream blocks. First byte 128 or more: the rest is either refused or read as a block whose
//! entries read the same in both directions. Then, or otherwise from an empty log: entries are
//! appended, deleted and trimmed, against a model.

#![no_main]

mod input;

use std::collections::BTreeMap;

use braid_values::stream::{BlockLimits, Log, StreamId, Trim};
use input::Input;
use libfuzzer_sys::fuzz_target;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;
type Entry = (StreamId, Fields);

fn entries(log: &Log) -> Vec<Entry> {
    let read = |entry: braid_values::stream::LogEntry<'_>| {
        (entry.id, entry.fields.map(|(field, value)| (field.to_vec(), value.to_vec())).collect())
    };
    let forwards: Vec<Entry> = log.range(StreamId::MIN, StreamId::MAX).map(read).collect();
    let mut backwards: Vec<Entry> = log.range_back(StreamId::MIN, StreamId::MAX).map(read).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    assert_eq!(log.len(), forwards.len() as u64);
    forwards
}

fn change(input: &mut Input<'_>, log: &mut Log, model: &mut BTreeMap<StreamId, Fields>) -> Option<()> {
    let what = input.byte()?;
    let some = model.keys().nth(usize::from(what >> 3) % model.len().max(1)).copied();
    match what % 8 {
        0..=3 => {
            let last = log.last_id();
            let id =
                StreamId::new(last.ms.checked_add(u64::from(input.byte()? % 4))?, last.seq.checked_add(1)?);
            let mut fields = Vec::new();
            for _ in 0..=input.byte()? % 3 {
                fields.push((input.text()?, input.text()?));
            }
            let pairs: Vec<(&[u8], &[u8])> =
                fields.iter().map(|(field, value)| (&field[..], &value[..])).collect();
            let limits = BlockLimits { bytes_max: 300, entries_max: 6 };
            assert!(log.append(id, &pairs, &limits).is_ok());
            model.insert(id, fields);
        }
        4 | 5 => {
            if let Some(id) = some {
                assert!(log.delete(id));
                model.remove(&id);
            }
        }
        6 => {
            let most = u64::from(input.byte()?);
            let removed = log.trim(Trim::MaxLen(most), false, 0);
            assert_eq!(removed, (model.len() as u64).saturating_sub(most));
            (0..removed).for_each(|_| _ = model.pop_first());
        }
        _ => {
            let least = some?;
            let removed = log.trim(Trim::MinId(least), false, 0);
            let kept = model.split_off(&least);
            assert_eq!(removed, model.len() as u64);
            *model = kept;
        }
    }
    assert_eq!(log.first_id(), model.first_key_value().map_or(StreamId::MIN, |(id, _)| *id));
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let Some(choice) = input.byte() else { return };
    let mut log = Log::default();
    if choice >= 128 {
        if log.push_block(StreamId::new(u64::from(choice & 3), u64::from(choice >> 2 & 3)), input.0).is_err()
        {
            return;
        }
        input = Input(&data[data.len() / 2..]);
    }
    let mut model: BTreeMap<StreamId, Fields> = entries(&log).into_iter().collect();
    for _ in 0..200 {
        if change(&mut input, &mut log, &mut model).is_none() {
            break;
        }
    }
    assert_eq!(entries(&log), model.into_iter().collect::<Vec<_>>());
});
