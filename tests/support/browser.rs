// SPDX-License-Identifier: BSD-3-Clause
//! Headless Chromium, driven over a pipe (the DevTools protocol: JSON messages that end in a NUL
//! byte).
//!
//! A test opens an address and queries the page with JavaScript. The page's complaints are
//! recorded: exceptions, errors and warnings on the console, and those that the browser itself
//! logs about it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::wait::{PATIENCE, wait_for_within};

/// Time limit for one answer of the browser. Generous, because other tests may keep the
/// processors busy.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    process: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: String,
    complaints: Vec<String>,
    password: Option<(String, String)>,
    /// The page has already been given the password.
    has_told: bool,
    _folder: tempfile::TempDir,
}

/// The Chromium installed on this machine, if any.
pub fn find() -> Option<PathBuf> {
    let names = [
        "chromium-headless-shell",
        "headless_shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chrome",
    ];
    let path = std::env::var_os("PATH")?;
    // The smallest build first, in whichever folder of PATH.
    names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
    })
}

/// JavaScript for the section of the metrics page with this title.
pub fn section(title: &str) -> String {
    format!(
        "[...document.querySelectorAll('section')].find(part => part.querySelector('h2').textContent === '{title}')"
    )
}

/// JavaScript that is true if any row of a section's table matches a regular expression. Tabs
/// separate the cells.
pub fn lists(title: &str, pattern: &str) -> String {
    format!("[...{}.querySelectorAll('tr')].some(line => /{pattern}/.test(line.innerText))", section(title))
}

impl Browser {
    /// Starts the browser with an empty page of 1200 x 740 pixels.
    pub fn start(program: &Path) -> Browser {
        let folder = tempfile::tempdir().expect("a folder");
        // Chromium reads commands from descriptor 3 and writes replies to descriptor 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--remote-debugging-pipe", "--window-size=1200,740", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser {
            process,
            input,
            messages,
            next: 0,
            session: String::new(),
            complaints: Vec::new(),
            password: None,
            has_told: false,
            _folder: folder,
        };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.ask("Target.attachToTarget", json!({ "targetId": page["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Resizes the page, in CSS pixels; the device pixel ratio is 1.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Answers a page's authentication request with this name and password, once per page. A
    /// second request means that they were wrong, and is cancelled.
    pub fn know_password(&mut self, name: &str, password: &str) {
        self.password = Some((name.to_owned(), password.to_owned()));
        self.ask("Fetch.enable", json!({ "handleAuthRequests": true }));
    }

    /// Opens an address and discards earlier complaints. Returns the HTTP status of the response.
    #[track_caller]
    pub fn open(&mut self, address: &str) -> u64 {
        self.complaints.clear();
        self.has_told = false;
        let reply = self.ask("Page.navigate", json!({ "url": address }));
        assert!(reply["errorText"].is_null(), "{address}: {reply}");
        let mut status = None;
        let answered = wait_for_within(PATIENCE, || {
            let found = self.evaluate(
                "(() => { const page = performance.getEntriesByType('navigation')[0]; \
                 return document.readyState === 'complete' && page ? page.responseStatus : 0; })()",
            );
            status = found.as_u64().filter(|status| *status > 0);
            status.is_some()
        });
        assert!(answered, "no response from {address}");
        status.unwrap_or_default()
    }

    /// Evaluates an expression in the page and returns its value.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let reply = self.ask("Runtime.evaluate", question);
        assert!(reply["exceptionDetails"].is_null(), "{expression}: {}", reply["exceptionDetails"]);
        reply["result"]["value"].clone()
    }

    /// Waits, at the width of a phone and at that of a desktop screen, until nothing in the page
    /// overflows horizontally and this expression is true. If `BRAID_PICTURE` names a file,
    /// screenshots of both are saved beside it.
    #[track_caller]
    pub fn wait_for_every_width(&mut self, expression: &str) {
        for width in [390, 1280] {
            self.resize(width, 844);
            if let Some(file) = std::env::var_os("BRAID_PICTURE") {
                self.keep_picture(&Path::new(&file).with_extension(format!("{width}.png")));
            }
            self.wait_for(&format!(
                "window.innerWidth === {width} && document.documentElement.scrollWidth <= {width} && \
                 [...document.querySelectorAll('section')].every(part => part.scrollWidth <= part.clientWidth + 1) && \
                 {expression}"
            ));
        }
    }

    /// Waits until an expression is true in the page. On timeout, panics with the page's text.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let came = wait_for_within(PATIENCE, || self.evaluate(expression) == true);
        if !came {
            let page = self.evaluate("document.body.innerText");
            panic!("gave up waiting for {expression} in\n{}", page.as_str().unwrap_or_default());
        }
    }

    /// The page's complaints since it was opened.
    pub fn complaints(&mut self) -> &[String] {
        // Events that precede a reply have been read by the time the reply arrives.
        self.evaluate("0");
        &self.complaints
    }

    /// A screenshot of the whole page, as base64 text of a PNG file.
    pub fn picture(&mut self) -> String {
        let question = json!({ "format": "png", "captureBeyondViewport": true });
        self.ask("Page.captureScreenshot", question)["data"].as_str().expect("a picture").to_owned()
    }

    /// Saves a screenshot of the whole page to a file.
    pub fn keep_picture(&mut self, file: &Path) {
        let picture = STANDARD.decode(self.picture()).expect("base64");
        std::fs::write(file, picture).expect("the file is written");
    }

    #[track_caller]
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.send(method, parameters);
        let start = Instant::now();
        loop {
            let left = ANSWER_MAX.saturating_sub(start.elapsed());
            let message = self
                .messages
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("the browser does not answer {method}: {error}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn send(&mut self, method: &str, parameters: Value) -> u64 {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.input.write_all(&text).expect("the browser reads");
        self.next
    }

    /// Handles an event that the browser sends unprompted.
    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.complaints.push(parameters["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled"
                if parameters["type"] == "error" || parameters["type"] == "warning" =>
            {
                self.complaints.push(parameters["args"].to_string());
            }
            "Log.entryAdded"
                if parameters["entry"]["level"] == "error" || parameters["entry"]["level"] == "warning" =>
            {
                let entry = &parameters["entry"];
                self.complaints.push(format!("{} {}", entry["text"], entry["url"]));
            }
            "Fetch.requestPaused" => {
                self.send("Fetch.continueRequest", json!({ "requestId": parameters["requestId"] }));
            }
            "Fetch.authRequired" => {
                let response = match &self.password {
                    Some((name, password)) if !self.has_told => {
                        self.has_told = true;
                        json!({ "response": "ProvideCredentials", "username": name, "password": password })
                    }
                    _ => json!({ "response": "CancelAuth" }),
                };
                let answer =
                    json!({ "requestId": parameters["requestId"], "authChallengeResponse": response });
                self.send("Fetch.continueWithAuth", answer);
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
