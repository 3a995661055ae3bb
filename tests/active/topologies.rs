// SPDX-License-Identifier: BSD-3-Clause
//! Three to five servers: meshes, and rings in which each server pulls from one neighbour only.

use super::{link, link_all, server, wait_until_equal};
use braid_tests::{TestServer, Value};

/// Each server writes, partly to shared keys.
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
            client.call("XADD stream * f v");
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
    let writes = 60 * servers.len() as i64;
    assert_eq!(client.call("GET counter").text(), writes.to_string());
    assert_eq!(client.call("LLEN list"), Value::Integer(writes));
    assert_eq!(client.call("ZSCORE board player0").text(), (writes / 3).to_string());
    assert_eq!(client.call("XLEN stream"), Value::Integer(writes));
}

#[test]
fn a_mesh_of_three() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link_all(&[&one, &two, &three]);
    check(&[&one, &two, &three]);
}

/// Starts `count` servers.
fn servers(count: u8) -> Vec<TestServer> {
    (1..=count).map(|region| server(region, &[])).collect()
}

fn check_ring(count: u8) {
    let servers = servers(count);
    for (server, next) in servers.iter().zip(servers.iter().cycle().skip(1)) {
        link(server, &[next.port()]);
    }
    check(&servers.iter().collect::<Vec<_>>());
}

#[test]
fn a_ring_of_three() {
    check_ring(3);
}

#[test]
fn a_ring_of_five() {
    check_ring(5);
}

#[test]
fn a_mesh_of_five() {
    let servers = servers(5);
    let all: Vec<&TestServer> = servers.iter().collect();
    link_all(&all);
    check(&all);
}

#[test]
fn forgotten_region_keeps_its_data_and_cannot_rejoin() {
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
    braid_tests::wait_for("the region number to be refused", || {
        again.log().contains("region 3 was removed by ACTIVE FORGET")
    });
}
