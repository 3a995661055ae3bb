// SPDX-License-Identifier: BSD-3-Clause
//! Whole screens, compared with files next to this one. `BLESS=1 cargo test -p braid-top` updates
//! them: review the result.

use super::*;
use crate::recorded;
use crate::sample::{HotKey, Sample, SlowEntry};
use crate::slots::SlotFigures;
use braid_client::Info;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::path::Path;
use std::time::Duration;

fn app(server: &str) -> App {
    let mut app = App::new("127.0.0.1:6379".into(), Duration::from_secs(1));
    let (before, after) = recorded::pair(server);
    app.take(Ok(before));
    app.take(Ok(with_extras(after)));
    app
}

fn with_extras(sample: Sample) -> Sample {
    let slow = SlowEntry {
        id: 3,
        at: sample.at as i64 - 5,
        micros: 12_345,
        command: "KEYS *".into(),
        client: "127.0.0.1:50000".into(),
    };
    let hot = Some(vec![
        HotKey { key: "key:7".into(), weight: 255.0 },
        HotKey { key: "key:1".into(), weight: 12.0 },
    ]);
    Sample { slow: vec![slow], hot, ..sample }
}

fn press(app: &mut App, keys: &[KeyCode]) {
    for key in keys {
        app.key(KeyEvent::new(*key, KeyModifiers::NONE));
    }
}

fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[track_caller]
fn check(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/screen").join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(screen == expected, "{} differs; now it is\n{screen}", path.display());
}

#[test]
fn commands_of_every_server() {
    for server in ["braid", "redis-7.0", "redis-8.0", "valkey-9.1"] {
        check(server, &screen(&app(server), 140, 24));
    }
}

#[test]
fn clients_of_a_thread() {
    let mut app = app("braid");
    press(&mut app, &[KeyCode::Down, KeyCode::Enter, KeyCode::Right]);
    let shown = screen(&app, 140, 20);
    assert!(shown.contains("of thread 1"));
    check("clients", &shown);
    let of_thread = app.sheet().rows.len();
    press(&mut app, &[KeyCode::Esc]);
    assert!(app.thread.is_none());
    press(&mut app, &[KeyCode::Char('2')]);
    assert!(of_thread > 0 && app.sheet().rows.len() > of_thread);
}

#[test]
fn other_panels() {
    for (key, name) in [('3', "slow-log"), ('4', "memory"), ('5', "hot-keys")] {
        let mut app = app("braid");
        press(&mut app, &[KeyCode::Char(key)]);
        check(name, &screen(&app, 100, 22));
    }
}

#[test]
fn links_of_a_replica_with_replicas() {
    let mut app = app("braid");
    let (_, sample) = recorded::pair("braid");
    let more = "role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:down\n\
        master_sync_in_progress:1\nmaster_sync_total_bytes:2000000\nmaster_sync_read_bytes:900000\n\
        primary:host=10.0.0.1,port=6379,state=sync,unapplied_bytes=0,last_io_ms=-1,down_ms=1500\n\
        slave0:ip=10.0.0.3,port=6379,state=online,offset=5,lag=0,type=replica\n\
        replica0:ip=10.0.0.3,port=6379,state=online,lag_bytes=70,lag_ms=120\n\
        slave1:ip=10.0.0.4,port=6379,state=send_bulk,offset=5,lag=0,type=replica\n\
        replica1:ip=10.0.0.4,port=6379,state=send_bulk,lag_bytes=700,lag_ms=900,\
        sync_sent_bytes=300000,sync_total_bytes=400000,sync_perc=87.50\n";
    let text = format!("{}\n{more}", recorded::text("braid"));
    app.take(Ok(Sample { at: sample.at + 1.0, info: Info::parse(&text), ..Sample::default() }));
    press(&mut app, &[KeyCode::Char('6')]);
    check("links", &screen(&app, 140, 14));
}

/// A recorded server as the primary of a group.
fn app_in_group() -> App {
    let mut app = app("braid");
    let (_, sample) = recorded::pair("braid");
    let text = format!("{}\n{}", recorded::text("braid"), crate::group::tests::PRIMARY);
    app.take(Ok(Sample { at: sample.at + 1.0, info: Info::parse(&text), ..Sample::default() }));
    app
}

#[test]
fn a_group_and_its_members() {
    let mut app = app_in_group();
    press(&mut app, &[KeyCode::Char('7')]);
    check("group", &screen(&app, 140, 22));
    // The heading stays visible on a small screen, and so does the table.
    let small = screen(&app, 60, 18);
    assert!(small.contains("group orders, epoch 7") && small.contains("10.0.0.1:6379"), "{small}");
    press(&mut app, &[KeyCode::Tab]);
    assert_eq!(app.panel, crate::app::Panel::Commands);
    press(&mut app, &[KeyCode::BackTab]);
    assert_eq!(app.panel, crate::app::Panel::Group);
}

#[test]
fn a_server_in_active_mode_and_its_peers() {
    let mut app = app("braid");
    let (_, sample) = recorded::pair("braid");
    let text = format!("{}\n{}", recorded::text("braid"), crate::active::tests::TWO_PEERS);
    app.take(Ok(Sample { at: sample.at + 1.0, info: Info::parse(&text), ..Sample::default() }));
    press(&mut app, &[KeyCode::Char('7')]);
    assert_ne!(app.panel, crate::app::Panel::Group);
    press(&mut app, &[KeyCode::Char('8')]);
    check("active", &screen(&app, 140, 14));
    let small = screen(&app, 60, 14);
    assert!(small.contains("region 1, 1 of 2") && small.contains("10.0.0.2:6379"), "{small}");
}

#[test]
fn hot_slots_of_a_node_of_a_cluster() {
    let mut app = app("braid");
    let (_, sample) = recorded::pair("braid");
    let text = recorded::text("braid").replace("cluster_enabled:0", "cluster_enabled:1");
    let slots = |factor: f64, counts: bool| {
        let slot = |slot, figure: f64| SlotFigures {
            slot,
            keys: Some(figure),
            cpu_micros: counts.then_some(figure * factor * 1e3),
            bytes_in: counts.then_some(figure * factor * 100.0),
            bytes_out: counts.then_some(figure * factor * 20.0),
            memory: None,
        };
        Some(vec![slot(12_182, 300.0), slot(5, 40.0)])
    };
    let take = |app: &mut App, at: f64, slots| {
        app.take(Ok(Sample { at: sample.at + at, info: Info::parse(&text), slots, ..Sample::default() }));
    };
    take(&mut app, 1.0, slots(1.0, true));
    press(&mut app, &[KeyCode::Char('9')]);
    assert_eq!((app.panel, app.detail()), (crate::app::Panel::HotSlots, crate::sample::Detail::HotSlots));
    take(&mut app, 2.0, slots(2.0, true));
    check("hot-slots", &screen(&app, 140, 14));
    press(&mut app, &[KeyCode::Right, KeyCode::Char('r')]);
    assert_eq!(app.sheet().rows[0][0].text, "5", "rows are sorted by slot");
    take(&mut app, 3.0, slots(1.0, false));
    let shown = screen(&app, 100, 14);
    assert!(shown.contains("only keys are counted") && !shown.contains("cpu s"), "{shown}");
}

#[test]
fn group_panel_is_hidden_without_a_group() {
    let mut app = app("braid");
    press(&mut app, &[KeyCode::Char('6'), KeyCode::Char('7')]);
    assert_eq!(app.panel, crate::app::Panel::Links);
    assert!(!screen(&app, 140, 14).contains("7 group"));
    press(&mut app, &[KeyCode::Tab]);
    assert_eq!(app.panel, crate::app::Panel::Commands);
    press(&mut app, &[KeyCode::BackTab]);
    assert_eq!(app.panel, crate::app::Panel::Links);
}

#[test]
fn help_covers_a_small_screen() {
    let mut app = app("braid");
    press(&mut app, &[KeyCode::Char('?')]);
    check("help", &screen(&app, 80, 24));
    press(&mut app, &[KeyCode::Char('x')]);
    assert!(!app.help);
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = app_in_group();
    for panel in '1'..='9' {
        press(&mut app, &[KeyCode::Char(panel)]);
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            screen(&app, width, height);
            app.help = true;
            screen(&app, width, height);
            app.help = false;
        }
    }
}

#[test]
fn sorting_goes_through_all_columns() {
    let mut app = app("braid");
    let first = |app: &App| app.sheet().rows[0][0].text.clone();
    assert_eq!(first(&app), "get");
    press(&mut app, &[KeyCode::Char('r')]);
    assert_ne!(first(&app), "get");
    press(&mut app, &[KeyCode::Left]);
    assert_eq!(app.orders[0], Some(Order { column: 0, descending: false }));
    press(&mut app, &[KeyCode::Left]);
    assert_eq!(app.orders[0].unwrap().column, app.sheet().columns.len() - 1);
    press(&mut app, &[KeyCode::Right]);
    assert_eq!(app.orders[0].unwrap().column, 0);
}

#[test]
fn connection_errors_are_shown_and_cleared() {
    let mut app = app("redis-8.0");
    app.take(Err("connection refused".into()));
    assert!(screen(&app, 100, 20).contains("connection refused; retrying"));
    let (before, _) = recorded::pair("redis-8.0");
    // A restarted server has lower counters: rates start at its start.
    app.take(Ok(before));
    assert!(app.last_error.is_none() && app.view.totals.commands_rate > 0.0);
    press(&mut app, &[KeyCode::Char(' ')]);
    assert!(screen(&app, 100, 20).contains("PAUSED"));
    press(&mut app, &[KeyCode::Char('+'), KeyCode::Char('-'), KeyCode::Char('-')]);
    assert_eq!(app.interval, Duration::from_millis(500));
}
