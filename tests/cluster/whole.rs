// SPDX-License-Identifier: BSD-3-Clause
//! Cluster-wide state: published messages, settings, users and functions.

use braid_tests::{RawClient, Value};

use crate::Cluster;

fn text(client: &mut RawClient, request: &str) -> String {
    client.call(request).to_string()
}

/// The next numbers that a subscriber receives.
fn numbers(listener: &mut RawClient, count: usize) -> Vec<u64> {
    let number = |listener: &mut RawClient| {
        let message = listener.read().to_string();
        let words: Vec<&str> = message.split('"').collect();
        words[words.len() - 2].parse().unwrap_or_else(|_| panic!("{message}"))
    };
    (0..count).map(|_| number(listener)).collect()
}

#[test]
fn a_message_reaches_the_subscribers_of_all_nodes() {
    const COUNT: usize = 2000;
    let Some(mut cluster) = Cluster::create(3, 2, &[]) else { return };
    for index in 0..3 {
        cluster.wait_for("all nodes are alive", || {
            let lines = cluster.lines(index);
            lines.len() == 3 && !lines.iter().any(|line| line.contains("fail"))
        });
    }
    let mut listeners: Vec<RawClient> = (0..3).map(|index| cluster.client(index)).collect();
    for listener in &mut listeners {
        listener.call("SUBSCRIBE news");
    }
    // The first message establishes the connections.
    let mut publisher = cluster.client(0);
    for number in 0..COUNT {
        assert_eq!(
            publisher.call(&format!("PUBLISH news {number}")),
            Value::Integer(1),
            "only subscribers of this node are counted"
        );
    }
    let expected: Vec<u64> = (0..COUNT as u64).collect();
    for listener in &mut listeners {
        assert_eq!(numbers(listener, COUNT), expected, "messages arrive once and in order");
    }
    // Also from a replica, to pattern subscribers, and from scripts.
    listeners[0].call("PSUBSCRIBE n?ws");
    assert_eq!(
        cluster.client(2).call("EVAL \"return redis.call('publish','news','7')\" 0"),
        Value::Integer(1)
    );
    assert_eq!(numbers(&mut listeners[0], 2), [7, 7]);
    assert_eq!(numbers(&mut listeners[1], 1), [7]);
    assert_eq!(numbers(&mut listeners[2], 1), [7]);
    let info = cluster.client(0).call("CLUSTER INFO").text();
    assert!(info.contains(&format!("cluster_stats_messages_publish_sent:{}", 2 * COUNT)), "{info}");
    assert!(text(&mut cluster.client(0), "CLUSTER LINKS").contains(&cluster.id(1)));
    // Keyspace events stay on their node.
    for index in 0..3 {
        cluster.client(index).ok("CONFIG SET notify-keyspace-events KEA");
    }
    listeners[1].call("PSUBSCRIBE __key*");
    cluster.client(0).ok("SET hello 1");
    cluster.client(0).call("PUBLISH news 8");
    assert_eq!(numbers(&mut listeners[1], 1), [8]);
    // A dead node delays nothing, and receives messages again once it is back.
    cluster.nodes[1].signal(rustix::process::Signal::KILL);
    cluster.nodes[1].wait();
    assert_eq!(publisher.call("PUBLISH news 9"), Value::Integer(2));
    assert_eq!(numbers(&mut listeners[2], 2), [8, 9]);
    cluster.restart(1);
    let mut back = cluster.client(1);
    back.call("SUBSCRIBE news");
    cluster.wait_for("messages reach the restarted node", || {
        publisher.call("PUBLISH news 10");
        !back.read_arrived().is_empty()
    });
}

#[test]
fn settings_users_and_functions_apply_cluster_wide() {
    let Some(mut cluster) = Cluster::create(4, 2, &[]) else { return };
    let mut client = cluster.client(0);
    client.ok("CONFIG SET slowlog-max-len 77 maxmemory-policy allkeys-lru CLUSTER");
    client.ok("ACL SETUSER reader on >secret ~* &* +get +ping +select (~x:* +set) CLUSTER");
    let code = "#!lua name=lib\\nredis.register_function{function_name='f', callback=function() return 'one' end, flags={'no-writes'}}";
    assert_eq!(client.call(&format!("FUNCTION LOAD CLUSTER \"{code}\"")), Value::Bulk("lib".into()));
    let goes_by_them = |cluster: &Cluster, index: usize| {
        let mut client = cluster.client(index);
        let value = text(&mut client, "CONFIG GET slowlog-max-len");
        let can_log_in = client.call("AUTH reader secret") == Value::ok();
        value.contains("\"77\"") && can_log_in
    };
    for index in 0..4 {
        cluster.wait_for("the node applies the settings", || goes_by_them(&cluster, index));
    }
    let calls = |cluster: &Cluster, index: usize, what: &str| {
        let mut client = cluster.client(index);
        text(&mut client, "FCALL f 0").contains(what)
    };
    for index in 0..4 {
        cluster.wait_for("the node has the function", || calls(&cluster, index, "one"));
    }
    let mut reader = cluster.client(1);
    reader.ok("AUTH reader secret");
    assert!(text(&mut reader, "SET foo 1").contains("NOPERM"), "{}", text(&mut client, "ACL LIST"));
    // A refused request is not written anywhere.
    for (request, error) in [
        ("CONFIG SET port 1 CLUSTER", "differs between nodes"),
        ("CONFIG SET maxmemory x CLUSTER", "CONFIG SET failed"),
        ("CONFIG SET nosuch 1 CLUSTER", "Unknown option"),
        ("CONFIG SET maxmemory CLUSTER", "syntax error"),
        ("ACL SETUSER u +nosuch CLUSTER", "Unknown command"),
        ("FUNCTION LOAD CLUSTER x", "Missing library metadata"),
        ("CLUSTER SETTINGS FORGET x y", "syntax error"),
        ("CLUSTER SETTINGS DELETE LIBRARY nosuch", "Library not found"),
    ] {
        let reply = text(&mut client, request);
        assert!(reply.contains(error), "{request}: {reply}");
    }
    assert_eq!(client.info_field("cluster", "cluster_settings"), Some("4".into()));
    assert_eq!(client.info_field("cluster", "cluster_settings_failed"), Some("0".into()));
    // A node's own change stays on that node, until the record changes.
    cluster.client(1).ok("CONFIG SET slowlog-max-len 5");
    client.ok("CONFIG SET slowlog-log-slower-than 123 CLUSTER");
    cluster.wait_for("the other setting has arrived", || {
        text(&mut cluster.client(1), "CONFIG GET slowlog-log-slower-than").contains("123")
    });
    assert!(text(&mut cluster.client(1), "CONFIG GET slowlog-max-len").contains("\"5\""));
    // A node that was away adopts the changes and deletions made meanwhile.
    cluster.wait_for("its replica is in sync", || {
        cluster.client(1).info("group").contains("group_in_sync:n1,n3")
    });
    cluster.nodes[1].signal(rustix::process::Signal::KILL);
    cluster.nodes[1].wait();
    assert_eq!(client.call("ACL DELUSER reader CLUSTER"), Value::Integer(1));
    let code = code.replace("one", "two");
    client.call(&format!("FUNCTION LOAD REPLACE CLUSTER \"{code}\""));
    client.ok("CONFIG SET slowlog-max-len 78 CLUSTER");
    cluster.restart(1);
    cluster.wait_for("the node has applied the records", || {
        text(&mut cluster.client(1), "CONFIG GET slowlog-max-len").contains("\"78\"")
            && calls(&cluster, 1, "two")
    });
    assert!(text(&mut cluster.client(1), "AUTH reader secret").contains("WRONGPASS"));
    client.ok("CLUSTER SETTINGS DELETE LIBRARY lib");
    for index in 0..4 {
        cluster.wait_for("the function is deleted", || calls(&cluster, index, "Function not found"));
    }
    // A record that cannot be applied is reported, and does not hold up others.
    cluster.put_record("setting/nosuch", "{\"value\": \"1\"}");
    client.ok("CONFIG SET slowlog-max-len 79 CLUSTER");
    assert_eq!(client.info_field("cluster", "cluster_settings_failed"), Some("1".into()));
    assert!(text(&mut client, "CLUSTER SETTINGS").contains("Unknown option"));
    assert_eq!(client.call("CLUSTER SETTINGS FORGET setting nosuch"), Value::Integer(1));
    cluster.wait_for("the record is forgotten", || {
        cluster.client(0).info_field("cluster", "cluster_settings_failed") == Some("0".into())
    });
}
