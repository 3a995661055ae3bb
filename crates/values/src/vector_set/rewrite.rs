// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets as requests: RESTORE of the whole with its links; if that is too large for a
//! request, VADD of each element.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_rdb::{Format, ValueRef};
use braid_resp::request;
use braid_vectors::Quantisation;

use super::value::VectorSet;

/// Largest set that is written as one request, in bytes of memory.
const WHOLE_MAX: usize = 256 << 20;

pub(super) fn rewrite(set: &VectorSet, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    // A projected vector cannot be added again: what was projected is not known.
    if set.memory_bytes() <= WHOLE_MAX || set.projection().is_some() {
        let payload = braid_rdb::dump(ValueRef::Object(set), Format::default(), false);
        request::push(out.buffer(), &[b"RESTORE", name, b"0", &payload]);
        return out.complete();
    }
    let shape = set.graph().shape();
    let kind: &[u8] = match shape.quantisation {
        Quantisation::F32 => b"NOQUANT",
        Quantisation::I8 => b"Q8",
        Quantisation::Bin => b"BIN",
    };
    let mut links = itoa::Buffer::new();
    let links = links.format(shape.links).as_bytes();
    for id in 0..set.len() as u32 {
        let vector: Vec<u8> = set.graph().vector(id).iter().flat_map(|x| x.to_le_bytes()).collect();
        let (element, attribute) = set.name_and_attribute(id);
        let mut words: Vec<&[u8]> = vec![b"VADD", name, b"FP32", &vector, element, kind, b"M", links];
        words.extend(attribute.into_iter().flat_map(|attribute| [b"SETATTR", attribute]));
        request::push(out.buffer(), &words);
        out.complete()?;
    }
    Ok(())
}
