// SPDX-License-Identifier: BSD-3-Clause
//! Three servers: a mesh, and a ring in which each takes from one neighbour only.

use super::{link, link_all, server, wait_until_equal};
use braid_tests::{TestServer, Value};

/// Each server writes, some of it to the same keys.
fn write(servers: &[&TestServer], round: u32) {
    for (index, server) in servers.iter().enumerate() {
        let mut client = server.connect();
        for number in 0..30 {
            client.call(&format!("SET own:{index}:{round}:{number} x"));
            client.call(&format!("SET shared:{} {index}:{round}", number % 7));
            client.call("INCR counter");
            client.call(&format!("RPUSH list {index}:{round}:{number}"));
            client.call(&format!("SADD set {}", number % 11));
            client.call(&format!("SREM set {}", (number + index) % 11));
            client.call(&format!("ZINCRBY board 1 player{}", number % 3));
        }
    }
}

fn check(servers: &[&TestServer]) {
    wait_until_equal(servers);
    for round in 0..2 {
        write(servers, round);
    }
    wait_until_equal(servers);
    let mut client = servers[0].connect();
    assert_eq!(client.call("GET counter").text(), "180");
    assert_eq!(client.call("LLEN list"), Value::Integer(180));
    assert_eq!(client.call("ZSCORE board player0").text(), "60");
}

#[test]
fn a_mesh_of_three() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link_all(&[&one, &two, &three]);
    check(&[&one, &two, &three]);
}

#[test]
fn a_ring_of_three() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link(&one, &[two.port()]);
    link(&two, &[three.port()]);
    link(&three, &[one.port()]);
    check(&[&one, &two, &three]);
}

#[test]
fn a_region_that_is_gone_for_good() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    {
        let three = server(3, &[]);
        link(&three, &[one.port()]);
        link(&one, &[two.port(), three.port()]);
        three.connect().ok("SET of-three x");
        wait_until_equal(&[&one, &two, &three]);
    }
    let refused = one.connect().call("ACTIVE FORGET 1");
    assert!(matches!(refused, Value::Error(_)), "{refused:?}");
    link(&one, &[two.port()]);
    for server in [&one, &two] {
        server.connect().ok("ACTIVE FORGET 3");
        assert_eq!(server.connect().call("GET of-three").text(), "x");
    }
    let again = server(3, &[]);
    link(&again, &[one.port()]);
    braid_tests::wait_for("the number is not taken again", || {
        again.log().contains("region 3 is the number of another server")
    });
}
