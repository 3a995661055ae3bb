// SPDX-License-Identifier: BSD-3-Clause
//! Commands on geographic positions, which are sorted sets with encoded scores.

use crate::family::Family;

pub const FAMILY: Family = Family { name: "geo", weight: 6, key_prefix: "z", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
4x GEOADD {key} %([NX | XX] [CH]) ({longitude} {latitude} {member})+
GEODIST {key} {member} {member} [{unit}]
GEOPOS {key} {member}+
GEOHASH {key} {member}+
3x GEOSEARCH {key} %((FROMMEMBER {member} | FROMLONLAT {longitude} {latitude}) (BYRADIUS {radius} \
    {unit} | BYBOX {radius} {radius} {unit}) (ASC | DESC) [COUNT {positive}] [WITHCOORD] [WITHDIST] \
    [WITHHASH])
GEOSEARCHSTORE {key} {key} %((FROMMEMBER {member} | FROMLONLAT {longitude} {latitude}) (BYRADIUS \
    {radius} {unit} | BYBOX {radius} {radius} {unit}) ASC [COUNT {positive}] [STOREDIST])
GEORADIUS {key} {longitude} {latitude} {radius} {unit} %([WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
    {positive}] (ASC | DESC))
GEORADIUSBYMEMBER {key} {member} {radius} {unit} %([WITHCOORD] [WITHDIST] [COUNT {positive}] (ASC | DESC))
ZRANGE {key} 0 -1 WITHSCORES
DEL {key}
";
