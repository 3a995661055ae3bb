// SPDX-License-Identifier: BSD-3-Clause
//! Draws the state on a terminal.

use std::fmt::Write;

use braid_client::figures::{bytes, grouped, short};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::app::{App, Order, PANELS, Panel};
use crate::panels::{self, Sheet};
use crate::view::View;

const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
const POINTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const FAINT: Style = Style::new().fg(Color::DarkGray);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

const HELP: &str = "\
1-9, Tab      commands, clients, slow log, memory, hot keys,
              replication; group, active peers and hot
              slots if the server has them
Up, Down      choose a thread
Enter         its clients; Esc goes back
Left, Right   choose the sort column
r             reverse the order
PgUp, PgDn    scroll
Space         pause
+, -          update less often, more often
q             quit

useful %      share of the time in which the thread worked;
              waiting for clients does not count
cpu %         percent of one core: user plus sys
waits/s       waits for a lock held by another thread
retries/s     reads retried because a writer interfered
percentiles   since the server's start, or CONFIG RESETSTAT";

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let threads = panels::threads(&app.view);
    // Threads take the rows they need, but leave half of the screen to the panel.
    let room = frame.area().height.saturating_sub(5) / 2;
    let thread_lines = (threads.rows.len() as u16 + 1).min(room.max(2));
    let [header, thread_area, tabs, panel, footer] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(thread_lines),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header_text(app)), header);
    draw_threads(frame, thread_area, app, &threads);
    frame.render_widget(Paragraph::new(tab_line(app)), tabs);
    draw_panel(frame, panel, app);
    frame.render_widget(Paragraph::new(footer_line(app)), footer);
    if app.help {
        draw_help(frame);
    }
}

/// The values of the whole server in three lines, for the screen and for `--once`.
pub fn summary(view: &View, address: &str) -> [String; 3] {
    let totals = &view.totals;
    let mut first = format!("{}  {address}  {}", view.server, role(view));
    if let Some(model) = &view.model {
        let _ = write!(first, "  {model}");
    }
    let _ = write!(first, "  up {}", duration(view.uptime_seconds));
    let mut second = format!(
        "commands {}/s  clients {:.0}  in {}/s  out {}/s  cpu {:.2} cores ({:.2} user, {:.2} sys)",
        short(totals.commands_rate),
        totals.clients,
        bytes(totals.input_rate),
        bytes(totals.output_rate),
        totals.user + totals.system,
        totals.user,
        totals.system,
    );
    if totals.blocked_clients > 0.0 {
        let _ = write!(second, "  blocked {:.0}", totals.blocked_clients);
    }
    if totals.errors_rate > 0.0 {
        let _ = write!(second, "  errors {}/s", short(totals.errors_rate));
    }
    let memory = &view.memory;
    let keys: f64 = view.databases.iter().map(|database| database.keys).sum();
    let limit = if memory.max > 0.0 { format!(" of {}", bytes(memory.max)) } else { String::new() };
    let mut third = format!(
        "memory {}{limit} (resident {})  keys {}",
        bytes(memory.used),
        bytes(memory.resident),
        grouped(keys)
    );
    if let Some(ratio) = totals.hit_ratio() {
        let _ = write!(third, "  hits {:.1} %", ratio * 100.0);
    }
    for (name, rate) in [("expired", totals.expired_rate), ("evicted", totals.evicted_rate)] {
        if rate > 0.0 {
            let _ = write!(third, "  {name} {}/s", short(rate));
        }
    }
    if let (Some(waits), Some(retries)) = (totals.lock_waits_rate, totals.retries_rate) {
        let _ = write!(third, "  lock waits {}/s  retries {}/s", short(waits), short(retries));
    }
    if let Some((count, done)) = totals.indexes_building {
        let _ = write!(third, "  indexes building {count:.0} ({:.0} %)", done * 100.0);
    }
    [first, second, third]
}

/// The role and the state of its links: `replica of 127.0.0.1:6379 (sync)`, `primary  replicas 1 of
/// 2 online`.
fn role(view: &View) -> String {
    let (mut primary, mut replicas, mut online) = (None, 0, 0);
    for link in &view.links {
        match link.peer.split_once(' ') {
            Some(("primary", address)) => primary = Some((address, &link.state)),
            _ => {
                replicas += 1;
                online += usize::from(link.state == "online");
            }
        }
    }
    let mut text = match view.role.as_str() {
        "master" => "primary".to_owned(),
        "slave" => "replica".to_owned(),
        other => other.to_owned(),
    };
    if let Some((address, state)) = primary {
        let _ = write!(text, " of {address} ({state})");
    }
    if replicas > 0 {
        let _ = write!(text, "  replicas {online} of {replicas} online");
    }
    text
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

fn header_text(app: &App) -> Text<'static> {
    let [first, second, third] = summary(&app.view, &app.address);
    let mut first = vec![Span::styled(first, HEADING)];
    if app.paused {
        first.push(Span::styled("  PAUSED", ALARM));
    }
    Text::from(vec![Line::from(first), Line::from(second), Line::from(third)])
}

/// Limits of a bar's width, including its frame: as wide as there is room for, or no bar.
const BAR_WIDTH_MIN: usize = 8;
const BAR_WIDTH_MAX: usize = 24;

fn draw_threads(frame: &mut Frame<'_>, area: Rect, app: &App, sheet: &Sheet) {
    let widths = sheet.widths();
    let heading = sheet.line(sheet.columns.iter().map(|column| column.name.as_str()), &widths);
    let room = usize::from(area.width).saturating_sub(heading.chars().count() + 1);
    let bar_width = if room < BAR_WIDTH_MIN { 0 } else { room.min(BAR_WIDTH_MAX) };
    let gap = if bar_width > 0 { " " } else { "" };
    let mut lines = vec![Line::styled(format!("{:bar_width$}{gap}{heading}", ""), HEADING)];
    // Keeps the selected row visible.
    let room = usize::from(area.height).saturating_sub(1).max(1);
    let first = (app.selected + 1).saturating_sub(room);
    for (place, row) in sheet.rows.iter().enumerate().skip(first).take(room) {
        let useful = app.view.threads.get(place).and_then(|thread| thread.useful);
        let text = sheet.line(row.iter().map(|cell| cell.text.as_str()), &widths);
        let style = if place == app.selected { POINTED } else { Style::new() };
        lines.push(Line::from(vec![bar(useful, bar_width), Span::raw(gap), Span::styled(text, style)]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The useful share of a thread's time, as a bar of this width.
fn bar(part: Option<f64>, width: usize) -> Span<'static> {
    let room = width.saturating_sub(2);
    let Some(part) = part.filter(|_| room > 0) else { return Span::raw(" ".repeat(width)) };
    let filled = ((part * room as f64).round() as usize).min(room);
    let colour = match part {
        part if part >= 0.9 => Color::Red,
        part if part >= 0.7 => Color::Yellow,
        _ => Color::Green,
    };
    Span::styled(format!("[{:<room$}]", "|".repeat(filled)), Style::new().fg(colour))
}

fn tab_line(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, (panel, name)) in PANELS.iter().enumerate().filter(|(_, (panel, _))| app.has(*panel)) {
        let style = if *panel == app.panel { POINTED } else { FAINT };
        spans.push(Span::styled(format!(" {} {name} ", place + 1), style));
        spans.push(Span::raw(" "));
    }
    if let Some(thread) = app.thread.filter(|_| app.panel == Panel::Clients) {
        spans.push(Span::styled(format!("of thread {thread} (Esc: all)"), HEADING));
    }
    Line::from(spans)
}

fn draw_panel(frame: &mut Frame<'_>, mut area: Rect, app: &App) {
    let sheet = app.sheet();
    let heading = match app.panel {
        Panel::Group => app.view.group.as_ref().map(|group| group.heading()),
        Panel::Active => app.view.active.as_ref().map(|active| active.heading()),
        Panel::HotSlots if app.view.slots.iter().any(|slot| slot.cpu_seconds.is_none()) => Some(
            "only keys are counted: enable cluster-slot-stats-enabled to measure time and traffic\n".into(),
        ),
        _ => None,
    };
    if let Some(heading) = heading {
        // The table gets half of a small screen.
        let lines = (heading.lines().count() as u16 + 1).min(area.height / 2);
        let [above, below] = Layout::vertical([Constraint::Length(lines), Constraint::Min(1)]).areas(area);
        frame.render_widget(Paragraph::new(heading), above);
        area = below;
    }
    if sheet.rows.is_empty() {
        frame.render_widget(Paragraph::new(Line::styled(app.emptiness(), FAINT)), area);
        return;
    }
    let widths = sheet.widths();
    let order = app.orders[app.place()];
    let mut heading = Vec::new();
    for (place, (column, width)) in sheet.columns.iter().zip(&widths).enumerate() {
        if place > 0 {
            heading.push(Span::raw("  "));
        }
        let is_chosen = order.is_some_and(|order: Order| order.column == place);
        let text = match column.is_figure {
            true => format!("{:>width$}", column.name),
            false => format!("{:<width$}", column.name),
        };
        heading.push(Span::styled(text, if is_chosen { POINTED } else { HEADING }));
    }
    let room = usize::from(area.height).saturating_sub(1);
    let rows = sheet.rows.iter().skip(app.scroll).take(room);
    let lines = rows.map(|row| Line::raw(sheet.line(row.iter().map(|cell| cell.text.as_str()), &widths)));
    let lines: Vec<Line<'_>> = std::iter::once(Line::from(heading)).chain(lines).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn footer_line(app: &App) -> Line<'static> {
    match &app.last_error {
        Some(last_error) => Line::styled(format!("{last_error}; retrying"), ALARM),
        None => {
            let interval = app.interval.as_secs_f64();
            Line::styled(format!("q quit  ? help  Enter clients of the thread  every {interval} s"), FAINT)
        }
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(66), area.height.min(HELP.lines().count() as u16 + 2));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" braid-top ")), place);
}

#[cfg(test)]
mod tests;
