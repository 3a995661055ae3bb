// SPDX-License-Identifier: BSD-3-Clause
//! List changes: pushes, pops, inserts, removals, and conversions between forms.

use super::node::{Body, Node};
use super::{End, Form, List, ListLimits, Nodes, Wanted};
use braid_containers::listpack::{Element, Listpack};

/// Size limit of the block kept for reuse when an end node is emptied.
const SPARE_MAX: usize = 1024;

impl List {
    pub(super) fn make_nodes(&mut self) -> &mut Nodes {
        if let Form::Packed(list) = &mut self.0 {
            let mut all = Box::<Nodes>::default();
            let list = std::mem::take(list);
            if !list.is_empty() {
                let node = Node::packed(list);
                all.len = node.count;
                all.nodes.push_back(node);
            }
            self.0 = Form::Nodes(all);
        }
        match &mut self.0 {
            Form::Nodes(all) => all,
            Form::Packed(_) => unreachable!("just made"),
        }
    }

    /// Returns to the packed form when a single small node is left: after removals at half the
    /// limit, so that the form does not flap.
    pub(super) fn try_pack(&mut self, limits: &ListLimits, shrinking: bool) {
        let Form::Nodes(all) = &mut self.0 else { return };
        if all.nodes.is_empty() {
            self.0 = Form::Packed(Listpack::new());
            return;
        }
        if all.nodes.len() != 1 {
            return;
        }
        let half = if shrinking { 2 } else { 1 };
        let most_count = limits.node_count() / half;
        let Some(node) = all.nodes.front_mut() else { return };
        if node.is_packed()
            && node.byte_len() <= limits.node_bytes() / half
            && node.count <= most_count
            && let Some(list) = node.open()
        {
            let mut list = std::mem::take(list);
            list.shrink();
            self.0 = Form::Packed(list);
        }
    }

    /// Prepares for pushing `count` elements of `bytes` in total: a packed list that would exceed
    /// the limit becomes nodes now. Redis decides this for all arguments of a command together,
    /// before the first push.
    pub fn expect(&mut self, bytes: usize, count: usize, limits: &ListLimits) {
        if let Form::Packed(list) = &self.0
            && !limits.fits(list.byte_len().saturating_add(bytes), list.len().saturating_add(count))
        {
            self.make_nodes();
        }
    }

    /// Adds an element at an end. A command with several elements calls [`List::push_all`].
    #[inline]
    pub fn push(&mut self, end: End, text: &[u8], limits: &ListLimits) {
        if let Form::Packed(list) = &mut self.0
            && limits.fits(list.byte_len().saturating_add(text.len()), list.len() + 1)
            && text.len() < limits.packed_threshold
        {
            push_packed(list, end, text);
            return;
        }
        self.make_nodes().push(end, text, limits);
    }

    /// Pushes elements at an end, one after the other.
    pub fn push_all<'a, T>(&mut self, end: End, texts: T, limits: &ListLimits)
    where
        T: IntoIterator<Item = &'a [u8]>,
        T::IntoIter: Clone,
    {
        let texts = texts.into_iter();
        let (mut bytes, mut count, mut longest) = (0usize, 0, 0);
        for text in texts.clone() {
            bytes = bytes.saturating_add(text.len());
            longest = longest.max(text.len());
            count += 1;
        }
        self.expect(bytes, count, limits);
        if longest >= limits.packed_threshold {
            self.make_nodes();
        }
        for text in texts {
            match &mut self.0 {
                Form::Packed(list) => push_packed(list, end, text),
                Form::Nodes(all) => all.push(end, text, limits),
            }
        }
    }

    /// Passes the element at an end to `see`, then removes it.
    #[inline]
    pub fn pop<R>(&mut self, end: End, limits: &ListLimits, see: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match &mut self.0 {
            Form::Packed(list) => {
                let at = if end == End::Front { list.first()? } else { list.last()? };
                let seen = see(list.get(at)?);
                list.remove(at);
                Some(seen)
            }
            Form::Nodes(all) => {
                let number = if end == End::Front { 0 } else { all.nodes.len().checked_sub(1)? };
                let node = all.nodes.get_mut(number)?;
                let seen = node.pop(end == End::Front, see)?;
                all.len -= 1;
                if node.count == 0 {
                    let emptied = all.nodes.remove(number).map(Node::into_body);
                    if let Some(Body::Packed(list)) = emptied {
                        all.spare = Some(list).filter(|list| list.memory_bytes() <= SPARE_MAX);
                    }
                    all.compress_behind_ends(limits);
                }
                if all.nodes.len() <= 1 {
                    self.try_pack(limits, true);
                }
                Some(seen)
            }
        }
    }

    /// Inserts an element before the one at `position` (after the last if there is none).
    pub fn insert(&mut self, position: usize, text: &[u8], limits: &ListLimits) {
        let len = self.len();
        if position == 0 || position >= len {
            return self.push(if position == 0 { End::Front } else { End::Back }, text, limits);
        }
        self.expect(text.len(), 1, limits);
        if text.len() >= limits.packed_threshold {
            self.make_nodes();
        }
        match &mut self.0 {
            Form::Packed(list) => {
                if let Some(at) = list.seek(position as i64) {
                    list.insert(at, text);
                }
            }
            Form::Nodes(all) => {
                all.insert(position, text, limits);
                self.apply_compress_depth(limits);
            }
        }
    }

    /// Inserts an element before or after the first one that equals `pivot`; false if there is
    /// none (LINSERT).
    pub fn insert_by(&mut self, pivot: &[u8], behind: bool, text: &[u8], limits: &ListLimits) -> bool {
        // Redis converts before it searches for the pivot.
        self.expect(text.len(), 1, limits);
        let mut found = None;
        self.find(pivot, true, usize::MAX, |position| {
            found = Some(position);
            false
        });
        if let Some(position) = found {
            self.insert(position + usize::from(behind), text, limits);
        }
        found.is_some()
    }

    /// Replaces the element at `index` (negative: from the end); false if there is none (LSET).
    pub fn set(&mut self, index: i64, text: &[u8], limits: &ListLimits) -> bool {
        // Redis computes the size as if the element were added, and converts even if the index is
        // out of range.
        self.expect(text.len(), 1, limits);
        let Some(position) = self.position(index) else { return false };
        if text.len() >= limits.packed_threshold {
            self.make_nodes();
        }
        match &mut self.0 {
            Form::Packed(list) => list.seek(position as i64).is_some_and(|at| list.replace(at, text)),
            Form::Nodes(all) => {
                all.set(position, text, limits);
                self.apply_compress_depth(limits);
                self.try_pack(limits, true);
                true
            }
        }
    }

    /// Removes `count` elements from `position` on; returns their number.
    pub fn remove_range(&mut self, position: usize, count: usize, limits: &ListLimits) -> usize {
        let count = count.min(self.len().saturating_sub(position));
        if count == 0 {
            return 0;
        }
        match &mut self.0 {
            Form::Packed(list) => list.remove_range(position as i64, count),
            Form::Nodes(all) => {
                all.remove_range(position, count);
                self.apply_compress_depth(limits);
                self.try_pack(limits, true);
                count
            }
        }
    }

    /// Keeps only `count` elements from `start` on (LTRIM).
    pub fn keep_range(&mut self, start: usize, count: usize, limits: &ListLimits) {
        let end = start.saturating_add(count).min(self.len());
        let len = self.len();
        self.remove_range(end, len - end, limits);
        self.remove_range(0, start, limits);
    }

    /// Removes elements that equal `text`: all (`count` 0), the first `count`, or the last
    /// `-count` (LREM). Returns their number.
    pub fn remove_equal(&mut self, text: &[u8], count: i64, limits: &ListLimits) -> usize {
        let most = match count.unsigned_abs() {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let wanted = Wanted::new(text);
        match &mut self.0 {
            Form::Packed(list) => remove_equal_packed(list, &wanted, count < 0, most),
            Form::Nodes(all) => {
                let removed = all.remove_equal(&wanted, count < 0, most);
                if removed > 0 {
                    self.apply_compress_depth(limits);
                    self.try_pack(limits, true);
                }
                removed
            }
        }
    }

    /// Compresses and decompresses nodes as configured, over the whole list.
    pub(super) fn apply_compress_depth(&mut self, limits: &ListLimits) {
        let Form::Nodes(all) = &mut self.0 else { return };
        let (depth, count) = (limits.compress_depth, all.nodes.len());
        for (number, node) in all.nodes.iter_mut().enumerate() {
            if depth > 0 && number >= depth && count - number > depth {
                node.compress();
            } else if matches!(node.body(), Body::Compressed(..)) {
                node.open();
            }
        }
    }
}

fn push_packed(list: &mut Listpack, end: End, text: &[u8]) {
    match end {
        End::Front => list.push_front(text),
        End::Back => list.push_back(text),
    };
}

fn remove_equal_packed(list: &mut Listpack, wanted: &Wanted<'_>, from_back: bool, most: usize) -> usize {
    let mut removed = 0;
    if from_back {
        let mut at = list.last();
        while let (Some(place), true) = (at, removed < most) {
            // Removing an entry does not move the entries before it.
            at = list.prev(place);
            if list.get(place).is_some_and(|element| wanted.is(element)) {
                list.remove(place);
                removed += 1;
            }
        }
    } else {
        let mut from = 0;
        while removed < most {
            let Some(place) = list.find(wanted.text, from, 0) else { break };
            list.remove(place);
            from = place;
            removed += 1;
        }
    }
    removed
}

impl Nodes {
    #[inline]
    pub(super) fn push(&mut self, end: End, text: &[u8], limits: &ListLimits) {
        let front = end == End::Front;
        self.len += 1;
        let node = if front { self.nodes.front_mut() } else { self.nodes.back_mut() };
        match node {
            Some(node) if node.accepts(text.len(), limits) => node.push(text, front, limits),
            _ => self.push_node(front, text, limits),
        }
    }

    #[cold]
    fn push_node(&mut self, front: bool, text: &[u8], limits: &ListLimits) {
        let full = if front { self.nodes.front_mut() } else { self.nodes.back_mut() };
        if let Some(node) = full {
            node.shrink();
        }
        let node = match self.spare.take() {
            Some(list) if !limits.is_large(text.len()) => {
                let mut node = Node::packed(list);
                node.push(text, front, limits);
                node
            }
            _ => Node::of(text, limits),
        };
        if front {
            self.nodes.push_front(node);
        } else {
            self.nodes.push_back(node);
        }
        self.compress_behind_ends(limits);
    }

    /// After one node was added or removed at an end: compresses the node that has moved inwards,
    /// or decompresses the one that has become an end.
    pub(super) fn compress_behind_ends(&mut self, limits: &ListLimits) {
        let (depth, count) = (limits.compress_depth, self.nodes.len());
        if depth == 0 {
            return;
        }
        for number in [depth - 1, count.wrapping_sub(depth)] {
            if let Some(node) = self.nodes.get_mut(number) {
                node.open();
            }
        }
        if count > 2 * depth {
            for number in [depth, count - 1 - depth] {
                if let Some(node) = self.nodes.get_mut(number) {
                    node.compress();
                }
            }
        }
    }

    fn insert(&mut self, position: usize, text: &[u8], limits: &ListLimits) {
        let Some((number, inner)) = self.find(position) else { return };
        self.len += 1;
        let node = &mut self.nodes[number];
        if node.accepts(text.len(), limits)
            && let Some(list) = node.open()
        {
            if let Some(at) = list.seek(inner as i64) {
                list.insert(at, text);
            }
            node.count += 1;
            return;
        }
        // Between two nodes, either neighbour may take the element; inside a node, the node is
        // split there first.
        let number = if inner > 0 { self.part(number, inner) } else { number };
        if let Some(before) = number.checked_sub(1)
            && self.nodes[before].accepts(text.len(), limits)
        {
            return self.nodes[before].push(text, false, limits);
        }
        if self.nodes.get(number).is_some_and(|node| node.accepts(text.len(), limits)) {
            return self.nodes[number].push(text, true, limits);
        }
        self.nodes.insert(number, Node::of(text, limits));
    }

    /// Splits a node before its element `inner`; returns the index of the second part.
    fn part(&mut self, number: usize, inner: usize) -> usize {
        let node = &mut self.nodes[number];
        if let Some(list) = node.open() {
            let at = list.seek(inner as i64).unwrap_or(list.end());
            let behind = Node::packed(list.split_off(at));
            node.count -= behind.count;
            self.nodes.insert(number + 1, behind);
        }
        number + 1
    }

    fn set(&mut self, position: usize, text: &[u8], limits: &ListLimits) {
        let Some((number, inner)) = self.find(position) else { return };
        let node = &mut self.nodes[number];
        let fits =
            !limits.is_large(text.len()) && limits.node_fits(node.byte_len() + text.len() + 8, node.count);
        if (fits || (node.count == 1 && node.is_packed() && !limits.is_large(text.len())))
            && let Some(list) = node.open()
        {
            if let Some(at) = list.seek(inner as i64) {
                list.replace(at, text);
            }
            return;
        }
        if node.count == 1 {
            *node = Node::of(text, limits);
            return;
        }
        self.remove_range(position, 1);
        if position >= self.len {
            self.push(End::Back, text, limits);
        } else if position == 0 {
            self.push(End::Front, text, limits);
        } else {
            self.insert(position, text, limits);
        }
    }

    fn remove_range(&mut self, position: usize, count: usize) {
        let Some((mut number, mut inner)) = self.find(position) else { return };
        let mut left = count;
        self.len -= count;
        // Removes whole nodes in the middle together; one by one, each removal would move all
        // later nodes.
        let mut whole = number..number;
        while left > 0 {
            let Some(node) = self.nodes.get_mut(number) else { break };
            let here = (node.count - inner).min(left);
            left -= here;
            if here == node.count {
                if whole.is_empty() {
                    whole = number..number;
                }
                whole.end = number + 1;
            } else {
                if let Some(list) = node.open() {
                    list.remove_range(inner as i64, here);
                }
                node.count -= here;
            }
            number += 1;
            inner = 0;
        }
        self.nodes.drain(whole);
    }

    fn remove_equal(&mut self, wanted: &Wanted<'_>, from_back: bool, most: usize) -> usize {
        let mut removed = 0;
        let count = self.nodes.len();
        for step in 0..count {
            if removed >= most {
                break;
            }
            let number = if from_back { count - 1 - step } else { step };
            let node = &mut self.nodes[number];
            let here = match node.body() {
                Body::Plain(text) => usize::from(wanted.is(Element::Bytes(text))),
                // A compressed block without the element stays compressed.
                _ if node.view().is_none_or(|list| list.find(wanted.text, 0, 0).is_none()) => 0,
                _ => {
                    node.open().map_or(0, |list| remove_equal_packed(list, wanted, from_back, most - removed))
                }
            };
            node.count -= here;
            removed += here;
        }
        if removed > 0 {
            self.len -= removed;
            self.nodes.retain(|node| node.count > 0);
        }
        removed
    }
}
