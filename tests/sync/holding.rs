// SPDX-License-Identifier: BSD-3-Clause
//! Which replies wait, for which members, and until when.

use braid_tests::{Value, request, wait_for};

use crate::{Group, Member, assert_held, integer, send_held};

#[test]
fn a_reply_waits_for_all_members() {
    let (mut group, mut members) = Group::with(&["a/1", "b/1"], &[]);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    assert_eq!(group.admin.call("GET k").text(), "1", "the held write was not executed");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_held(&mut client);
    let before = members[1].offset();
    members[1].catch_up(&mut group.admin);
    members[1].acknowledge_at(before + 1);
    assert_held(&mut client);
    members[1].acknowledge();
    assert_eq!(client.read().text(), "OK");
    // All changes are acknowledged now, so reads are not held.
    assert_eq!(client.call("GET k").text(), "1");
}

#[test]
fn members_get_getack_immediately_but_one_at_a_time() {
    let (group, mut members) = Group::with(&["a/1"], &[]);
    let (mut client, mut other) = (group.durable(), group.durable());
    client.send(&request("SET k 1"));
    members[0].read_until("$6\r\nGETACK\r\n$1\r\n*\r\n");
    let asked = members[0].offset();
    other.send(&request("SET k 2"));
    members[0].read_until("$1\r\n2\r\n");
    let behind = members[0].offset();
    // A stock server's acknowledgement does not include the GETACK itself.
    members[0].acknowledge_at(asked - 37);
    assert_eq!(client.read().text(), "OK");
    assert_held(&mut other);
    members[0].read_until("$6\r\nGETACK\r\n$1\r\n*\r\n");
    assert!(members[0].offset() > behind);
    members[0].acknowledge_at(behind);
    assert_eq!(other.read().text(), "OK");
    assert_eq!(other.call("GET k").text(), "2");
}

#[test]
fn reads_of_others_wait_unless_they_do_not_want_to() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let (mut writer, mut reader) = (group.durable(), group.durable());
    send_held(&mut writer, "SET k 1");
    send_held(&mut reader, "GET k");
    assert_eq!(group.admin.call("GET k").text(), "1");
    // A reply that reveals no data does not wait.
    let mut idle = group.durable();
    assert_eq!(idle.call("PING").text(), "PONG");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(writer.read().text(), "OK");
    assert_eq!(reader.read().text(), "1");
    // A client without durable replies may write, and durable readers must not see that write
    // early.
    group.admin.ok("SET k 2");
    send_held(&mut reader, "GET k");
    reader.send(&request("CLIENT DURABLE OFF"));
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(reader.read().text(), "2");
    assert_eq!(reader.read().text(), "OK");
    group.admin.ok("SET k 3");
    assert_eq!(reader.call("GET k").text(), "3");
    reader.ok("CLIENT DURABLE ON");
    send_held(&mut reader, "GET k");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(reader.read().text(), "3");
    assert_eq!(reader.call("RESET").text(), "RESET");
    reader.ok("SET k 4");
}

#[test]
fn the_setting_decides_for_all_others() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let mut client = group.server.connect();
    client.ok("SET k 1");
    group.admin.ok("CLIENT DURABLE OFF");
    group.admin.ok("CONFIG SET sync-writes yes");
    send_held(&mut client, "SET k 2");
    let mut off = group.server.connect();
    off.ok("CLIENT DURABLE OFF");
    off.ok("SET k 3");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(client.read().text(), "OK");
    // A new replica is admitted although nothing is acknowledged.
    group.admin.ok("SET k 4");
    group.set(1, &["a/2"]);
    send_held(&mut client, "GET k");
    let mut member = Member::attach(&group, "a/2", 1);
    member.acknowledge();
    assert_eq!(client.read().text(), "4");
}

#[test]
fn transactions_scripts_and_pipelines_wait() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let (mut client, mut script, mut pipeline, mut wide) =
        (group.durable(), group.durable(), group.durable(), group.durable());
    client.ok("MULTI");
    assert_eq!(client.call("INCR n").text(), "QUEUED");
    client.send(&request("EXEC"));
    script.send(&request("EVAL \"redis.call('incr', 's') return redis.call('get', 's')\" 1 s"));
    let many: Vec<u8> = (0..200).map(|_| request("INCR many")).collect::<Vec<_>>().concat();
    pipeline.send(&many);
    wide.send(&request("MSET x 1 y 2"));
    for waiting in [&mut client, &mut script, &mut pipeline, &mut wide] {
        assert_held(waiting);
    }
    wait_for("all requests to be executed", || group.admin.call("GET many").text() == "200");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(client.read(), Value::Array(vec![integer(1)]));
    assert_eq!(script.read().text(), "1");
    for number in 1..=200 {
        assert_eq!(pipeline.read(), integer(number));
    }
    assert_eq!(wide.read().text(), "OK");
}

#[test]
fn reply_to_unblocked_client_is_held_until_acknowledged() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let mut popper = group.durable();
    popper.send(&request("BLPOP list 0"));
    wait_for("BLPOP waits", || group.admin.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    assert_eq!(group.admin.call("RPUSH list a"), integer(1));
    assert_held(&mut popper);
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(popper.read().elements().map(|pair| pair[1].text()), Some("a".into()));
}

#[test]
fn messages_of_unacknowledged_writes_are_held() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut group, mut members) = Group::with(&["a/1"], &["--notify-keyspace-events", "KA"]);
        let mut listener = group.durable();
        listener.call(hello);
        listener.call("SUBSCRIBE news __keyspace@0__:k");
        listener.read();
        group.admin.ok("MULTI");
        group.admin.call("SET k 1");
        group.admin.call("PUBLISH news later");
        group.admin.call("EXEC");
        assert_held(&mut listener);
        members[0].catch_up(&mut group.admin);
        members[0].acknowledge();
        let last = |listener: &mut braid_tests::RawClient| {
            let message = listener.read();
            message.elements().and_then(|parts| parts.last()).map(Value::text)
        };
        let mut first = [last(&mut listener), last(&mut listener)];
        first.sort();
        assert_eq!(first, [Some("later".into()), Some("set".into())]);
        // A message published while another one is held must not be released with it.
        group.admin.ok("SET k 2");
        assert_held(&mut listener);
        members[0].catch_up(&mut group.admin);
        group.admin.call("APPEND k 3");
        members[0].acknowledge();
        assert_eq!(last(&mut listener).as_deref(), Some("set"));
        assert_held(&mut listener);
        members[0].catch_up(&mut group.admin);
        members[0].acknowledge();
        assert_eq!(last(&mut listener).as_deref(), Some("append"));
    }
}

#[test]
fn only_the_present_epoch_and_run_count() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let mut client = group.durable();
    group.set(2, &["a/1"]);
    send_held(&mut client, "GET k");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    let mut stranger = Member::attach_by(&group, "REPLCONF capa psync2");
    stranger.catch_up(&mut group.admin);
    stranger.acknowledge();
    let mut restarted = Member::attach(&group, "a/2", 2);
    restarted.acknowledge();
    assert_held(&mut client);
    let mut present = Member::attach(&group, "a/1", 2);
    // An acknowledgement beyond the end of the stream is ignored.
    present.acknowledge_at(present.offset() + 1_000_000);
    assert_held(&mut client);
    present.acknowledge();
    assert_eq!(client.read(), Value::NullBulk);
    // Its acknowledgements remain valid after its connection has closed.
    drop(present);
    assert_eq!(client.call("GET k"), Value::NullBulk);
    send_held(&mut client, "SET k 1");
    // The member is removed from the set: the remaining members have everything.
    group.set(2, &[]);
    assert_eq!(client.read().text(), "OK");
}

#[test]
fn on_disk_is_more_than_in_memory() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--sync-level", "disk"];
    let (mut group, mut members) = Group::with(&["a/1"], &arguments);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    let before = members[0].offset();
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_held(&mut client);
    members[0].acknowledge_on_disk(before);
    assert_held(&mut client);
    members[0].catch_up(&mut group.admin);
    let end = members[0].offset();
    members[0].acknowledge_on_disk(end);
    assert_eq!(client.read().text(), "OK");
}

#[test]
fn both_reasons_to_wait_go_together() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let (mut group, mut members) = Group::with(&["a/1"], &arguments);
    let (mut client, mut other) = (group.durable(), group.server.connect());
    for number in 0..50 {
        client.send(&request(&format!("SET k {number}")));
        other.ok(&format!("SET o {number}"));
        members[0].read_until(&format!("$1\r\nk\r\n${}\r\n{number}\r\n", number.to_string().len()));
        members[0].catch_up(&mut group.admin);
        members[0].acknowledge();
        assert_eq!(client.read().text(), "OK");
    }
}
