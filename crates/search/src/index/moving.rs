// SPDX-License-Identifier: BSD-3-Clause
//! A walk that moves the blocks of a part, or of the dictionary, to better places in memory
//! (`braid_base::relocation`), and can stop and continue anywhere.
//!
//! Items are numbered as they are passed. If some come or go between two steps, a few are passed
//! over, or examined twice: the next walk finds them. Nothing but addresses changes.

use std::ops::ControlFlow;

use braid_base::relocation::Mover;

pub struct Walk<'m> {
    mover: &'m mut Mover,
    from: u64,
    /// Items passed so far.
    passed: u64,
}

impl<'m> Walk<'m> {
    /// A walk that examines the items from this number on.
    pub fn new(from: u64, mover: &'m mut Mover) -> Walk<'m> {
        Walk { mover, from, passed: 0 }
    }

    /// Moves what belongs to the next items. Breaks with the number to continue with once the
    /// mover's time is over; each step examines at least one item.
    pub fn each<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        relocate: impl Fn(T, &mut Mover),
    ) -> ControlFlow<u64> {
        let (len, first) = (items.len() as u64, self.passed);
        let skipped = self.from.saturating_sub(first).min(len);
        for (number, item) in (first + skipped..).zip(items.skip(skipped as usize)) {
            if number > self.from && self.mover.is_over() {
                return ControlFlow::Break(number);
            }
            relocate(item, self.mover);
        }
        self.passed += len;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_examined_once_however_short_the_steps_are() {
        let mut lists = [vec![0; 5], vec![], vec![0; 70]];
        let (mut from, mut steps) = (Some(0), 0);
        while let Some(at) = from {
            let mut mover = Mover::new(0, true);
            let mut walk = Walk::new(at, &mut mover);
            let step = lists.iter_mut().try_for_each(|list| walk.each(list.iter_mut(), |item, _| *item += 1));
            from = step.break_value();
            steps += 1;
        }
        assert!(lists.iter().flatten().all(|examined| *examined == 1), "{lists:?}");
        assert_eq!(steps, 75);
    }
}
