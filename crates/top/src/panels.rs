// SPDX-License-Identifier: BSD-3-Clause
//! The tables: columns and row order, for the screen and `--once`.

use braid_client::figures::{bytes, short};

use crate::links::SyncRow;
use crate::sample::{ClientLine, HotKey, Sample, SlowEntry};
use crate::view::View;

/// A table that can be sorted by each column.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

/// A column's heading. Numbers are right-aligned.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub is_figure: bool,
}

/// The displayed text, and the value for sorting.
#[derive(Clone, Debug)]
pub struct Cell {
    pub text: String,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Key {
    Number(f64),
    Text(String),
}

impl Cell {
    fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell { key: Key::Text(text.to_lowercase()), text }
    }

    /// A number, or a dash if there is none.
    fn figure(number: Option<f64>, form: impl Fn(f64) -> String) -> Cell {
        match number {
            Some(number) => Cell { text: form(number), key: Key::Number(number) },
            None => Cell { text: "-".into(), key: Key::Number(f64::NEG_INFINITY) },
        }
    }
}

const FIGURE_WIDTH_MIN: usize = 6;

fn percent(part: f64) -> String {
    format!("{:.1}", part * 100.0)
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

impl Sheet {
    fn new(columns: &[(&str, bool)]) -> Sheet {
        let column = |&(name, is_figure): &(&str, bool)| Column { name: name.to_owned(), is_figure };
        Sheet { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Sorts the rows; equal rows keep their order.
    pub fn sort(&mut self, column: usize, descending: bool) {
        self.rows.sort_by(|a, b| {
            let order = match (a.get(column), b.get(column)) {
                (Some(a), Some(b)) => a.key.partial_cmp(&b.key).unwrap_or(std::cmp::Ordering::Equal),
                _ => std::cmp::Ordering::Equal,
            };
            if descending { order.reverse() } else { order }
        });
    }

    /// The width of each column: that of its widest text. Numbers have room to grow without
    /// moving the columns next to them.
    pub fn widths(&self) -> Vec<usize> {
        let width = |(place, column): (usize, &Column)| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.text.chars().count());
            let least = if column.is_figure { FIGURE_WIDTH_MIN } else { 0 };
            cells.chain([column.name.chars().count(), least]).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    /// A line of cells, aligned.
    pub fn line<'a>(&self, cells: impl IntoIterator<Item = &'a str>, widths: &[usize]) -> String {
        let cells: Vec<String> = cells
            .into_iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((text, column), width)| match column.is_figure {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    }

    /// The whole table as text, with at most `rows_max` rows.
    pub fn text(&self, rows_max: usize) -> String {
        let widths = self.widths();
        let mut out = self.line(self.columns.iter().map(|column| column.name.as_str()), &widths) + "\n";
        for row in self.rows.iter().take(rows_max) {
            out += &self.line(row.iter().map(|cell| cell.text.as_str()), &widths);
            out.push('\n');
        }
        out
    }

    /// Drops columns without any content.
    fn without_empty(mut self) -> Sheet {
        for place in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[place].text == "-") {
                self.columns.remove(place);
                self.rows.iter_mut().for_each(|row| {
                    row.remove(place);
                });
            }
        }
        self
    }
}

/// The threads; columns for which the server reports nothing are left out.
pub fn threads(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("thread", false),
        ("useful %", true),
        ("cpu %", true),
        ("user", true),
        ("sys", true),
        ("clients", true),
        ("commands/s", true),
        ("reads/s", true),
        ("writes/s", true),
        ("in/s", true),
        ("out/s", true),
        ("waits/s", true),
        ("retries/s", true),
    ]);
    for thread in &view.threads {
        sheet.rows.push(vec![
            Cell::text(thread.name.clone()),
            Cell::figure(thread.useful, percent),
            Cell::figure(thread.processor(), percent),
            // A combined value would be wrong for either.
            Cell::figure(thread.system.and(thread.user), percent),
            Cell::figure(thread.system, percent),
            Cell::figure(thread.clients, whole),
            Cell::figure(thread.commands_rate, short),
            Cell::figure(thread.reads_rate, short),
            Cell::figure(thread.writes_rate, short),
            Cell::figure(thread.input_rate, bytes),
            Cell::figure(thread.output_rate, bytes),
            Cell::figure(thread.lock_waits_rate, short),
            Cell::figure(thread.retries_rate, short),
        ]);
    }
    sheet.without_empty()
}

/// Commands called between the samples.
pub fn commands(view: &View) -> Sheet {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in view.commands.iter().flat_map(|command| &command.percentiles) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut columns = vec![("command", false), ("calls/s", true), ("% of a core", true), ("us/call", true)];
    let headings: Vec<String> = names.iter().map(|name| format!("{name} us")).collect();
    columns.extend(headings.iter().map(|heading| (heading.as_str(), true)));
    columns.extend([("failed/s", true), ("refused/s", true)]);
    let mut sheet = Sheet::new(&columns);
    for command in &view.commands {
        let mut row = vec![
            Cell::text(command.name.clone()),
            Cell::figure(Some(command.rate), short),
            Cell::figure(Some(command.share), percent),
            Cell::figure(Some(command.micros_per_call), short),
        ];
        for name in &names {
            let value = command.percentiles.iter().find(|(own, _)| own == name).map(|(_, value)| *value);
            row.push(Cell::figure(value, short));
        }
        row.push(Cell::figure(Some(command.failed_rate), short));
        row.push(Cell::figure(Some(command.rejected_rate), short));
        sheet.rows.push(row);
    }
    sheet
}

/// The clients of one thread or of all.
pub fn clients(clients: &[ClientLine], thread: Option<u32>) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("id", true),
        ("address", false),
        ("name", false),
        ("thread", true),
        ("age s", true),
        ("idle s", true),
        ("flags", false),
        ("db", true),
        ("command", false),
        ("commands", true),
        ("query", true),
        ("output", true),
        ("memory", true),
    ]);
    for client in clients {
        let own = client.number("io-thread");
        if thread.is_some_and(|thread| own != Some(f64::from(thread))) {
            continue;
        }
        let name = if client.get("name").is_empty() { "-" } else { client.get("name") };
        sheet.rows.push(vec![
            Cell::figure(client.number("id"), whole),
            Cell::text(client.get("addr")),
            Cell::text(name),
            Cell::figure(own, whole),
            Cell::figure(client.number("age"), whole),
            Cell::figure(client.number("idle"), whole),
            Cell::text(client.get("flags")),
            Cell::figure(client.number("db"), whole),
            Cell::text(client.get("cmd").replace('|', " ")),
            Cell::figure(client.number("tot-cmds"), short),
            Cell::figure(client.number("qbuf"), bytes),
            Cell::figure(client.number("omem"), bytes),
            Cell::figure(client.number("tot-mem"), bytes),
        ]);
    }
    if sheet.rows.is_empty() { sheet } else { sheet.without_empty() }
}

/// The slow log; `now` is the server's Unix time in seconds.
pub fn slow_log(entries: &[SlowEntry], now: f64) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("id", true),
        ("seconds ago", true),
        ("ms", true),
        ("client", false),
        ("command", false),
    ]);
    for entry in entries {
        sheet.rows.push(vec![
            Cell::figure(Some(entry.id as f64), whole),
            Cell::figure(Some((now - entry.at as f64).max(0.0)), whole),
            Cell::figure(Some(entry.micros as f64 / 1000.0), short),
            Cell::text(entry.client.clone()),
            Cell::text(entry.command.chars().take(200).collect::<String>()),
        ]);
    }
    sheet
}

/// Memory by use, and the databases.
pub fn memory(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("memory", false),
        ("bytes", true),
        ("% of used", true),
        ("keys", true),
        ("expire", true),
    ]);
    let memory = &view.memory;
    let mut add = |name: &str, size: f64| {
        sheet.rows.push(vec![
            Cell::text(name),
            Cell::figure(Some(size), bytes),
            Cell::figure((memory.used > 0.0).then(|| size / memory.used), percent),
            Cell::figure(None, whole),
            Cell::figure(None, whole),
        ]);
    };
    add("used", memory.used);
    add("resident", memory.resident);
    add("peak", memory.peak);
    if memory.max > 0.0 {
        add("limit", memory.max);
    }
    memory.parts.iter().for_each(|(name, size)| add(name, *size));
    for database in &view.databases {
        sheet.rows.push(vec![
            Cell::text(database.name.clone()),
            Cell::figure(None, bytes),
            Cell::figure(None, percent),
            Cell::figure(Some(database.keys), whole),
            Cell::figure(Some(database.expires), whole),
        ]);
    }
    sheet
}

/// Hot keys.
pub fn hot_keys(keys: &[HotKey]) -> Sheet {
    let mut sheet = Sheet::new(&[("key", false), ("weight", true)]);
    for key in keys {
        sheet.rows.push(vec![Cell::text(key.key.clone()), Cell::figure(Some(key.weight), short)]);
    }
    sheet
}

/// Replication links, starting with the link to the primary.
pub fn links(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("link", false),
        ("state", false),
        ("bytes behind", true),
        ("ms behind", true),
        ("full sync", false),
    ]);
    for link in &view.links {
        sheet.rows.push(vec![
            Cell::text(link.peer.clone()),
            Cell::text(link.state.clone()),
            Cell::figure(link.lag_bytes, bytes),
            Cell::figure(link.lag_ms, whole),
            Cell::text(link.sync.as_ref().map_or("-".into(), SyncRow::text)),
        ]);
    }
    sheet
}

/// The members of the group.
pub fn members(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("member", false),
        ("address", false),
        ("role", false),
        ("state", false),
        ("in sync", false),
        ("link", false),
        ("offset", true),
        ("bytes behind", true),
        ("ms behind", true),
    ]);
    for member in view.group.iter().flat_map(|group| &group.members) {
        sheet.rows.push(vec![
            Cell::text(member.name.clone()),
            Cell::text(member.address.clone()),
            Cell::text(member.role.clone()),
            Cell::text(if member.is_up { "up" } else { "down" }),
            Cell::text(if member.is_in_sync { "yes" } else { "no" }),
            Cell::text(member.link.as_deref().unwrap_or("-")),
            Cell::figure(member.offset, whole),
            Cell::figure(member.lag_bytes, bytes),
            Cell::figure(member.lag_ms, whole),
        ]);
    }
    sheet
}

/// The slots with the highest cost, or those with the most keys if cost is not counted.
pub fn hot_slots(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("slot", true),
        ("cpu %", true),
        ("cpu s", true),
        ("in/s", true),
        ("out/s", true),
        ("keys", true),
        ("memory", true),
    ]);
    for slot in &view.slots {
        sheet.rows.push(vec![
            Cell::figure(Some(slot.slot as f64), whole),
            Cell::figure(slot.share, percent),
            Cell::figure(slot.cpu_seconds, |seconds| format!("{seconds:.3}")),
            Cell::figure(slot.input_rate, bytes),
            Cell::figure(slot.output_rate, bytes),
            Cell::figure(slot.keys, short),
            Cell::figure(slot.memory, bytes),
        ]);
    }
    if sheet.rows.is_empty() { sheet } else { sheet.without_empty() }
}

/// The peers of active-active replication.
pub fn peers(view: &View) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("peer", false),
        ("link", false),
        ("region", true),
        ("lag ms", true),
        ("units", true),
        ("bytes", true),
    ]);
    for peer in view.active.iter().flat_map(|active| &active.peers) {
        sheet.rows.push(vec![
            Cell::text(peer.address.clone()),
            Cell::text(if peer.is_up { "up" } else { "down" }),
            Cell::figure(peer.region, whole),
            Cell::figure(peer.lag_ms, whole),
            Cell::figure(Some(peer.units), whole),
            Cell::figure(Some(peer.bytes), bytes),
        ]);
    }
    sheet
}

/// The server's Unix time in a sample; 0 if unknown.
pub fn unix_seconds(sample: &Sample) -> f64 {
    sample.info.number("server_time_usec").unwrap_or(0.0) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ordered_by_value_not_by_text() {
        let keys = [("b", 9.0), ("C", 100.0), ("a", 20.0)];
        let keys = keys.map(|(key, weight)| HotKey { key: key.into(), weight });
        let order = |column, descending| {
            let mut sheet = hot_keys(&keys);
            sheet.sort(column, descending);
            sheet.rows.iter().map(|row| row[0].text.clone()).collect::<Vec<_>>().join("")
        };
        assert_eq!(order(1, true), "Cab");
        assert_eq!(order(1, false), "baC");
        assert_eq!(order(0, false), "abC");
        assert_eq!(order(9, true), "bCa");
    }

    #[test]
    fn panel_lists_only_clients_of_the_thread() {
        let lines = crate::sample::clients(
            "id=1 addr=a io-thread=0 cmd=get\nid=2 addr=b io-thread=1 cmd=client|list\n",
        );
        let ids =
            |thread| clients(&lines, thread).rows.iter().map(|row| row[0].text.clone()).collect::<Vec<_>>();
        assert_eq!(ids(None), ["1", "2"]);
        assert_eq!(ids(Some(1)), ["2"]);
        assert!(ids(Some(7)).is_empty());
    }
}
