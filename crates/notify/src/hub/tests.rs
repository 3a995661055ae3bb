// SPDX-License-Identifier: BSD-3-Clause
use braid_clients::Address;
use braid_resp::reply::Protocol;

use super::*;

fn hub(loops: usize) -> Hub {
    let mailboxes = Arc::new(Mailboxes::new(loops));
    mailboxes.make_room(loops).expect("mailboxes");
    let hub = Hub::new(&mailboxes);
    hub.make_room_for_loops(loops);
    hub
}

fn listener(id: u64, owner: u32) -> Listener {
    let record = ClientRecord::new(id, -1, Address::Unknown, Address::Unknown, 0);
    record.io_thread.store(owner, Ordering::Relaxed);
    Listener::new(Arc::new(record))
}

/// The pushes that a loop delivers: the client and the text of each message, in order.
fn handed_out(hub: &Hub, owner: usize) -> Vec<(u64, String)> {
    let mut taken = Vec::new();
    hub.take_pushes(owner, &mut taken);
    let mut all = Vec::new();
    for push in taken {
        for &id in push.to.ids() {
            all.push((id, text(&push.payload)));
        }
    }
    all
}

fn text(payload: &Payload) -> String {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    payload.write(&listener(0, 0), &mut reply);
    String::from_utf8(reply.take_vec()).expect("ASCII").replace("\r\n", " ")
}

#[test]
fn a_message_is_left_once_for_each_loop_that_has_listeners() {
    let hub = hub(3);
    let mut clients: Vec<Listener> = (0..4).map(|id| listener(id, (id % 2) as u32)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(hub.subscribe(client, SubscriptionKind::Channel, b"c"), 1);
        assert_eq!(hub.listener_count(SubscriptionKind::Channel, b"c"), at + 1);
    }
    assert_eq!(hub.publish(0, b"c", b"m", None), 4);
    let expected = "*3 $7 message $1 c $1 m ";
    assert_eq!(handed_out(&hub, 0), [(0, expected.to_owned()), (2, expected.to_owned())]);
    assert_eq!(handed_out(&hub, 1), [(1, expected.to_owned()), (3, expected.to_owned())]);
    assert!(!hub.has_pushes(2));
    assert_eq!(hub.unsubscribe(&mut clients[1], SubscriptionKind::Channel, b"c"), 0);
    assert_eq!(hub.publish(0, b"c", b"m", None), 3);
    for client in &mut clients {
        hub.leave(client);
    }
    assert_eq!((hub.publish(0, b"c", b"m", None), hub.name_count(SubscriptionKind::Channel)), (0, 0));
}

#[test]
fn patterns_and_channels_count_together_and_deliver_both() {
    let hub = hub(1);
    let mut client = listener(7, 0);
    assert_eq!(hub.subscribe(&mut client, SubscriptionKind::Pattern, b"c*"), 1);
    assert_eq!(hub.subscribe(&mut client, SubscriptionKind::Channel, b"cc"), 2);
    assert_eq!(
        hub.subscribe(&mut client, SubscriptionKind::Channel, b"cc"),
        2,
        "a repeated subscription counts once"
    );
    assert_eq!(hub.subscribe(&mut client, SubscriptionKind::ShardChannel, b"cc"), 1);
    assert!(client.record.has(client_flags::PUBSUB));
    assert_eq!(hub.publish(0, b"cc", b"m", None), 2);
    assert_eq!(hub.publish_shard(0, b"cc", b"m", None), 1);
    let texts: Vec<String> = handed_out(&hub, 0).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts,
        ["*3 $7 message $2 cc $1 m ", "*4 $8 pmessage $2 c* $2 cc $1 m ", "*3 $8 smessage $2 cc $1 m "]
    );
    hub.leave(&mut client);
    assert!(!client.record.has(client_flags::PUBSUB));
    assert_eq!(hub.name_count(SubscriptionKind::Pattern) + hub.name_count(SubscriptionKind::ShardChannel), 0);
}

#[test]
fn claimed_pushes_are_not_delivered_twice() {
    let hub = hub(1);
    let mut client = listener(7, 0);
    hub.subscribe(&mut client, SubscriptionKind::Channel, b"c");
    hub.publish(0, b"c", b"1", None);
    let mut reply = ReplyBuffer::new(Protocol::Resp3);
    hub.claim(&mut client, &mut reply);
    assert_eq!(reply.take_vec(), b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n");
    hub.publish(0, b"c", b"2", None);
    let mut taken = Vec::new();
    hub.take_pushes(0, &mut taken);
    let left: Vec<u64> = taken.iter().map(|push| push.number).filter(|&n| n >= client.pushes_seen).collect();
    assert_eq!(left, [1], "only the first push was claimed");
    hub.claim(&mut client, &mut reply);
    assert!(reply.is_empty());
}

#[test]
fn a_big_message_is_not_copied() {
    let hub = hub(1);
    let mut client = listener(1, 0);
    hub.subscribe(&mut client, SubscriptionKind::Channel, b"c");
    let blob = Blob::from_slice(&[b'x'; 40_000]);
    hub.publish(0, b"c", &blob, Some(&blob));
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    hub.claim(&mut client, &mut reply);
    let mut slices = Vec::new();
    reply.io_slices(&mut slices, 10);
    assert!(slices.iter().any(|slice| std::ptr::eq(slice.as_ptr(), blob.as_ptr())));
    let sent: usize = slices.iter().map(|slice| slice.len()).sum();
    assert_eq!(sent, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$40000\r\n\r\n".len() + 40_000);
}

#[test]
fn all_listeners_of_a_channel_see_one_order() {
    let hub = hub(3);
    let mut clients = [listener(1, 1), listener(2, 2)];
    for client in &mut clients {
        hub.subscribe(client, SubscriptionKind::Channel, b"c");
    }
    std::thread::scope(|scope| {
        for publisher in 0..2 {
            let hub = &hub;
            scope.spawn(move || {
                for number in 0..2000 {
                    hub.publish(0, b"c", format!("{publisher}:{number}").as_bytes(), None);
                }
            });
        }
    });
    let [one, other] = [1, 2].map(|owner| {
        let all = handed_out(&hub, owner);
        all.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    });
    assert_eq!(one.len(), 4000);
    assert_eq!(one, other);
    for publisher in ["0:", "1:"] {
        let numbers: Vec<u32> = one
            .iter()
            .filter_map(|text| text.split(' ').nth(6)?.strip_prefix(publisher)?.parse().ok())
            .collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    }
}

#[test]
fn relocated_client_gets_later_messages_on_its_new_loop() {
    let hub = hub(3);
    let mut clients: Vec<Listener> = (0..2).map(|id| listener(id, 0)).collect();
    for client in &mut clients {
        hub.subscribe(client, SubscriptionKind::Channel, b"c");
        hub.subscribe(client, SubscriptionKind::Pattern, b"c*");
        hub.subscribe(client, SubscriptionKind::ShardChannel, b"s");
    }
    hub.publish(1, b"c", b"1", None);
    hub.relocate(&mut clients[1], 2);
    assert_eq!(hub.publish(1, b"c", b"2", None), 4);
    assert_eq!(hub.publish_shard(1, b"s", b"3", None), 2);
    clients[1].record.with_owner(|owner| assert_eq!(owner, 2));
    let ids = |owner| handed_out(&hub, owner).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(0), [0, 1, 0, 1, 0, 0, 0], "both clients first, then the one that stays");
    assert_eq!(ids(2), [1, 1, 1]);
    assert_eq!(hub.unsubscribe(&mut clients[1], SubscriptionKind::Channel, b"c"), 1);
    assert_eq!(hub.listener_count(SubscriptionKind::Channel, b"c"), 1);
}

#[test]
fn attention_flag_stays_set_while_a_client_monitors() {
    let (hub, attention) = (hub(1), Attention::default());
    std::thread::scope(|scope| {
        for id in 0..3 {
            let (hub, attention) = (&hub, &attention);
            scope.spawn(move || {
                let record = listener(id, 0).record;
                for _ in 0..20_000 {
                    hub.add_monitor(&record, attention);
                    assert_ne!(attention.get() & MONITORS, 0);
                    hub.remove_monitor(id, attention);
                }
            });
        }
    });
    assert_eq!(attention.get() & MONITORS, 0);
}
