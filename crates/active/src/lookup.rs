// SPDX-License-Identifier: BSD-3-Clause
//! Elements of a value by name, without a copy of them. A map of references would do the same, but
//! all of its code, and of the sort that builds it, would be compiled for every type of element.

/// Elements with different names, in the order of these.
pub(crate) struct Lookup<'a, T> {
    all: &'a [T],
    name: fn(&T) -> &[u8],
    /// Indexes of `all`.
    order: Vec<usize>,
}

impl<'a, T> Lookup<'a, T> {
    pub fn new(all: &'a [T], name: fn(&T) -> &[u8]) -> Lookup<'a, T> {
        Lookup { all, name, order: in_order(all.len(), &|index| name(&all[index])) }
    }

    pub fn get(&self, name: &[u8]) -> Option<&'a T> {
        let at = self.order.binary_search_by(|index| (self.name)(&self.all[*index]).cmp(name)).ok()?;
        Some(&self.all[self.order[at]])
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// The elements in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + '_ {
        self.order.iter().map(|index| &self.all[*index])
    }
}

/// Indexes in the order of their names.
fn in_order<'n>(count: usize, name: &dyn Fn(usize) -> &'n [u8]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| name(*one).cmp(name(*other)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_name() {
        let all = ["b", "", "c", "ab"];
        let lookup = Lookup::new(&all, |one| one.as_bytes());
        assert!(lookup.iter().eq(&["", "ab", "b", "c"]));
        for one in &all {
            assert_eq!(lookup.get(one.as_bytes()), Some(one));
        }
        assert_eq!(lookup.get(b"a"), None);
        assert!(lookup.has(b"c") && !lookup.has(b"d"));
        assert!(!Lookup::new(&[""; 0], |one| one.as_bytes()).has(b""));
    }
}
