// SPDX-License-Identifier: BSD-3-Clause
//! Lists in dump files: element by element, or as nodes of packed lists.

use std::io;

use braid_containers::listpack::Element;
use braid_keyspace::object::Object;
use braid_rdb::{
    Error, Fault, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm, ziplist,
};

use super::{End, List, SavedNode};

/// Codes for the container of a list node.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Elements one by one.
static ELEMENTS: ValueForm = ValueForm::new(1, "List", &[Part::Members(&[Part::Text])]);
static ZIPLIST: ValueForm = ValueForm::new(10, "ListZiplist", &[Part::Text]).packed();
/// Nodes of ziplists.
static ZIPLIST_NODES: ValueForm =
    ValueForm::new(14, "ListNodesOfZiplists", &[Part::Members(&[Part::Text])]).packed();
/// Nodes of packed lists or single elements.
static NODES: ValueForm = ValueForm::new(18, "ListNodes", &[Part::Members(&[Part::Number, Part::Text])])
    .packed()
    .with_packed_head(&[1, PACKED]);

pub(super) static FORMS: &[&ValueForm] = &[&ELEMENTS, &ZIPLIST, &ZIPLIST_NODES, &NODES];

impl SavedObject for List {
    fn form(&self, target: Target) -> &'static ValueForm {
        // A server of that era packs elements when it loads them.
        if target == Target::KeyDb { &ELEMENTS } else { &NODES }
    }

    fn encode(&self, form: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if form.number == ELEMENTS.number {
            return elements(self, out);
        }
        out.length(self.node_count() as u64)?;
        for node in self.nodes() {
            match node {
                SavedNode::Packed(block) => {
                    out.length(PACKED)?;
                    out.string(block.bytes())?;
                }
                SavedNode::Plain(text) => {
                    out.length(PLAIN)?;
                    out.string(text)?;
                }
            }
        }
        Ok(())
    }

    fn take_packed(&self, out: &mut Vec<u8>) -> bool {
        self.as_listpack().map(|list| out.extend_from_slice(list.bytes())).is_some()
    }

    fn member_count(&self) -> usize {
        self.len()
    }
}

fn elements(list: &List, out: &mut ValueEncoder<'_>) -> io::Result<()> {
    out.length(list.len() as u64)?;
    let mut written = Ok(());
    list.range(0, list.len(), |element: Element<'_>| {
        if written.is_ok() {
            written = out.string(element.text(&mut itoa::Buffer::new()));
        }
    });
    written
}

/// Reads a list in any of its forms.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let list = match kind.number() {
        1 => list(decoder, limits),
        10 => list_ziplist(decoder, limits),
        14 => list_nodes(decoder, limits, true),
        _ => list_nodes(decoder, limits, false),
    };
    list.map(Object::new)
}

fn list(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<List, Error> {
    let mut list = List::new();
    for _ in 0..decoder.members(1)? {
        list.push(End::Back, decoder.string()?, &limits.list);
    }
    Ok(list)
}

fn list_ziplist(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<List, Error> {
    let mut list = List::new();
    let read = ziplist::read(decoder.string()?, |element| {
        list.push(End::Back, element.text(&mut itoa::Buffer::new()), &limits.list);
        true
    });
    decoder.ensure(read.is_some(), "List ziplist integrity check failed")?;
    if list.is_empty() { Err(decoder.error(Fault::Empty)) } else { Ok(list) }
}

fn list_nodes(decoder: &mut ValueDecoder<'_>, limits: &Limits, of_ziplists: bool) -> Result<List, Error> {
    let mut list = List::new();
    let what = if of_ziplists { "Ziplist integrity check failed" } else { "Listpack integrity check failed" };
    for _ in 0..decoder.members(1)? {
        match if of_ziplists { PACKED } else { decoder.length()? } {
            PACKED => {
                let node = decoder.packed(of_ziplists, what)?;
                list.load_node(SavedNode::Packed(std::borrow::Cow::Owned(node)));
            }
            PLAIN => {
                let position = decoder.position();
                let text = decoder.string()?;
                if text.is_empty() {
                    let fault = Fault::Corrupt("a list's node without content");
                    return Err(Error { position, fault });
                }
                list.load_node(SavedNode::Plain(text));
            }
            _ => return Err(decoder.corrupt("Quicklist integrity check failed: a node of an unknown form")),
        }
    }
    if list.is_empty() {
        return Err(decoder.error(Fault::Empty));
    }
    list.loaded(&limits.list);
    Ok(list)
}
