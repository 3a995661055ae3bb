// SPDX-License-Identifier: BSD-3-Clause
//! Filters of labels: `label=value`, `label!=value`, `label=(one,two)`, `label=` (it has no such
//! label) and `label!=` (it has one).

use braid_spec::CommandError;
use braid_values::time_series::index::Named;
use braid_values::time_series::labels::Labels;

use super::arguments::text;

/// One filter.
struct Filter<'a> {
    label: &'a [u8],
    is_negated: bool,
    /// None: whether there is such a label.
    values: Option<Vec<&'a [u8]>>,
}

/// The filters of a query, all of which a series must meet.
pub(super) struct Filters<'a>(Vec<Filter<'a>>);

/// The parts of a text between these characters; empty ones are left out.
fn parts<'a>(text: &'a [u8], between: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    text.split(|byte| between.contains(byte)).filter(|part| !part.is_empty())
}

fn parse<'a>(given: &'a [u8]) -> Result<Filter<'a>, CommandError> {
    let invalid = text("ERR TSDB: failed parsing labels");
    let is_negated = given.windows(2).any(|pair| pair == b"!=");
    if !is_negated && !given.contains(&b'=') {
        return Err(invalid);
    }
    let mut parts = parts(given, if is_negated { b"!=" } else { b"=" });
    let Some(label) = parts.next() else { return Err(invalid) };
    let values = match parts.next() {
        None => None,
        Some([b'(', list @ ..]) => Some(list_of(list).ok_or(invalid)?),
        Some(value) => Some(vec![value]),
    };
    Ok(Filter { label, is_negated, values })
}

/// The values of a list, after its opening bracket.
fn list_of(list: &[u8]) -> Option<Vec<&[u8]>> {
    let end = list.iter().position(|byte| *byte == b')')?;
    let list = &list[..end];
    if list.is_empty() {
        return Some(Vec::new());
    }
    let values: Vec<&[u8]> = list.split(|byte| *byte == b',').collect();
    (!values.iter().any(|value| value.is_empty())).then_some(values)
}

impl<'a> Filters<'a> {
    /// Parses filters, one of which must name values.
    pub fn parse(given: &[&'a [u8]]) -> Result<Filters<'a>, CommandError> {
        let filters: Vec<Filter<'a>> = given.iter().map(|text| parse(text)).collect::<Result<_, _>>()?;
        if !filters.iter().any(|filter| !filter.is_negated && filter.values.is_some()) {
            return Err(text("ERR TSDB: please provide at least one matcher"));
        }
        Ok(Filters(filters))
    }

    /// No filter: every series meets it.
    pub fn none() -> Filters<'a> {
        Filters(Vec::new())
    }

    /// A label and the values of which a series must have one.
    pub fn named(&self) -> Option<Named<'_>> {
        let named = self.0.iter().filter(|filter| !filter.is_negated);
        let values = named.filter_map(|filter| Some((filter.label, filter.values.as_deref()?)));
        values.min_by_key(|(_, values)| values.len())
    }

    /// True if a series with these labels meets all filters.
    pub fn meet(&self, labels: &Labels) -> bool {
        self.0.iter().all(|filter| {
            let has = match &filter.values {
                None => labels.get(filter.label).is_none(),
                Some(values) => {
                    labels.iter().any(|(name, value)| name == filter.label && values.contains(&value))
                }
            };
            has != filter.is_negated
        })
    }
}
