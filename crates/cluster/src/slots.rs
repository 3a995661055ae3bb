// SPDX-License-Identifier: BSD-3-Clause
//! Sets of slots as operators write them (`0-99,200`) and as nodes report them.

use std::fmt::Write;

/// Number of slots in a cluster.
pub const SLOTS: usize = 16_384;

/// Parses ranges like `0-99,200` into ascending slots.
///
/// # Errors
/// If a part is not a slot or a range, ends before it begins, or repeats a slot. The text is for
/// the user.
pub fn parse(text: &str) -> Result<Vec<u16>, String> {
    let mut slots = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let slot = |text: &str| {
            let number = text.parse::<u16>().ok().filter(|&slot| usize::from(slot) < SLOTS);
            number.ok_or_else(|| format!("'{part}' is not a slot or a range of slots between 0 and 16383"))
        };
        let (first, last) = (slot(first)?, slot(last)?);
        if first > last {
            return Err(format!("'{part}' ends before it begins"));
        }
        slots.extend(first..=last);
    }
    slots.sort_unstable();
    match slots.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("slot {} is given twice", pair[0])),
        None => Ok(slots),
    }
}

/// Ascending slots as ranges (first, last).
pub fn ranges(slots: &[u16]) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Ascending slots as text for [`parse`].
pub fn text(slots: &[u16]) -> String {
    let mut out = String::new();
    for (first, last) in ranges(slots) {
        let comma = if out.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ =
            if first == last { write!(out, "{comma}{first}") } else { write!(out, "{comma}{first}-{last}") };
    }
    out
}

/// Ascending slots as text, shortened to about `width` characters.
pub fn short_text(slots: &[u16], width: usize) -> String {
    let text = text(slots);
    if text.len() <= width {
        return text;
    }
    let whole = text[..width].rfind(',').unwrap_or(width);
    let told = text[..whole].split(',').count();
    format!("{}, {} ranges more", &text[..whole], ranges(slots).len() - told)
}

/// A bar of `width` characters for all slots: `#` where all slots of a character are in the set,
/// `+` where some are, `.` where none is.
pub fn bar(slots: &[u16], width: usize) -> String {
    let mut counts = vec![(0, 0); width];
    let cell = |slot: usize| slot * width / SLOTS;
    (0..SLOTS).for_each(|slot| counts[cell(slot)].1 += 1);
    slots.iter().for_each(|&slot| counts[cell(usize::from(slot))].0 += 1);
    let letter = |(own, all): &(usize, usize)| match own {
        0 => '.',
        own if own == all => '#',
        _ => '+',
    };
    counts.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_read_and_written() {
        assert_eq!(parse("5,0-2"), Ok(vec![0, 1, 2, 5]));
        assert_eq!(text(&[0, 1, 2, 5]), "0-2,5");
        assert_eq!(text(&[]), "");
        for (wrong, why) in [
            ("", "is not a slot"),
            ("1,,2", "is not a slot"),
            ("16384", "is not a slot"),
            ("1-x", "is not a slot"),
            ("-1", "is not a slot"),
            ("5-4", "ends before"),
            ("1-3,2", "given twice"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn long_lists_are_shortened() {
        let slots: Vec<u16> = (0..100).map(|slot| slot * 2).collect();
        assert_eq!(short_text(&slots, 8), "0,2,4,6, 96 ranges more");
        assert_eq!(short_text(&[1, 2], 8), "1-2");
    }

    #[test]
    fn a_bar_shows_where_slots_are() {
        let half: Vec<u16> = (0..8_192).collect();
        assert_eq!(bar(&half, 8), "####....");
        assert_eq!(bar(&half[1..4_000], 8), "++......");
        assert_eq!(bar(&(0..16_384).map(|slot| slot as u16).collect::<Vec<_>>(), 60), "#".repeat(60));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(slots in proptest::collection::btree_set(0u16..16_384, 1..300)) {
            let slots: Vec<u16> = slots.into_iter().collect();
            prop_assert_eq!(parse(&text(&slots)), Ok(slots));
        }
    }
}
