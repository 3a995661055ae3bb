// SPDX-License-Identifier: BSD-3-Clause
//! braid-top's main program: a sampling thread, the terminal, and key input.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use braid_client::{Arguments, Target};
use braid_top::app::{Action, App};
use braid_top::options::{self, Options, Request};
use braid_top::sample::{Detail, Sample, Sampler};
use braid_top::view::View;
use braid_top::{once, screen};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    // `-h` alone cannot be the host option.
    if std::env::args_os().skip(1).eq(["-h"]) {
        return print(&options::help());
    }
    let options = match options::parse(&mut Arguments::of_process()) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => return print(&options::help()),
        Ok(Request::Version) => return print(concat!("braid-top ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(message) => {
            eprintln!("braid-top: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let result = options.target.target().and_then(|target| match options.once {
        true => print_once(&options, target),
        false => live(&options, target).map_err(|error| error.to_string()),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("braid-top: {message}");
            ExitCode::from(FAILED)
        }
    }
}

/// Prints to standard output. A closed pipe is not worth an error message.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn print_once(options: &Options, target: Target) -> Result<(), String> {
    let address = target.address.to_string();
    let mut sampler = Sampler::new(target);
    let say = |error: String| format!("{address}: {error}");
    let before = sampler.sample(Detail::HotSlots).map_err(say)?;
    std::thread::sleep(options.interval);
    // The rates cover the time between these two samples; the later queries must not count.
    let mut after = sampler.sample(Detail::HotSlots).map_err(say)?;
    after.slow = sampler.sample(Detail::SlowLog).map_err(say)?.slow;
    if options.clients {
        after.clients = sampler.sample(Detail::Clients).map_err(say)?.clients;
    }
    let view = View::between(&before, &after);
    print(&match options.json {
        true => format!("{:#}\n", once::json(&view, &after, &address, options.clients)),
        false => once::text(&view, &after, &address, options.clients),
    });
    Ok(())
}

/// The sampling thread: separate, so that an unresponsive server does not block key input.
fn watch(target: Target, requests: Receiver<Detail>, samples: Sender<Result<Sample, String>>) {
    let mut sampler = Sampler::new(target);
    while let Ok(mut detail) = requests.recv() {
        // Only the latest request counts.
        while let Ok(later) = requests.try_recv() {
            detail = later;
        }
        if samples.send(sampler.sample(detail)).is_err() {
            return;
        }
    }
}

/// Interval between checks for key input.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

fn live(options: &Options, target: Target) -> std::io::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(std::io::Error::other("the live view needs a terminal; use --once to print one view"));
    }
    let mut app = App::new(target.address.to_string(), options.interval);
    let (request_sender, requests) = channel();
    let (sample_sender, samples) = channel();
    std::thread::spawn(move || watch(target, requests, sample_sender));
    // Fails with a message if there is no terminal. Restores the terminal even after a panic.
    let mut terminal = ratatui::try_init()?;
    let result = run(&mut terminal, &mut app, &request_sender, &samples);
    ratatui::restore();
    result
}

fn run(
    terminal: &mut ratatui::DefaultTerminal,
    app: &mut App,
    requests: &Sender<Detail>,
    samples: &Receiver<Result<Sample, String>>,
) -> std::io::Result<()> {
    let mut next = Instant::now();
    let mut is_waiting = false;
    loop {
        if !is_waiting && !app.paused && Instant::now() >= next {
            is_waiting = requests.send(app.detail()).is_ok();
            next = Instant::now() + app.interval;
        }
        let mut changed = false;
        match samples.recv_timeout(Duration::ZERO) {
            Ok(sample) => {
                is_waiting = false;
                app.take(sample);
                changed = true;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let mut rest = KEY_INTERVAL;
        while event::poll(rest)? {
            rest = Duration::ZERO;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match app.key(key) {
                    Action::Quit => return Ok(()),
                    Action::Refresh => next = Instant::now(),
                    Action::Draw => {}
                },
                _ => {}
            }
            changed = true;
        }
        if changed {
            terminal.draw(|frame| screen::draw(frame, app))?;
        }
    }
}
