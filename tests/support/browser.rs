// SPDX-License-Identifier: BSD-3-Clause
//! Chromium without a window, steered over a pipe (the DevTools protocol: JSON messages that end in
//! a NUL byte).
//!
//! A test opens an address and asks the page questions by JavaScript, as its reader could; whatever
//! the page complains of is kept: exceptions, what it writes to the console as an error, and what
//! the browser itself reports of it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::wait::{PATIENCE, wait_for_within};

/// The longest that the browser may take for one answer. Generous: processors may be busy with
/// other tests.
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
    /// The page has been given the password.
    has_told: bool,
    _folder: tempfile::TempDir,
}

/// Chromium on this machine, if there is one.
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
    // The smallest first, wherever it is.
    names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
    })
}

/// JavaScript for the section of the metrics page with a title.
pub fn section(title: &str) -> String {
    format!(
        "[...document.querySelectorAll('section')].find(part => part.querySelector('h2').textContent === '{title}')"
    )
}

/// JavaScript that is true when some line of a section's table fits a regular expression. Cells are
/// separated by tabs.
pub fn lists(title: &str, pattern: &str) -> String {
    format!("[...{}.querySelectorAll('tr')].some(line => /{pattern}/.test(line.innerText))", section(title))
}

impl Browser {
    /// Starts it with an empty page of 1200 x 740 pixels.
    pub fn start(program: &Path) -> Browser {
        let folder = tempfile::tempdir().expect("a folder");
        // It reads descriptor 3 and writes descriptor 4.
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

    /// Gives the page another size, in pixels of a screen that has one for each of CSS's.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Answers with name and password when a page asks for them, as its reader would; once a page:
    /// if it is asked again they were wrong.
    pub fn know_password(&mut self, name: &str, password: &str) {
        self.password = Some((name.to_owned(), password.to_owned()));
        self.ask("Fetch.enable", json!({ "handleAuthRequests": true }));
    }

    /// Opens an address and forgets earlier complaints. Returns the status with which the server
    /// answered.
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
        assert!(answered, "{address} was not answered");
        status.unwrap_or_default()
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let reply = self.ask("Runtime.evaluate", question);
        assert!(reply["exceptionDetails"].is_null(), "{expression}: {}", reply["exceptionDetails"]);
        reply["result"]["value"].clone()
    }

    /// Waits until the page shows all of its width, and this expression is true, on a telephone and
    /// on a screen. `BRAID_PICTURE` names a file beside which pictures of both are kept.
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

    /// Waits until an expression is true in the page; panics with what the page shows when that
    /// does not come.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let came = wait_for_within(PATIENCE, || self.evaluate(expression) == true);
        if !came {
            let page = self.evaluate("document.body.innerText");
            panic!("gave up waiting for {expression} in\n{}", page.as_str().unwrap_or_default());
        }
    }

    /// What the page has complained of since it was opened.
    pub fn complaints(&mut self) -> &[String] {
        // Whatever came before the answer to a question has been seen.
        self.evaluate("0");
        &self.complaints
    }

    /// A picture of the whole page, as the base64 text of a PNG file.
    pub fn picture(&mut self) -> String {
        let question = json!({ "format": "png", "captureBeyondViewport": true });
        self.ask("Page.captureScreenshot", question)["data"].as_str().expect("a picture").to_owned()
    }

    /// Writes that picture to a file.
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

    /// Something that the browser tells by itself.
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
