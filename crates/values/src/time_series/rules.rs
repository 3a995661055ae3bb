// SPDX-License-Identifier: BSD-3-Clause
//! Compaction rules. A rule is kept at its source, with what is known of the open bucket; the
//! target knows the name of its source. Both name each other, and a rule holds only while they do:
//! so a key that is deleted, expires or is replaced ends its rules without the other key being
//! changed.

use super::Sample;
use super::buckets::{Buckets, Ends, Stamp};
use super::fold::{Fold, bucket_end};
use super::links::{Links, Rule};
use super::value::{Policy, Series};

/// A change of a rule's target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// A bucket has this value now.
    Set(Sample),
    /// There are no buckets in this range of times.
    Clear(u64, u64),
}

impl Series {
    /// The rules of which this is the source.
    pub fn rules(&self) -> &[Rule] {
        self.links.as_ref().map_or(&[], |links| &links.rules)
    }

    /// The key of the series of which this is the target.
    pub fn source(&self) -> Option<&[u8]> {
        self.links.as_ref()?.source.as_deref()
    }

    /// The rule for this target.
    pub fn rule_for(&self, target: &[u8]) -> Option<&Rule> {
        self.rules().iter().find(|rule| *rule.target == *target)
    }

    /// Adds a rule, in place of one for the same target. `name`: the series' own key.
    pub fn add_rule(&mut self, name: &[u8], rule: Rule) {
        self.remove_rule(&rule.target);
        let links = self.links.get_or_insert_default();
        links.name = name.into();
        links.rules.push(rule);
    }

    /// Removes the rule for a target. False if there was none.
    pub fn remove_rule(&mut self, target: &[u8]) -> bool {
        let Some(links) = &mut self.links else { return false };
        let before = links.rules.len();
        links.rules.retain(|rule| *rule.target != *target);
        let removed = links.rules.len() < before;
        self.drop_unused_links();
        removed
    }

    /// Makes this the target of another series, or of none.
    pub fn set_source(&mut self, name: &[u8], source: Option<&[u8]>) {
        let links = self.links.get_or_insert_default();
        links.name = name.into();
        links.source = source.map(Box::from);
        self.drop_unused_links();
    }

    pub(super) fn set_links(&mut self, links: Links) {
        self.links = Some(Box::new(links));
    }

    fn drop_unused_links(&mut self) {
        if self.links.as_ref().is_some_and(|links| links.source.is_none() && links.rules.is_empty()) {
            self.links = None;
        }
    }

    /// The targets' changes after a sample was appended; `before`: the sample before it. `report`
    /// is called with each target.
    pub fn appended(
        &mut self,
        before: Option<Sample>,
        sample: Sample,
        mut report: impl FnMut(&[u8], Effect),
    ) {
        let Some(links) = &mut self.links else { return };
        for rule in &mut links.rules {
            if let Some(ended) = rule.append(before, sample) {
                report(&rule.target, Effect::Set(ended));
            }
        }
    }

    /// The targets' changes after a sample before the last one was added or changed.
    pub fn upserted(&mut self, time: u64, mut report: impl FnMut(&[u8], Effect)) {
        let Some(mut links) = self.links.take() else { return };
        for rule in &mut links.rules {
            let start = rule.bucket(time);
            match rule.open {
                Some(open) if open == start => self.reopen(rule, start),
                Some(open) if start < open => {
                    if let Some(value) = self.bucket_value(rule, start) {
                        report(&rule.target, Effect::Set(Sample { time: start, value }));
                    }
                }
                _ => {}
            }
        }
        self.links = Some(links);
    }

    /// The targets' changes after the samples of a range were removed.
    pub fn removed(&mut self, from: u64, to: u64, mut report: impl FnMut(&[u8], Effect)) {
        let Some(mut links) = self.links.take() else { return };
        for rule in &mut links.rules {
            let Some(open) = rule.open else { continue };
            let (first, last) = (rule.bucket(from), rule.bucket(to));
            if first < open {
                let mut clear_from = first;
                if let Some(value) = self.bucket_value(rule, first) {
                    report(&rule.target, Effect::Set(Sample { time: first, value }));
                    clear_from = first.saturating_add(1);
                }
                let before_open = open.saturating_sub(1);
                let mut clear_to = last.min(before_open);
                if last < open
                    && last != first
                    && let Some(value) = self.bucket_value(rule, last)
                {
                    report(&rule.target, Effect::Set(Sample { time: last, value }));
                    clear_to = last.saturating_sub(1);
                }
                if clear_from <= clear_to {
                    report(&rule.target, Effect::Clear(clear_from, clear_to));
                }
            }
            if last >= open {
                self.reopen(rule, open);
            }
        }
        self.links = Some(links);
    }

    /// Computes the open bucket of a rule anew. Without samples
    /// it is no longer open.
    fn reopen(&self, rule: &mut Rule, open: u64) {
        let mut samples = self.samples(open, u64::MAX).peekable();
        if samples.peek().is_none() {
            rule.open = None;
            rule.fold = Fold::new(rule.kind);
            return;
        }
        let before = open.checked_sub(1).and_then(|before| self.at_or_before(before));
        rule.fold.start(open, bucket_end(open, rule.span, rule.align), before);
        samples.for_each(|sample| rule.fold.add(sample));
    }

    /// The value of an ended bucket of a rule, from its samples; `None` if there are none.
    fn bucket_value(&self, rule: &Rule, start: u64) -> Option<f64> {
        let buckets = Buckets {
            kind: rule.kind,
            span: rule.span,
            align: rule.align,
            stamp: Stamp::Start,
            with_empty: false,
        };
        let end = bucket_end(start, rule.span, rule.align).saturating_sub(1);
        let ends = || Ends {
            from: start,
            to: end.saturating_add(1),
            before: start.checked_sub(1).and_then(|before| self.at_or_before(before)),
            after: end.checked_add(1).and_then(|after| self.samples(after, u64::MAX).next()),
        };
        let all = buckets.of(|see| self.runs(start, end, see), ends, usize::MAX).ok()?;
        all.first().map(|bucket| bucket.value)
    }

    /// Takes an effect of a rule of which this is the target. False if nothing changed.
    pub fn take_effect(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Set(sample) => self.add(sample, Some(Policy::Last)).is_ok(),
            Effect::Clear(from, to) => self.remove(from, to) > 0,
        }
    }

    /// The keys that refer to this one.
    pub fn linked_keys(&self) -> impl Iterator<Item = &[u8]> {
        let links = self.links.as_deref();
        let targets = links.into_iter().flat_map(|links| links.rules.iter().map(|rule| &*rule.target));
        links.and_then(|links| links.source.as_deref()).into_iter().chain(targets)
    }

    /// A linked key has another name.
    pub fn relink(&mut self, from: &[u8], to: &[u8]) {
        let Some(links) = &mut self.links else { return };
        let targets = links.rules.iter_mut().map(|rule| &mut rule.target);
        for name in links.source.iter_mut().chain(targets).filter(|name| ***name == *from) {
            *name = to.into();
        }
        if *links.name == *from {
            links.name = to.into();
        }
    }

    /// The series' own key, if it has links.
    pub(super) fn own_name(&self) -> &[u8] {
        self.links.as_ref().map_or(&[], |links| &links.name)
    }
}
