// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the GEO commands. The expected replies are those of 7.0 stock servers (polygons:
//! Valkey 9.1).

use braid_commands::testing::{Tester, check, check_resp3};

const SICILY: &str = "GEOADD s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania";

#[test]
fn places() {
    check(&[
        (SICILY, ":2\r\n"),
        ("GEOADD s XX CH 13 38 Palermo 1 1 nowhere", ":1\r\n"),
        ("GEOADD s NX 1 1 Palermo 17.241510 38.788135 edge", ":1\r\n"),
        (SICILY, ":0\r\n"),
        ("ZSCORE s Palermo", "$16\r\n3479099956230698\r\n"),
        (
            "GEOPOS s Palermo none",
            "*2\r\n*2\r\n$20\r\n13.36138933897018433\r\n$20\r\n38.11555639549629859\r\n*-1\r\n",
        ),
        ("GEOHASH s Palermo Catania none", "*3\r\n$11\r\nsqc8b49rny0\r\n$11\r\nsqdtr74hyu0\r\n$-1\r\n"),
        ("GEODIST s Palermo Catania", "$11\r\n166274.1516\r\n"),
        ("GEODIST s Palermo Catania KM", "$8\r\n166.2742\r\n"),
        ("GEODIST s Palermo none", "$-1\r\n"),
        ("GEODIST none a b", "$-1\r\n"),
        ("GEODIST s a b x", "-ERR unsupported unit provided. please use M, KM, FT, MI\r\n"),
        ("GEODIST s a b m x", "-ERR syntax error\r\n"),
        ("GEOADD s 1 100 x", "-ERR invalid longitude,latitude pair 1.000000,100.000000\r\n"),
        ("GEOADD s 1 x y", "-ERR value is not a valid float\r\n"),
        ("GEOADD s NX XX 1 1 a", "-ERR syntax error\r\n"),
        ("GEOADD s 1 1 a 2", "-ERR syntax error\r\n"),
        ("GEOPOS none a", "*1\r\n*-1\r\n"),
        ("GEOPOS s", "*0\r\n"),
        ("SET t v", "+OK\r\n"),
        ("GEOPOS t a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ]);
    check_resp3(&[
        (SICILY, ":2\r\n"),
        ("GEOPOS s Palermo none", "*2\r\n*2\r\n,13.36138933897018433\r\n,38.11555639549629859\r\n_\r\n"),
    ]);
}

#[test]
fn circles_and_boxes() {
    let hash = "GEOSEARCH s FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHHASH";
    check(&[
        (SICILY, ":2\r\n"),
        ("GEOSEARCH s FROMLONLAT 15 37 BYRADIUS 200 km ASC", "*2\r\n$7\r\nCatania\r\n$7\r\nPalermo\r\n"),
        ("GEOSEARCH s FROMLONLAT 15 37 BYRADIUS 200 km DESC COUNT 1", "*1\r\n$7\r\nPalermo\r\n"),
        (
            hash,
            "*2\r\n*2\r\n$7\r\nCatania\r\n:3479447370796909\r\n*2\r\n$7\r\nPalermo\r\n:3479099956230698\r\n",
        ),
        (
            "GEOSEARCH s FROMMEMBER Catania BYBOX 10 10 m WITHDIST WITHCOORD",
            "*1\r\n*3\r\n$7\r\nCatania\r\n$6\r\n0.0000\r\n*2\r\n$20\r\n15.08726745843887329\r\n$20\r\n\
             37.50266842333162032\r\n",
        ),
        ("GEOSEARCH s FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 1 ANY", "*1\r\n$7\r\nPalermo\r\n"),
        (
            "GEORADIUS s 15 37 200 km WITHDIST ASC",
            "*2\r\n*2\r\n$7\r\nCatania\r\n$7\r\n56.4413\r\n*2\r\n$7\r\nPalermo\r\n$8\r\n190.4424\r\n",
        ),
        ("GEORADIUS_RO s 15 37 100 km", "*1\r\n$7\r\nCatania\r\n"),
        ("GEORADIUSBYMEMBER s Palermo 1 m", "*1\r\n$7\r\nPalermo\r\n"),
        ("GEORADIUSBYMEMBER_RO none x what ever", "*0\r\n"),
        ("GEORADIUS s 15 37 200 km STORE to", ":2\r\n"),
        ("ZSCORE to Palermo", "$16\r\n3479099956230698\r\n"),
        ("GEORADIUS s 15 37 100 km STORE other STOREDIST to", ":1\r\n"),
        ("ZCARD to", ":1\r\n"),
        ("EXISTS other", ":0\r\n"),
        ("ZRANGEBYSCORE to (56.4412 (56.4413", "*1\r\n$7\r\nCatania\r\n"),
        ("GEOSEARCHSTORE to s FROMLONLAT 15 37 BYRADIUS 1 m", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("GEOSEARCHSTORE s s FROMLONLAT 15 37 BYRADIUS 100 km STOREDIST", ":1\r\n"),
        ("ZCARD s", ":1\r\n"),
    ]);
}

#[test]
fn polygons() {
    check(&[
        (SICILY, ":2\r\n"),
        (
            "GEOSEARCH s BYPOLYGON 4 12 37 12 39 16 39 16 37 ASC WITHDIST",
            "*2\r\n*2\r\n$7\r\nPalermo\r\n$10\r\n56987.4933\r\n*2\r\n$7\r\nCatania\r\n$11\r\n111411.0839\r\n",
        ),
        (
            "GEOSEARCH s DESC COUNT 1 WITHHASH WITHDIST WITHCOORD BYPOLYGON 4 12 37 12 39 16 39 16 37",
            "*1\r\n*4\r\n$7\r\nCatania\r\n$11\r\n111411.0839\r\n:3479447370796909\r\n*2\r\n\
             $20\r\n15.08726745843887329\r\n$20\r\n37.50266842333162032\r\n",
        ),
        ("GEOSEARCH s BYPOLYGON 4 12 37 12 39 16 39 16 37 COUNT 1 ANY", "*1\r\n$7\r\nPalermo\r\n"),
        ("GEOSEARCHSTORE to s BYPOLYGON 4 12 37 12 39 14 39 14 37", ":1\r\n"),
        ("ZSCORE to Palermo", "$16\r\n3479099956230698\r\n"),
        ("GEOSEARCHSTORE to s BYPOLYGON 4 12 37 12 39 16 39 16 37 STOREDIST", ":2\r\n"),
        ("ZSCORE to Palermo", "$20\r\n5.698749327453733e+4\r\n"),
        ("ZSCORE to Catania", "$21\r\n1.1141108391561486e+5\r\n"),
        ("GEOSEARCH s BYPOLYGON 3 12 37 14 38 16 39", "*0\r\n"),
        ("GEOSEARCH s BYPOLYGON 3 13 38 13 38 13 38", "*0\r\n"),
        ("GEOSEARCHSTORE to none BYPOLYGON 3 12 37 12 39 16 39", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        // The last of several polygons counts.
        ("GEOSEARCH s BYPOLYGON 3 1 1 1 2 2 2 BYPOLYGON 3 12 37 12 39 16 39", "*1\r\n$7\r\nPalermo\r\n"),
    ]);
}

/// An edge goes from -170 to 170 degrees by way of 0. Valkey nevertheless takes 180 degrees for the
/// centre, and looks for members only around it.
#[test]
fn polygons_around_the_globe() {
    check(&[
        (SICILY, ":2\r\n"),
        ("GEOADD s 175 40 east -175 40 west", ":2\r\n"),
        (
            "GEOSEARCH s BYPOLYGON 4 -170 30 -170 45 170 45 170 30 ASC",
            "*2\r\n$7\r\nPalermo\r\n$7\r\nCatania\r\n",
        ),
        (
            "GEOSEARCH s BYPOLYGON 5 -170 30 0 30 170 30 170 45 -170 45 ASC",
            "*2\r\n$7\r\nPalermo\r\n$7\r\nCatania\r\n",
        ),
        // The centre is the north pole; there the reply of Valkey depends on uninitialized memory.
        ("GEOSEARCH s BYPOLYGON 6 -180 85 -167 30 -154 85 0 85 13 30 26 85", "*1\r\n$7\r\nPalermo\r\n"),
    ]);
}

#[test]
fn refused_polygons() {
    let few = "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices\r\n";
    let number = "-ERR invalid number of vertices\r\n";
    let float = "-ERR value is not a valid float\r\n";
    let syntax = "-ERR syntax error\r\n";
    let with = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    let mut tester = Tester::new();
    tester.run(SICILY);
    tester.check(&[
        ("GEOSEARCH s BYPOLYGON 2 12 37 12 39", few),
        ("GEOSEARCH s BYPOLYGON -1 12 37 12 39", few),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 1", few),
        ("GEOSEARCH s BYPOLYGON 4 12 37 12 39 16 39 ASC", few),
        ("GEOSEARCH s BYPOLYGON 2147483647 12 37 12 39 16 39", few),
        ("GEOSEARCH s BYPOLYGON 2147483648 12 37 12 39 16 39", number),
        ("GEOSEARCH s BYPOLYGON 9223372036854775807 12 37 12 39 16 39", number),
        ("GEOSEARCH s BYPOLYGON x 12 37 12 39", number),
        ("GEOSEARCH s BYPOLYGON 3.0 12 37 12 39 16 39", number),
        ("GEOSEARCH s ASC ASC ASC BYPOLYGON x", syntax),
        ("GEOSEARCH s ASC ASC ASC BYPOLYGON x 12", number),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 x 39", float),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 nan 39", float),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 0x10 39", float),
        (
            "GEOSEARCH s BYPOLYGON 3 12 37 12 99 x 39",
            "-ERR invalid longitude,latitude pair 12.000000,99.000000\r\n",
        ),
        (
            "GEOSEARCH s BYPOLYGON 3 12 37 12 39 -inf 39",
            "-ERR invalid longitude,latitude pair -inf,39.000000\r\n",
        ),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 16 39 7", syntax),
        ("GEOSEARCH s FROMLONLAT 1 1 BYPOLYGON 3 12 37 12 39 16 39", syntax),
        ("GEOSEARCH s FROMMEMBER Palermo BYPOLYGON 3 12 37 12 39 16 39", syntax),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 16 39 FROMMEMBER none", syntax),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 16 39 BYRADIUS 1 m", syntax),
        ("GEOSEARCH s BYBOX 1 1 m BYPOLYGON 3 12 37 12 39 16 39", syntax),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 16 39 STOREDIST", syntax),
        ("GEOSEARCH s BYPOLYGON 3 12 37 12 39 16 39 COUNT 0", "-ERR COUNT must be > 0\r\n"),
        (
            "GEOSEARCH none BYPOLYGON 3 12 37 12 39 16 39 ANY",
            "-ERR the ANY argument requires COUNT argument\r\n",
        ),
        (
            "GEOSEARCHSTORE d s BYPOLYGON 3 12 37 12 39 16 39 WITHDIST",
            &format!("-ERR GEOSEARCHSTORE {with}\r\n"),
        ),
    ]);
}

#[test]
fn refusals() {
    let with = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    let mut tester = Tester::new();
    tester.run(SICILY);
    tester.check(&[
        ("GEORADIUS s 1 1 x m", "-ERR need numeric radius\r\n"),
        ("GEORADIUS s 1 1 -1 m", "-ERR radius cannot be negative\r\n"),
        ("GEORADIUS s 1 1 1 m COUNT 0", "-ERR COUNT must be > 0\r\n"),
        ("GEORADIUS s 1 1 1 m ANY", "-ERR the ANY argument requires COUNT argument\r\n"),
        ("GEORADIUS_RO s 1 1 1 m STORE x", "-ERR syntax error\r\n"),
        ("GEORADIUSBYMEMBER s none 1 m", "-ERR could not decode requested zset member\r\n"),
        ("GEOSEARCH s FROMMEMBER none BYRADIUS 1 m", "-ERR could not decode requested zset member\r\n"),
        ("GEOSEARCH s FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 1 m", "-ERR syntax error\r\n"),
        ("GEOSEARCH s FROMMEMBER Palermo BYRADIUS 1 m BYBOX 1 1 m", "-ERR syntax error\r\n"),
        ("GEOSEARCH s FROMLONLAT 1 1 BYBOX 1 -1 m", "-ERR height or width cannot be negative\r\n"),
        (
            "GEOSEARCH s FROMMEMBER Palermo ASC WITHDIST ASC",
            "-ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH\r\n",
        ),
        (
            "GEOSEARCH s BYRADIUS 1 m ASC ASC",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH\r\n",
        ),
        ("GEOSEARCH s FROMLONLAT 1 1 BYRADIUS 1 m STOREDIST", "-ERR syntax error\r\n"),
        ("GEORADIUS s 1 1 1 m STORE d WITHDIST", &format!("-ERR STORE option in GEORADIUS {with}\r\n")),
        (
            "GEOSEARCHSTORE d s FROMLONLAT 1 1 BYRADIUS 1 m WITHHASH",
            &format!("-ERR GEOSEARCHSTORE {with}\r\n"),
        ),
    ]);
}

#[test]
fn scores_that_no_position_has() {
    check(&[
        ("ZADD z -1 a -2 b -1e300 c 1e300 d 9007199254740993 e", ":5\r\n"),
        (
            "GEOHASH z a b c d e",
            "*5\r\n$11\r\nbp05b5048p0\r\n$11\r\nbp05b5048p0\r\n$11\r\n00bh0hbj200\r\n$11\r\n00bh0hbj200\r\n\
             $11\r\n00bh0hbj200\r\n",
        ),
    ]);
}
