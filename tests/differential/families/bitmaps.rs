// SPDX-License-Identifier: BSD-3-Clause
//! Commands on the bits of strings.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "bitmaps", weight: 14, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
3x SETBIT {key} {bitoffset} {bit}
2x GETBIT {key} {bitoffset}
2x BITCOUNT {key} [{index} {index} [BIT | BYTE]]
BITCOUNT {key} {int} {int} [BIT | BYTE]
3x BITPOS {key} {bit} [{index} [{index} [BIT | BYTE]]]
BITPOS {key} {bit} {int} {int} [BIT | BYTE]
2x BITOP (AND | OR | XOR | NOT) {key} {keys}
BITOP NOT {key} {key}
4x BITFIELD {key} (GET {bittype} {bitfieldoffset} | SET {bittype} {bitfieldoffset} {int} | INCRBY \
    {bittype} {bitfieldoffset} {int} | OVERFLOW (WRAP | SAT | FAIL))+
2x BITFIELD_RO {key} (GET {bittype} {bitfieldoffset})+
BITFIELD_RO {key} SET u8 0 1
2x SET {key} {value}
GET {key}
STRLEN {key}
";
