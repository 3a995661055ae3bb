// SPDX-License-Identifier: BSD-3-Clause
//! Rows of the GEO commands.

use braid_executor::{Handler, Row};
use braid_spec::{Begin, Find, Flags, Group, KeyFlags, KeySpec};

use super::{place, radius, search};

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];

const SEARCH_HISTORY: &[(&str, &str)] =
    &[("7.0.0", "Units in capitals."), ("9.0.0", "New option `BYPOLYGON`.")];

/// Rows of the GEO commands.
pub const COMMANDS: &[Row] = &[
    Row::new("geoadd", Group::Geo, place::geoadd)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "3.2.0",
            "Adds places with their coordinates to a geospatial index, or moves them; creates the key if \
             it does not exist.",
            "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        )
        .syntax(
            "key:key#0 [condition:(NX|XX)@6.2.0] [change=CH@6.2.0] data:{longitude:double \
             latitude:double member:string}...",
        )
        .history(&[("6.2.0", "New options `CH`, `NX` and `XX`.")]),
    reads("geodist", place::geodist)
        .at_least(4)
        .docs("3.2.0", "Returns the distance between two places of a geospatial index.", "O(1)")
        .syntax("key:key#0 member1:string member2:string [unit:(m=m|km=km|ft=ft|mi=mi)]"),
    reads("geohash", place::geohash)
        .at_least(2)
        .docs(
            "3.2.0",
            "Returns the geohashes of places of a geospatial index as text.",
            "O(1) for each member requested.",
        )
        .syntax("key:key#0 [member:string...]"),
    reads("geopos", place::geopos)
        .at_least(2)
        .docs(
            "3.2.0",
            "Returns the coordinates of places of a geospatial index.",
            "O(1) for each member requested.",
        )
        .syntax("key:key#0 [member:string...]"),
    Row::new("georadius", Group::Geo, radius::georadius)
        .at_least(6)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS))
        .keys(&[
            KeySpec::at(1, READ),
            KeySpec {
                flags: KeyFlags::OW.and(KeyFlags::UPDATE),
                begin: Begin::Keyword { word: "STORE", from: 6 },
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: KeyFlags::OW.and(KeyFlags::UPDATE),
                begin: Begin::Keyword { word: "STOREDIST", from: 6 },
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
        ])
        .find_keys(radius::keys)
        .docs(
            "3.2.0",
            "Finds the places within a distance from coordinates; optionally stores the result.",
            "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
             delimited by center and radius and M is the number of items inside the index.",
        )
        .syntax(
            "key:key#0 longitude:double latitude:double radius:double unit:(m=m|km=km|ft=ft|mi=mi) \
             [WITHCOORD] [WITHDIST] [WITHHASH] [count-block:{COUNT count:integer [ANY@6.2.0]}] \
             [order:(ASC|DESC)] [store:(STORE storekey:key#1/key|STOREDIST storedistkey:key#2/key)]",
        )
        .history(&[("6.2.0", "New option `ANY` of `COUNT`."), ("7.0.0", "Units in capitals.")])
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"),
    reads("georadius_ro", radius::georadius_ro)
        .at_least(6)
        .docs(
            "3.2.10",
            "Finds the places within a distance from coordinates.",
            "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
             delimited by center and radius and M is the number of items inside the index.",
        )
        .syntax(
            "key:key#0 longitude:double latitude:double radius:double unit:(m=m|km=km|ft=ft|mi=mi) \
             [WITHCOORD] [WITHDIST] [WITHHASH] [count-block:{COUNT count:integer [ANY@6.2.0]}] \
             [order:(ASC|DESC)]",
        )
        .history(&[("6.2.0", "New option `ANY` of `COUNT`.")])
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
    Row::new("georadiusbymember", Group::Geo, radius::georadiusbymember)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS))
        .keys(&[
            KeySpec::at(1, READ),
            KeySpec {
                flags: KeyFlags::OW.and(KeyFlags::UPDATE),
                begin: Begin::Keyword { word: "STORE", from: 5 },
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: KeyFlags::OW.and(KeyFlags::UPDATE),
                begin: Begin::Keyword { word: "STOREDIST", from: 5 },
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
        ])
        .find_keys(radius::keys)
        .docs(
            "3.2.0",
            "Finds the places within a distance from another place; optionally stores the result.",
            "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
             delimited by center and radius and M is the number of items inside the index.",
        )
        .syntax(
            "key:key#0 member:string radius:double unit:(m=m|km=km|ft=ft|mi=mi) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count-block:{COUNT count:integer [ANY]}] [order:(ASC|DESC)] [store:(STORE \
             storekey:key#1/key|STOREDIST storedistkey:key#2/key)]",
        )
        .history(&[("7.0.0", "Units in capitals.")])
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        ),
    reads("georadiusbymember_ro", radius::georadiusbymember_ro)
        .at_least(5)
        .docs(
            "3.2.10",
            "Finds the places within a distance from another place.",
            "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
             delimited by center and radius and M is the number of items inside the index.",
        )
        .syntax(
            "key:key#0 member:string radius:double unit:(m=m|km=km|ft=ft|mi=mi) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count-block:{COUNT count:integer [ANY]}] [order:(ASC|DESC)]",
        )
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    reads("geosearch", search::geosearch)
        .at_least(7)
        .docs(
            "6.2.0",
            "Finds the places inside a circle, a box or a polygon.",
            "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around \
             the shape provided as the filter and M is the number of items inside the shape",
        )
        .syntax(
            "key:key#0 [from:(FROMMEMBER member:string|FROMLONLAT fromlonlat:{longitude:double \
             latitude:double})] by:(circle:{BYRADIUS radius:double \
             unit:(m=m|km=km|ft=ft|mi=mi)}|box:{BYBOX width:double height:double \
             unit:(m=m|km=km|ft=ft|mi=mi)}|polygon:{BYPOLYGON num-vertices:integer \
             vertices:{longitude:double latitude:double}...}@9.0.0) [order:(ASC|DESC)] \
             [count-block:{COUNT count:integer [ANY]}] [WITHCOORD] [WITHDIST] [WITHHASH]",
        )
        .history(SEARCH_HISTORY),
    Row::new("geosearchstore", Group::Geo, search::geosearchstore)
        .at_least(8)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[
            KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE)),
            KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS)),
        ])
        .docs(
            "6.2.0",
            "Finds the places inside a circle, a box or a polygon, and stores them.",
            "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around \
             the shape provided as the filter and M is the number of items inside the shape",
        )
        .syntax(
            "destination:key#0 source:key#1 [from:(FROMMEMBER member:string|FROMLONLAT \
             fromlonlat:{longitude:double latitude:double})] by:(circle:{BYRADIUS radius:double \
             unit:(m=m|km=km|ft=ft|mi=mi)}|box:{BYBOX width:double height:double \
             unit:(m=m|km=km|ft=ft|mi=mi)}|polygon:{BYPOLYGON num-vertices:integer \
             vertices:{longitude:double latitude:double}...}@9.0.0) [order:(ASC|DESC)] \
             [count-block:{COUNT count:integer [ANY]}] [STOREDIST]",
        )
        .history(SEARCH_HISTORY),
];

const fn reads(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Geo, handler).flags(Flags::READONLY).keys(READ_ONE)
}
