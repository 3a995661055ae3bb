// SPDX-License-Identifier: BSD-3-Clause
//! Table output: for terminals, for Markdown, for the report.

/// Cells under headings; the first `left` columns are text, the rest figures.
pub struct Table {
    pub left: usize,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// As text, aligned with blanks.
    pub fn text(&self) -> String {
        let mut lines = vec![&self.header];
        lines.extend(&self.rows);
        let width = |column: usize| {
            lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.header.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut out = String::new();
        for line in lines {
            let cells: Vec<String> =
                line.iter()
                    .zip(&widths)
                    .enumerate()
                    .map(|(column, (cell, width))| {
                        if column < self.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                    })
                    .collect();
            out += cells.join("  ").trim_end();
            out.push('\n');
        }
        out
    }

    /// As Markdown, for documents.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> = (0..self.header.len())
            .map(|column| if column < self.left { "---" } else { "---:" }.to_owned())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.header) + &line(&rule) + &rows
    }

    /// As HTML, for the report.
    pub fn html(&self) -> String {
        let cells = |tag: &str, row: &[String]| -> String {
            let cell = |(column, cell): (usize, &String)| {
                let class = if column < self.left { "" } else { " class=\"n\"" };
                format!("<{tag}{class}>{}</{tag}>", escaped(cell))
            };
            row.iter().enumerate().map(cell).collect()
        };
        let rows: String = self.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
        format!(
            "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
            cells("th", &self.header)
        )
    }
}

/// Text escaped for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_every_cell() {
        let owned = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
        let table = Table {
            left: 1,
            header: owned(&["name", "n"]),
            rows: vec![owned(&["a<b", "1,000"]), owned(&["c", "7"])],
        };
        assert_eq!(table.text(), "name      n\na<b   1,000\nc         7\n");
        assert_eq!(table.markdown(), "| name | n |\n| --- | ---: |\n| a<b | 1,000 |\n| c | 7 |\n");
        assert!(table.html().contains("<td>a&lt;b</td><td class=\"n\">1,000</td>"));
    }
}
