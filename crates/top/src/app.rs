// SPDX-License-Identifier: BSD-3-Clause
//! The display state, which key input changes.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::options::{INTERVAL_MAX, INTERVAL_MIN};
use crate::panels::{self, Sheet};
use crate::sample::{Detail, Sample};
use crate::view::View;

/// The panel in the lower half of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Commands,
    Clients,
    SlowLog,
    Memory,
    HotKeys,
    Links,
    /// Only for servers in a group.
    Group,
    /// Only for servers in active mode.
    Active,
    /// Only for cluster nodes.
    HotSlots,
}

pub const PANELS: [(Panel, &str); 9] = [
    (Panel::Commands, "commands"),
    (Panel::Clients, "clients"),
    (Panel::SlowLog, "slow log"),
    (Panel::Memory, "memory"),
    (Panel::HotKeys, "hot keys"),
    (Panel::Links, "replication"),
    (Panel::Group, "group"),
    (Panel::Active, "active"),
    (Panel::HotSlots, "hot slots"),
];

/// The column that determines a panel's order, and the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub column: usize,
    pub descending: bool,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Draw,
    /// The open panel needs other data: take a sample now.
    Refresh,
    Quit,
}

/// The display state.
pub struct App {
    pub address: String,
    pub view: View,
    pub panel: Panel,
    /// By index in [`PANELS`]; `None` means the server's order.
    pub orders: [Option<Order>; PANELS.len()],
    /// The selected thread.
    pub selected: usize,
    /// The thread whose clients are shown; `None` shows all clients.
    pub thread: Option<u32>,
    /// First row shown.
    pub scroll: usize,
    pub paused: bool,
    pub help: bool,
    pub interval: Duration,
    /// The error of the last sample.
    pub last_error: Option<String>,
    sample: Option<Sample>,
}

impl App {
    pub fn new(address: String, interval: Duration) -> App {
        App {
            address,
            view: View::default(),
            panel: Panel::Commands,
            orders: std::array::from_fn(|place| {
                (place == 0).then_some(Order { column: 1, descending: true })
            }),
            selected: 0,
            thread: None,
            scroll: 0,
            paused: false,
            help: false,
            interval,
            last_error: None,
            sample: None,
        }
    }

    /// Takes in a new sample. The first sample shows rates since the server's start.
    pub fn take(&mut self, result: Result<Sample, String>) {
        match result {
            Err(reason) => self.last_error = Some(reason),
            Ok(sample) => {
                self.last_error = None;
                let is_same = |before: &Sample| {
                    before.info.get("run_id") == sample.info.get("run_id") && sample.at > before.at
                };
                self.view = match self.sample.as_ref().filter(|before| is_same(before)) {
                    Some(before) => View::between(before, &sample),
                    None => View::between(&sample, &sample),
                };
                self.selected = self.selected.min(self.view.threads.len().saturating_sub(1));
                self.sample = Some(sample);
            }
        }
    }

    /// The data that the open panel needs.
    pub fn detail(&self) -> Detail {
        match self.panel {
            Panel::Commands | Panel::Memory | Panel::Links | Panel::Group | Panel::Active => Detail::Nothing,
            Panel::Clients => Detail::Clients,
            Panel::SlowLog => Detail::SlowLog,
            Panel::HotKeys => Detail::HotKeys,
            Panel::HotSlots => Detail::HotSlots,
        }
    }

    /// The open panel's table, sorted.
    pub fn sheet(&self) -> Sheet {
        let nothing = Sample::default();
        let sample = self.sample.as_ref().unwrap_or(&nothing);
        let mut sheet = match self.panel {
            Panel::Commands => panels::commands(&self.view),
            Panel::Clients => panels::clients(&sample.clients, self.thread),
            Panel::SlowLog => panels::slow_log(&sample.slow, panels::unix_seconds(sample)),
            Panel::Memory => panels::memory(&self.view),
            Panel::HotKeys => panels::hot_keys(sample.hot.as_deref().unwrap_or_default()),
            Panel::Links => panels::links(&self.view),
            Panel::Group => panels::members(&self.view),
            Panel::Active => panels::peers(&self.view),
            Panel::HotSlots => panels::hot_slots(&self.view),
        };
        if let Some(order) = self.orders[self.place()] {
            sheet.sort(order.column, order.descending);
        }
        sheet
    }

    /// The text for a panel without rows.
    pub fn emptiness(&self) -> &'static str {
        match self.panel {
            Panel::HotKeys if self.sample.as_ref().is_some_and(|sample| sample.hot.is_none()) => {
                "none known: start tracking with HOTKEYS START METRICS 1 CPU SAMPLE 100 (or use \
                 maxmemory-policy allkeys-lfu)"
            }
            Panel::Links => "a primary without replicas",
            Panel::Group => "not in a group",
            Panel::Active => "no peers",
            Panel::HotSlots => "no slot of this node has keys",
            Panel::SlowLog => "no slow commands (slowlog-log-slower-than)",
            _ => "nothing yet",
        }
    }

    /// The open panel's index in [`PANELS`].
    pub fn place(&self) -> usize {
        PANELS.iter().position(|(panel, _)| *panel == self.panel).unwrap_or(0)
    }

    /// Whether the server has data for a panel.
    pub fn has(&self, panel: Panel) -> bool {
        match panel {
            Panel::Group => self.view.group.is_some(),
            Panel::Active => self.view.active.is_some(),
            Panel::HotSlots => self.view.is_in_cluster,
            _ => true,
        }
    }

    /// The panel before or after the open one.
    fn neighbour(&self, is_next: bool) -> Panel {
        let step = if is_next { 1 } else { PANELS.len() - 1 };
        let places = (1..=PANELS.len()).map(|count| (self.place() + count * step) % PANELS.len());
        places.map(|place| PANELS[place].0).find(|panel| self.has(*panel)).unwrap_or(self.panel)
    }

    fn open(&mut self, panel: Panel) -> Action {
        self.panel = panel;
        self.scroll = 0;
        Action::Refresh
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if self.help {
            self.help = false;
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Action::Quit,
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Char(digit @ '1'..='9') => {
                let panel = PANELS[digit as usize - '1' as usize].0;
                if self.has(panel) {
                    self.thread = None;
                    return self.open(panel);
                }
            }
            KeyCode::Tab | KeyCode::BackTab => return self.open(self.neighbour(key.code == KeyCode::Tab)),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => {
                self.selected = (self.selected + 1).min(self.view.threads.len().saturating_sub(1))
            }
            KeyCode::Enter => {
                // A thread that serves no clients has none to show.
                self.thread = self.view.threads.get(self.selected).and_then(|thread| thread.number);
                if self.thread.is_some() {
                    return self.open(Panel::Clients);
                }
            }
            KeyCode::Esc if self.thread.is_some() => {
                self.thread = None;
                return self.open(Panel::Commands);
            }
            KeyCode::Left | KeyCode::Right => self.choose_column(key.code == KeyCode::Right),
            KeyCode::Char('r') => {
                let place = self.place();
                let order = self.orders[place].unwrap_or(Order { column: 0, descending: false });
                self.orders[place] = Some(Order { descending: !order.descending, ..order });
            }
            KeyCode::PageDown => {
                self.scroll = (self.scroll + 10).min(self.sheet().rows.len().saturating_sub(1))
            }
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Action::Draw
    }

    /// Sorts by the next column to the right or left: numbers in descending order, texts in
    /// ascending.
    fn choose_column(&mut self, right: bool) {
        let sheet = self.sheet();
        let count = sheet.columns.len().max(1);
        let place = self.place();
        let column = match self.orders[place] {
            None => 0,
            Some(order) if right => (order.column + 1) % count,
            Some(order) => (order.column + count - 1) % count,
        };
        let descending = sheet.columns.get(column).is_some_and(|column| column.is_figure);
        self.orders[place] = Some(Order { column, descending });
    }
}
