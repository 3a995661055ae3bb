//! The page of figures in a browser, as an operator has it before them. What is not installed is skipped; with `CI` set that is a failure.
//!
//! `BRAID_PICTURE=FILE` keeps a picture of the page (PNG), of a server under load for as long as `BRAID_PICTURE_SECONDS` says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use braid_tests::browser::{self, Browser};
use braid_tests::server::free_port;
use braid_tests::{RawClient, TestServer, Value, request, wait_for_within};

use crate::metrics::start;

/// The browser, or a word that there is none.
fn browser(test: &str) -> Option<Browser> {
    let found = browser::find();
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "there is no Chromium on PATH");
    if found.is_none() {
        println!("{test}: skipped, there is no Chromium on PATH");
    }
    found.map(|program| Browser::start(&program))
}

/// JavaScript for the part of the page with a title.
fn section(title: &str) -> String {
    format!(
        "[...document.querySelectorAll('section')].find(part => part.querySelector('h2').textContent === '{title}')"
    )
}

/// JavaScript that is true when what a plot says of its lines at present fits a regular expression.
fn says(title: &str, pattern: &str) -> String {
    format!("/{pattern}/.test({}.querySelector('.legend').innerText)", section(title))
}

/// JavaScript that is true when some line of a table fits a regular expression. Cells are separated by tabs.
fn lists(title: &str, pattern: &str) -> String {
    format!("[...{}.querySelectorAll('tr')].some(line => /{pattern}/.test(line.innerText))", section(title))
}

/// How many lines of a plot are drawn: those whose colour is seen in the picture, in at least a few places.
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

/// Sends commands until it is told to stop.
fn keep_busy(mut client: RawClient, stop: &AtomicBool) {
    let pipeline = ["SET hot value", "GET hot", "HSET hash field value", "INCR count", "SET due 1 EX 100"];
    let pipeline: Vec<u8> = pipeline.iter().flat_map(|line| request(line)).collect();
    while !stop.load(Ordering::Relaxed) {
        client.send(&pipeline);
        for _ in 0..5 {
            client.read();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_page_plots_what_the_server_does() {
    let Some(mut browser) = browser("the_page_plots_what_the_server_does") else { return };
    let (server, port) = start(&["--io-threads", "2"]);
    let mut client = server.connect();
    let mut waiting = server.connect();
    waiting.send(&request("BLPOP nothing 0"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Whatever happens here, the load is to end.
        let _end = EndOf(&stop);
        for _ in 0..2 {
            let client = server.connect();
            scope.spawn(|| keep_busy(client, &stop));
        }
        assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
        browser.wait_for("document.getElementById('state').textContent === 'live'");
        browser.wait_for(&says("Commands per second", "commands [1-9]"));
        browser.wait_for(&says("Load of each thread", "thread 0 [0-9.]+ %[^]*thread 1 [0-9.]+ %"));
        browser.wait_for(&says("Load of each thread", "thread [01] [1-9]"));
        let quantiles = "99.9 % [0-9.]+ .?s[^]*99 % [0-9.]+ .?s[^]*50 % [0-9.]+ .?s";
        browser.wait_for(&says("Time that commands take", quantiles));
        browser.wait_for(&says("Memory", "resident [0-9.]+ MiB[^]*used [0-9.]+ .iB"));
        browser.wait_for(&says("Clients", "connected 4[^]*waiting 1"));
        browser.wait_for(&says("Network per second", "sent [1-9][^]*received [1-9]"));
        browser.wait_for(&says("Keys", "keys 4[^]*with expiry 1"));
        browser.wait_for(&lists("Busiest commands", "^hset\\t[0-9.]+k?\\t[0-9.]+ .?s\\t[0-9.]+ %"));
        // Of hot keys nothing is known until it is asked for.
        assert_eq!(browser.evaluate(&lists("Hot keys", "hot")), false);
        client.ok("HOTKEYS START METRICS 2 CPU NET SAMPLE 1");
        browser.wait_for(&lists("Hot keys", "^hot\\t[0-9.]+ .?s\\t[0-9.]+ "));
        if let Some(file) = std::env::var_os("BRAID_PICTURE") {
            let seconds = std::env::var("BRAID_PICTURE_SECONDS").ok().and_then(|text| text.parse().ok());
            std::thread::sleep(Duration::from_secs(seconds.unwrap_or(0)));
            let picture = STANDARD.decode(browser.picture()).expect("base64");
            std::fs::write(file, picture).expect("the file is written");
        }
        // Where nothing keeps the lines apart they may lie on each other.
        for (title, lines, drawn_min) in [
            ("Commands per second", 1, 1),
            ("Load of each thread", 2, 1),
            ("Time that commands take", 3, 1),
            ("Memory", 2, 2),
            ("Clients", 2, 2),
            ("Network per second", 2, 2),
            ("Keys", 2, 2),
        ] {
            let mut seen = (0, 0);
            let drawn = wait_for_within(Duration::from_secs(20), || {
                seen = lines_drawn(&mut browser, title);
                seen.0 >= drawn_min && seen.1 == lines
            });
            assert!(drawn, "{title}: {} of {} lines are drawn", seen.0, seen.1);
        }
        // What changes is seen.
        let more: Vec<RawClient> = (0..5).map(|_| server.connect()).collect();
        browser.wait_for(&says("Clients", "connected 9[^]*waiting 1"));
        drop(more);
        assert_eq!(client.call("RPUSH nothing something"), Value::Integer(1));
        browser.wait_for(&says("Clients", "connected 4[^]*waiting 0"));
    });
    browser.wait_for(&says("Commands per second", "commands 0"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_page_asks_for_the_password() {
    let Some(mut browser) = browser("the_page_asks_for_the_password") else { return };
    let (server, port) = start(&["--requirepass", "open sesame"]);
    let address = format!("http://127.0.0.1:{port}/");
    let shows_figures = "typeof PLOTS === 'object'";
    // Who gives none, or a wrong one, sees nothing.
    assert_eq!(browser.open(&address), 401);
    assert_eq!(browser.evaluate(shows_figures), false);
    browser.know_password("default", "wrong");
    assert_eq!(browser.open(&address), 401);
    assert_eq!(browser.evaluate(shows_figures), false);
    browser.know_password("default", "open sesame");
    assert_eq!(browser.open(&address), 200);
    browser.wait_for(&says("Clients", "connected [0-9]"));
    assert_eq!(browser.complaints(), &[] as &[String]);
    // Once the password is another one no more is told, and the page says so.
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
fn the_page_goes_on_with_the_next_server() {
    let Some(mut browser) = browser("the_page_goes_on_with_the_next_server") else { return };
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
