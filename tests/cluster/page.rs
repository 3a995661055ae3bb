// SPDX-License-Identifier: BSD-3-Clause
//! The metrics page of a node: shards with their slots, nodes, and moves. Without a browser the
//! test is skipped, or fails if `CI` is set.

use braid_tests::TestServer;
use braid_tests::browser::{self, Browser, lists, section};
use braid_tests::server::free_port;
use rustix::process::Signal;

use crate::Cluster;

/// A cluster of two shards, the first of which has a replica, and the port of the first node's
/// page.
fn start() -> Option<(Cluster, u16)> {
    let mut cluster = Cluster::start(0, &[])?;
    let ports = [free_port(), free_port(), free_port()];
    for port in ports {
        cluster.more = ["--metrics-port", &port.to_string()].map(String::from).into();
        cluster.add_node();
    }
    cluster.form(2);
    Some((cluster, ports[0]))
}

fn open(browser: &mut Browser, port: u16) {
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
}

/// JavaScript that is true if the panel's summary contains a text.
fn says(text: &str) -> String {
    format!("{}.querySelector('.hint').innerText.includes('{text}')", section("Cluster"))
}

#[test]
fn the_page_shows_the_cluster() {
    let Some(program) = browser::find() else {
        assert!(std::env::var_os("CI").is_none(), "there is no Chromium on PATH");
        println!("skipped: there is no Chromium on PATH");
        return;
    };
    let Some((mut cluster, page)) = start() else { return };
    let mut browser = Browser::start(&program);
    open(&mut browser, page);
    let panel = section("Cluster");
    browser.wait_for(&says("The cluster is healthy, 2 shards, 3 nodes, 16384 of 16384 slots served, epoch "));
    let node = |index: usize, rest: &str| {
        let this = if index == 0 { " .this." } else { "" };
        lists("Cluster", &format!("^n{index}{this}\\t127.0.0.1:{}\\t{rest}$", cluster.nodes[index].port()))
    };
    browser.wait_for(&node(0, "primary\\tup\\t0-8191 .8192."));
    browser.wait_for(&node(1, "primary\\tup\\t8192-16383 .8192."));
    browser.wait_for(&node(2, "replica\\tup\\t"));
    // Every slot is drawn once, in the colour of its shard.
    let drawn = |ranges: usize, colours: usize| {
        format!(
            "(() => {{
                const parts = [...{panel}.querySelectorAll('rect.slots')];
                return parts.length === {ranges} && new Set(parts.map(part => part.getAttribute('fill'))).size === {colours}
                    && parts.reduce((all, part) => all + Number(part.getAttribute('width')), 0) === 16384;
            }})()"
        )
    };
    browser.wait_for(&drawn(2, 2));
    // The group panel shows the shard.
    for words in ["2 of 2 in sync, ", ", 1 node in other shards."] {
        browser
            .wait_for(&format!("{}.querySelector('.hint').innerText.includes('{words}')", section("Group")));
    }
    browser.wait_for(&lists("Group", "^n2\\t127.0.0.1:"));
    assert_eq!(browser.evaluate(&lists("Group", "^n1\\t")), false);
    cluster.move_slots(0, 1, "0 99");
    browser.wait_for(&lists("Cluster", "^0-99\\tn0\\tn1\\tsuccess\\tpaused "));
    browser.wait_for(&node(0, "primary\\tup\\t100-8191 .8092."));
    browser.wait_for(&node(1, "primary\\tup\\t0-99, 8192-16383 .8292."));
    browser.wait_for(&drawn(3, 2));
    // A real move is too short to be caught, so show a made-up one.
    let bar = browser.evaluate(&format!(
        "(() => {{
            const one = {{ slots: [[0, 99]], source: 'n1', target: 'n0', state: 'snapshotting', is_over: false, message: '',
                keys: 3000, keys_total: 4000, behind_bytes: 2048, pause_ms: 0 }};
            showCluster({{ is_ok: true, epoch: 1, assigned_slots: 100, lost_slots: 0, nodes: 0, failed_nodes: 0, shards: [], moves: [one] }});
            return [{panel}.querySelector('progress').value, {panel}.querySelectorAll('rect.moving').length,
                {panel}.querySelector('table:last-of-type').innerText];
        }})()"
    ));
    assert_eq!((bar[0].as_f64(), bar[1].as_u64()), (Some(0.75), Some(1)));
    let text = bar[2].as_str().expect("text");
    assert!(text.contains("snapshotting\t2.00 KiB\t3.00k") && text.contains("75 %"), "{text}");
    browser.wait_for_every_width(&format!(
        "{panel}.querySelector('svg').clientWidth > 200 && {panel}.querySelectorAll('td').length > 10"
    ));
    cluster.nodes[2].signal(Signal::KILL);
    cluster.nodes[2].wait();
    browser.wait_for(&says("3 nodes, 1 down"));
    browser.wait_for(&lists("Cluster", "^n2\\t.*\\treplica\\tdown\\t$"));
    assert_eq!(browser.complaints(), &[] as &[String]);
    // A server that is a cluster by itself; a server without cluster mode has no such panel.
    let port = free_port();
    let alone = TestServer::start(&["--metrics-port", &port.to_string(), "--cluster-enabled", "yes"]);
    open(&mut browser, port);
    browser.wait_for(&says("The cluster is healthy, 1 shard, 1 node, 16384 of 16384 slots served"));
    browser.wait_for(&lists("Cluster", "^this server\\t-\\tprimary\\tup\\t0-16383 .16384.$"));
    drop(alone);
    let port = free_port();
    let _none = TestServer::start(&["--metrics-port", &port.to_string()]);
    open(&mut browser, port);
    browser.wait_for(&format!("{}.querySelector('.hint').innerText.length > 0", section("Replication")));
    assert_eq!(browser.evaluate(&format!("{panel}.checkVisibility()")), false);
}
