// SPDX-License-Identifier: BSD-3-Clause
//! The metrics page in a browser, as an operator sees it. Without a browser the tests are
//! skipped, or fail if `CI` is set.
//!
//! `BRAID_PICTURE=FILE.png` saves a screenshot of the page, for a server that has been under load
//! for `BRAID_PICTURE_SECONDS`, and one at the width of a phone beside it (`FILE-narrow.png`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use braid_tests::browser::{self, Browser, lists, section};
use braid_tests::server::free_port;
use braid_tests::{RawClient, TestServer, Value, request, wait_for_within};

use crate::metrics::start;

/// Starts the browser, or prints that there is none.
fn browser(test: &str) -> Option<Browser> {
    let found = browser::find();
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "there is no Chromium on PATH");
    if found.is_none() {
        println!("{test}: skipped, there is no Chromium on PATH");
    }
    found.map(|program| Browser::start(&program))
}

/// JavaScript that is true if the current legend of a plot matches a regular expression.
fn says(title: &str, pattern: &str) -> String {
    format!("/{pattern}/.test({}.querySelector('.legend').innerText)", section(title))
}

/// The number of a plot's lines that are drawn, and the number of all its lines. A line counts as
/// drawn if a few pixels have its colour.
fn lines_drawn(browser: &mut Browser, title: &str) -> (u64, u64) {
    let expression = format!(
        "(() => {{
            const part = {}, canvas = part.querySelector('canvas');
            // A copy, since a page that reads its own pictures is told that this is slow.
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {{ willReadFrequently: true }});
            copy.drawImage(canvas, 0, 0);
            const {{ data }} = copy.getImageData(0, 0, canvas.width, canvas.height);
            const colours = [...part.querySelectorAll('.legend i')].map(mark => getComputedStyle(mark).backgroundColor.match(/[0-9]+/g));
            const drawn = colours.filter(colour => {{
                let seen = 0;
                for (let at = 0; at < data.length; at += 4) {{
                    if (data[at + 3] > 100 && colour.every((part, index) => Math.abs(part - data[at + index]) < 12)) seen++;
                }}
                return seen >= 3;
            }});
            return [drawn.length, colours.length];
        }})()",
        section(title)
    );
    let counts = browser.evaluate(&expression);
    (counts[0].as_u64().unwrap_or(0), counts[1].as_u64().unwrap_or(0))
}

/// Sends commands until stopped.
fn keep_busy(mut client: RawClient, stop: &AtomicBool) {
    let pipeline = ["SET hot value", "GET hot", "HSET hash field value", "INCR count", "SET due 1 EX 100"];
    let pipeline: Vec<u8> = pipeline.iter().map(|line| request(line)).collect::<Vec<_>>().concat();
    while !stop.load(Ordering::Relaxed) {
        client.send(&pipeline);
        for _ in 0..5 {
            client.read();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn page_plots_server_activity() {
    let Some(mut browser) = browser("page_plots_server_activity") else { return };
    let (server, port) = start(&["--io-threads", "2"]);
    let mut client = server.connect();
    let mut waiting = server.connect();
    waiting.send(&request("BLPOP nothing 0"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The load must end, whatever happens here.
        let _end = EndOf(&stop);
        for _ in 0..2 {
            let client = server.connect();
            scope.spawn(|| keep_busy(client, &stop));
        }
        assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
        browser.wait_for("document.getElementById('state').textContent === 'live'");
        browser.wait_for(&says("Commands per second", "commands [1-9]"));
        browser.wait_for(&says("CPU by thread", "thread 0 [0-9.]+ %[^]*thread 1 [0-9.]+ %"));
        browser.wait_for(&says("CPU by thread", "thread [01] [1-9]"));
        let quantiles = "p99.9 [0-9.]+ .?s[^]*p99 [0-9.]+ .?s[^]*p50 [0-9.]+ .?s";
        browser.wait_for(&says("Command latency", quantiles));
        browser.wait_for(&says("Memory", "resident [0-9.]+ MiB[^]*used [0-9.]+ .iB"));
        browser.wait_for(&says("Clients", "connected 4[^]*blocked 1"));
        browser.wait_for(&says("Network per second", "sent [1-9][^]*received [1-9]"));
        browser.wait_for(&says("Keys", "keys 4[^]*with expiry 1"));
        browser.wait_for(&lists("Busiest commands", "^hset\\t[0-9.]+k?\\t[0-9.]+ .?s\\t[0-9.]+ %"));
        // Hot keys are unknown until tracking is started.
        assert_eq!(browser.evaluate(&lists("Hot keys", "hot")), false);
        client.ok("HOTKEYS START METRICS 2 CPU NET SAMPLE 1");
        browser.wait_for(&lists("Hot keys", "^hot\\t[0-9.]+ .?s\\t[0-9.]+ "));
        if let Some(file) = std::env::var_os("BRAID_PICTURE") {
            let seconds = std::env::var("BRAID_PICTURE_SECONDS").ok().and_then(|text| text.parse().ok());
            fill_panels(&mut client);
            std::thread::sleep(Duration::from_secs(seconds.unwrap_or(0)));
            keep_picture(&mut browser, std::path::Path::new(&file));
        }
        // Lines that may coincide need not all be visible.
        for (title, lines, drawn_min) in [
            ("Commands per second", 1, 1),
            ("CPU by thread", 2, 1),
            ("Command latency", 3, 1),
            ("Errors per second", 3, 0),
            ("Memory", 2, 2),
            ("Clients", 2, 2),
            ("Network per second", 2, 2),
            ("Keys", 2, 2),
            ("Hit rate", 1, 1),
            ("Keys removed per second", 2, 0),
        ] {
            let mut seen = (0, 0);
            let drawn = wait_for_within(Duration::from_secs(20), || {
                seen = lines_drawn(&mut browser, title);
                seen.0 >= drawn_min && seen.1 == lines
            });
            assert!(drawn, "{title}: {} of {} lines are drawn", seen.0, seen.1);
        }
        // The page shows changes.
        let more: Vec<RawClient> = (0..5).map(|_| server.connect()).collect();
        browser.wait_for(&says("Clients", "connected 9[^]*blocked 1"));
        drop(more);
        assert_eq!(client.call("RPUSH nothing something"), Value::Integer(1));
        browser.wait_for(&says("Clients", "connected 4[^]*blocked 0"));
    });
    // What does not happen has neither a hit rate nor a latency, and no command is busy.
    browser.wait_for(&says("Commands per second", "commands 0"));
    browser.wait_for(&says("Hit rate", "hits -"));
    browser.wait_for(&says("Command latency", "p99.9 -[^]*p99 -[^]*p50 -"));
    let idle = "No command was called in the last second.";
    browser.wait_for(&format!("{}.innerText.includes('{idle}')", section("Busiest commands")));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

/// JavaScript for the points of the page's plot with this ID.
fn points(id: &str) -> String {
    format!("PLOTS.find(plot => plot.id === '{id}').history")
}

#[test]
fn a_reloaded_page_shows_what_the_server_recorded() {
    let Some(mut browser) = browser("a_reloaded_page_shows_what_the_server_recorded") else { return };
    let (server, port) = start(&[]);
    let mut client = server.connect();
    let address = format!("http://127.0.0.1:{port}/");
    let recorded = || -> serde_json::Value {
        serde_json::from_str(&braid_tests::http::get(port, "/history").expect("the history")).expect("JSON")
    };
    // An interval with commands, lookups and errors, and later one without.
    braid_tests::wait_for("an interval with activity is recorded", || {
        client.ok("SET k v");
        client.call("GET k");
        client.call("INCR k");
        let points = recorded()["points"].as_array().cloned().unwrap_or_default();
        points.iter().any(|point| point["plots"]["errors"]["error replies"].as_f64() > Some(0.0))
    });
    braid_tests::wait_for("an interval without lookups is recorded", || {
        recorded()["points"]
            .as_array()
            .is_some_and(|all| all.last().unwrap()["plots"]["hits"]["hits"].is_null())
    });
    for _ in 0..2 {
        assert_eq!(browser.open(&address), 200);
        browser.wait_for("document.getElementById('state').textContent === 'live'");
        let had =
            |id: &str, name: &str| format!("{}.some(({{ values }}) => values['{name}'] > 0)", points(id));
        browser.wait_for(&had("commands", "commands"));
        browser.wait_for(&had("hits", "hits"));
        browser.wait_for(&had("latency", "p50"));
        browser.wait_for(&had("errors", "error replies"));
        browser.wait_for(&format!("{}.some(({{ values }}) => values.hits === null)", points("hits")));
        // The lines are the page's own, in the same order.
        browser.wait_for(
            "PLOTS.every(({ history }) => history.length > 2 && history.every(({ values }) => \
             Object.keys(values).sort().join() === Object.keys(history[history.length - 1].values).sort().join()))",
        );
        // The history is drawn left of what the page has seen itself.
        browser.wait_for(&format!("performance.now() - {}[0].at > 5000", points("commands")));
        let drawn = || lines_drawn(&mut browser, "Commands per second") == (1, 1);
        assert!(wait_for_within(Duration::from_secs(20), drawn), "the line is not drawn");
    }
    // Each tab names its server.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let name = format!("{}:{}", name.trim(), server.port());
    assert_eq!(browser.evaluate("document.title"), format!("{name} - Braid"));
    assert_eq!(browser.evaluate("document.querySelector('h1').innerText"), format!("Braid {name}"));
    assert_eq!(browser.evaluate("document.querySelector('header a').href"), format!("{address}metrics"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

#[test]
fn the_page_fits_phones_and_desktop_screens() {
    let Some(mut browser) = browser("the_page_fits_phones_and_desktop_screens") else { return };
    let (server, port) = start(&["--slowlog-log-slower-than", "-1"]);
    let mut client = server.connect();
    client.ok("CONFIG SET slowlog-log-slower-than 0");
    for number in 0..20 {
        client.ok(&format!("SET key:{number} {}", "x".repeat(100)));
    }
    client.ok("CONFIG SET slowlog-log-slower-than -1");
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    browser.wait_for(&lists("Slow log", "SET key:19 xxx"));
    let panel = section("Slow log");
    browser.wait_for_every_width("true");
    // A phone: the command is below the other cells, over the whole width, in two lines at most.
    browser.resize(390, 844);
    let cell = format!("{panel}.querySelectorAll('tr')[2].cells[2]");
    let height = format!("{cell}.clientHeight / parseFloat(getComputedStyle({cell}).lineHeight)");
    browser.wait_for(&format!(
        "(({{ left, width, top }}, others) => width > 300 && others.every(other => other.bottom <= top + 1)) \
         ({cell}.getBoundingClientRect(), [0, 1, 3].map(at => {panel}.querySelectorAll('tr')[2].cells[at].getBoundingClientRect()))"
    ));
    browser.wait_for(&format!("{height} < 2.5 && {cell}.scrollHeight > {cell}.clientHeight"));
    browser.wait_for(&format!("{panel}.clientHeight < 2000"));
    // A tap shows all of it, and it stays open when the panel is filled again.
    browser.evaluate(&format!("void (window.tapped = {cell}); tapped.click()"));
    browser.wait_for(&format!(
        "!tapped.isConnected && {height} > 2.5 && {cell}.scrollHeight <= {cell}.clientHeight + 1"
    ));
    browser.evaluate(&format!("{cell}.click()"));
    browser.wait_for(&format!("{height} < 2.5"));
    // A desktop screen: rows of plots are full, tables stand below each other without gaps.
    browser.resize(1280, 900);
    browser.wait_for(
        "(() => {
            const boxes = parent => [...parent.children].filter(part => part.checkVisibility()).map(part => part.getBoundingClientRect());
            const plots = document.getElementById('plots'), { right } = plots.getBoundingClientRect();
            const rows = Map.groupBy(boxes(plots), box => Math.round(box.top));
            const isFull = [...rows.values()].every(row => row[row.length - 1].right > right - 2);
            const columns = [...document.querySelectorAll('.column')].map(boxes);
            const isTight = columns.every(parts => parts.slice(1).every((part, at) => part.top - parts[at].bottom < 20));
            return rows.size === 4 && isFull && columns.length === 2 && isTight;
        })()",
    );
    // Without links the panel is no higher than its title and a line.
    browser.wait_for(&format!("{}.clientHeight < 80", section("Replication")));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

#[test]
fn hot_keys_are_ordered_by_one_figure() {
    let Some(mut browser) = browser("hot_keys_are_ordered_by_one_figure") else { return };
    let (server, port) = start(&[]);
    let mut client = server.connect();
    client.ok("HOTKEYS START METRICS 2 CPU NET COUNT 3 SAMPLE 1");
    client.call(&format!("RPUSH slow {}", "x ".repeat(2000)));
    for _ in 0..30 {
        client.call("LINDEX slow 1000");
        client.call("LPOS slow y");
    }
    for key in ["a", "b", "c", "d"] {
        client.ok(&format!("SET {key} {}", key.repeat(30_000)));
        client.call(&format!("GET {key}"));
    }
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    let panel = section("Hot keys");
    let cells = |at: usize| {
        format!("[...{panel}.querySelectorAll('tr')].slice(1).map(row => row.cells[{at}].innerText)")
    };
    browser.wait_for(&format!("{}.length === 3 && {}[0] === 'slow'", cells(0), cells(0)));
    assert_eq!(
        browser.evaluate(&format!("{panel}.querySelector('[aria-sort]').innerText")),
        "CPU time \u{25be}"
    );
    assert_eq!(browser.evaluate(&format!("{}.includes('-') || {}.includes('-')", cells(1), cells(2))), false);
    // By the other figure: another list.
    browser.evaluate(&format!("{panel}.querySelector('button').click()"));
    browser.wait_for(&format!(
        "!{}.includes('slow') && {}.every(text => text.endsWith(' KiB'))",
        cells(0),
        cells(2)
    ));
    browser.wait_for(&format!("{panel}.querySelector('[aria-sort]').innerText.startsWith('traffic')"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Saves a screenshot of the page to a file, and one at the width of a phone beside it
/// (`NAME-narrow.png`).
fn keep_picture(browser: &mut Browser, file: &std::path::Path) {
    let mut write = |width, height, file: &std::path::Path| {
        browser.resize(width, height);
        std::thread::sleep(Duration::from_secs(3));
        browser.keep_picture(file);
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    write(390, 844, &file.with_file_name(format!("{name}-narrow.png")));
    write(1280, 900, file);
}

#[test]
fn the_page_of_a_node_shows_its_hottest_slots() {
    let Some(mut browser) = browser("the_page_of_a_node_shows_its_hottest_slots") else { return };
    let (server, port) = start(&["--cluster-enabled", "yes"]);
    let mut client = server.connect();
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    let hint = |text: &str| format!("{}.querySelector('.hint').innerText === '{text}'", section("Hot slots"));
    browser.wait_for(&hint("Not counted: cluster-slot-stats-enabled is off."));
    client.ok("CONFIG SET cluster-slot-stats-enabled yes");
    browser.wait_for(&hint("No slot has been used since counting began."));
    for number in 0..1000 {
        client.ok(&format!("SET foo {number}"));
    }
    browser.wait_for(&lists("Hot slots", "^12182\\t[0-9.]+ .s\\t[0-9.]+ KiB\\t[0-9.]+ KiB\\t1$"));
}

/// Runs commands that show up in the panels.
fn fill_panels(client: &mut RawClient) {
    client.ok("SAVE");
    client.ok("CONFIG SET slowlog-log-slower-than 1000");
    client.call(&format!("SET page:front {}", "x".repeat(300_000)));
    for number in 0..2000 {
        client.call(&format!("ZADD scores {number} player:{number}"));
        client.call(&format!("HSET session:{number} user {number} agent {}", "y".repeat(number % 90)));
    }
    client.call("ZRANGE scores 0 -1 WITHSCORES");
    client.ok("CONFIG SET slowlog-log-slower-than 0");
    client.call("KEYS session:*99*");
    client.call("ZUNIONSTORE copy 1 scores WEIGHTS 2");
    client.ok("CONFIG SET slowlog-log-slower-than 10000");
}

#[test]
fn page_shows_slow_commands_big_keys_and_problems() {
    let Some(mut browser) = browser("page_shows_slow_commands_big_keys_and_problems") else {
        return;
    };
    let (server, port) = start(&["--slowlog-log-slower-than", "-1", "--save", ""]);
    let mut client = server.connect();
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    browser.wait_for(&says("Keys", "keys 0"));
    let hint =
        |title: &str, text: &str| format!("{}.querySelector('.hint').innerText === '{text}'", section(title));
    browser.wait_for(&hint("Slow log", "Nothing has taken longer than slowlog-log-slower-than."));
    browser.wait_for(&hint("Big keys", "There are no keys."));
    browser.wait_for(&lists("Status", "^Writes\\taccepted$"));
    browser.wait_for(&lists("Status", "^Last save\\tnone since the start$"));
    browser.wait_for(&lists("Status", "^Append-only file\\toff$"));
    browser.wait_for(&lists("Status", "^Replicas\\tnone$"));
    client.ok(&format!("SET large {}", "x".repeat(100_000)));
    client.ok("SET small 1");
    client.ok("CONFIG SET slowlog-log-slower-than 0");
    client.call("GET \"<b>a key\\\\xff</b>\"");
    client.ok("CONFIG SET slowlog-log-slower-than -1 appendonly yes min-replicas-to-write 1");
    browser.wait_for(&lists("Big keys", "^large\\tstring\\t9[0-9.]+ KiB$|^large\\tstring\\t1[0-9.]+ KiB$"));
    browser.wait_for(&lists("Big keys", "^small\\tstring\\t[0-9]+ B$"));
    // A key's name is treated as text, whatever it looks like.
    browser
        .wait_for(&lists("Slow log", "^[0-9]+ s\\t[0-9.]+( .?s)?\\tGET <b>a key.*<.b>\\t127.0.0.1:[0-9]+$"));
    browser.wait_for(&lists("Status", "^Writes\\trefused: min_replicas$"));
    browser.wait_for(&lists("Status", "^Append-only file\\t[0-9.]+ (B|KiB)$"));
    let is_marked =
        "[...document.querySelectorAll('td.bad')].some(cell => cell.innerText === 'refused: min_replicas')";
    assert_eq!(browser.evaluate(is_marked), true);
    browser.wait_for_every_width("true");
    // A user who may run INFO but neither SLOWLOG nor SCAN sees the other panels, and is not
    // asked for a password.
    client.ok("ACL SETUSER default -slowlog -scan");
    browser.wait_for(&hint("Slow log", "This user may not run SLOWLOG GET."));
    browser.wait_for(&hint("Big keys", "This user may not run SCAN, or MEMORY USAGE on all keys."));
    browser.wait_for("document.getElementById('state').textContent === 'live'");
    let others: Vec<&String> = browser.complaints().iter().filter(|text| !text.contains("403")).collect();
    assert_eq!(others, Vec::<&String>::new());
}

#[test]
fn the_page_asks_for_the_password() {
    let Some(mut browser) = browser("the_page_asks_for_the_password") else { return };
    let (server, port) = start(&["--requirepass", "open sesame"]);
    let address = format!("http://127.0.0.1:{port}/");
    let shows_metrics = "typeof PLOTS === 'object'";
    // A reader without the right password sees nothing.
    assert_eq!(browser.open(&address), 401);
    assert_eq!(browser.evaluate(shows_metrics), false);
    browser.know_password("default", "wrong");
    assert_eq!(browser.open(&address), 401);
    assert_eq!(browser.evaluate(shows_metrics), false);
    browser.know_password("default", "open sesame");
    assert_eq!(browser.open(&address), 200);
    browser.wait_for(&says("Clients", "connected [0-9]"));
    assert_eq!(browser.complaints(), &[] as &[String]);
    // After a change of the password no more data is sent, and the page shows that.
    let mut client = server.connect();
    client.ok("AUTH \"open sesame\"");
    client.ok("CONFIG SET requirepass another");
    browser.wait_for("document.getElementById('state').textContent === 'no answer: HTTP 401'");
}

#[test]
fn the_page_takes_a_password_from_its_address() {
    let Some(mut browser) = browser("the_page_takes_a_password_from_its_address") else { return };
    let (_server, port) = start(&["--requirepass", "sesame"]);
    assert_eq!(browser.open(&format!("http://default:sesame@127.0.0.1:{port}/")), 200);
    browser.wait_for(&says("Clients", "connected [0-9]"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

#[test]
fn page_reconnects_after_a_server_restart() {
    let Some(mut browser) = browser("page_reconnects_after_a_server_restart") else { return };
    let port = free_port();
    let arguments = ["--metrics-port", &port.to_string()];
    let server = TestServer::start(&arguments);
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    browser.wait_for(&says("Keys", "keys 0"));
    drop(server);
    browser.wait_for("document.getElementById('state').className === 'bad'");
    let server = TestServer::start(&arguments);
    server.connect().ok("MSET a 1 b 2 c 3");
    browser.wait_for("document.getElementById('state').textContent === 'live'");
    browser.wait_for(&says("Keys", "keys 3"));
    let others: Vec<&String> =
        browser.complaints().iter().filter(|text| !text.contains("net::ERR_CONNECTION")).collect();
    assert_eq!(others, Vec::<&String>::new());
}

#[test]
fn the_page_shows_replication_links() {
    let Some(mut browser) = browser("the_page_shows_replication_links") else { return };
    let (server, port) = start(&["--repl-diskless-sync-delay", "0"]);
    let mut client = server.connect();
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    let role =
        |text: &str| format!("{}.querySelector('.hint').innerText === '{text}'", section("Replication"));
    browser.wait_for(&role("This server is a primary. It has no replicas."));
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let its = replica.port();
    browser.wait_for(&lists(
        "Replication",
        &format!("^replica 127.0.0.1:{its}\\tonline\\t0 B behind\\t0 behind\\t-$"),
    ));
    // A primary that sends half of a full sync: a bar shows the progress.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let primary = listener.local_addr().expect("bound").port();
    client.ok(&format!("REPLICAOF 127.0.0.1 {primary}"));
    let (mut socket, _) = listener.accept().expect("it connects");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seen = Vec::new();
            let mut bytes = [0; 4096];
            // Each request of the handshake is answered immediately; no request contains another
            // one's name.
            while let Ok(count @ 1..) = std::io::Read::read(&mut socket, &mut bytes) {
                seen.extend_from_slice(&bytes[..count]);
                let answer: &[u8] = match &seen {
                    seen if contains(seen, b"PSYNC") => {
                        b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 1\r\n$2000\r\n"
                    }
                    seen if contains(seen, b"PING") => b"+PONG\r\n",
                    seen => &b"+OK\r\n".repeat(seen.iter().filter(|&&byte| byte == b'*').count()),
                };
                std::io::Write::write_all(&mut socket, answer).expect("sent");
                if contains(&seen, b"PSYNC") {
                    std::io::Write::write_all(&mut socket, &[0; 1000]).expect("sent");
                }
                seen.clear();
            }
        });
        browser.wait_for(&role("This server is a replica."));
        let line = format!("^primary 127.0.0.1:{primary}\\tsync\\t.*receiving 1000 B of 1.95 KiB\\s+50 %");
        browser.wait_for(&lists("Replication", &line));
        browser.wait_for(&format!("{}.querySelector('progress').value === 0.5", section("Replication")));
        client.ok("REPLICAOF NO ONE");
    });
    browser.wait_for(&role("This server is a primary."));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}

#[test]
fn the_page_shows_active_active_peers() {
    let Some(mut browser) = browser("the_page_shows_active_active_peers") else { return };
    let (one, _) = start(&["--active-replica", "yes", "--active-region", "1"]);
    let (two, port) = start(&["--active-replica", "yes", "--active-region", "2"]);
    two.connect().ok(&format!("CONFIG SET active-peers \"127.0.0.1:{},127.0.0.1:1\"", one.port()));
    one.connect().ok("SET k v");
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    let up = format!("^127.0.0.1:{}\\tup\\t1\\t[0-9.]+( .?s)?\\t1\\t[0-9.]+ (B|KiB)\\t-$", one.port());
    browser.wait_for(&lists("Active-active", &up));
    browser.wait_for(&lists("Active-active", "^127.0.0.1:1\\tdown"));
    let hint = format!("{}.querySelector('.hint').innerText", section("Active-active"));
    browser.wait_for(&format!("{hint}.startsWith('Region 2, 0 own units, 1 merged')"));
    // A server without active-active replication hides that section.
    let (_plain, port) = start(&[]);
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    browser.wait_for("document.getElementById('state').textContent === 'live'");
    browser.wait_for(&format!("{}.hidden", section("Active-active")));
}
