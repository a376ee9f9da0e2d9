//! Tables that fit the width of a terminal.
//!
//! Invariants: a line is never wider than the terminal, as far as columns can be narrowed to [`MIN_WIDTH`]. Cells are
//! text of servers: they are made visible here. Width counts columns of the terminal, of which some characters take two.
//!
//! Not here: what the tables show.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::super::visible;

/// Columns are not made narrower than this.
const MIN_WIDTH: usize = 6;
/// Between two columns.
const GAP: &str = "  ";
pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const PLAIN: &str = "\x1b[0m";

/// How a cell is shown where there are colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Severity {
    Plain,
    Good,
    Warning,
    Bad,
}

impl Severity {
    /// The tone of a state of a server, breaker or gateway.
    pub(in crate::cli) fn of_state(state: &str) -> Self {
        match state {
            "ready" | "healthy" | "closed" | "ok" => Self::Good,
            "connecting" | "degraded" | "half_open" | "idle" | "warning" => Self::Warning,
            "disabled" => Self::Plain,
            _ => Self::Bad,
        }
    }

    /// Returns the escape sequence that begins its color.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Warning => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Cell {
    text: String,
    severity: Severity,
}

impl Cell {
    /// A cell with text of a server.
    pub(in crate::cli) fn new(text: &str) -> Self {
        Self { text: visible::line(text), severity: Severity::Plain }
    }

    /// A cell with a state, in its color.
    pub(in crate::cli) fn state(state: &str) -> Self {
        Self { severity: Severity::of_state(state), ..Self::new(state) }
    }
}

/// A table with a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Table {
    pub(in crate::cli) header: Vec<&'static str>,
    pub(in crate::cli) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(in crate::cli) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Writes it. Without a width, no cell is shortened.
    pub(in crate::cli) fn write(
        &self,
        width: Option<usize>,
        has_color: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let widths = self.widths(width);
        let header = self.header.iter().map(|title| Cell::new(title)).collect::<Vec<_>>();
        let bold = if has_color { (BOLD, PLAIN) } else { ("", "") };
        writeln!(out, "{}{}{}", bold.0, line(&header, &widths, false), bold.1)?;
        self.rows.iter().try_for_each(|row| writeln!(out, "{}", line(row, &widths, has_color)))
    }

    /// Returns the table with its last column on as many lines as fit it into `width`. No cell of that column is shortened.
    pub(in crate::cli) fn folded(self, width: usize) -> Self {
        let before: usize = self.header.len().saturating_sub(1);
        let used: usize = self.widths(None).iter().take(before).map(|width| width + GAP.len()).sum();
        let room = width.saturating_sub(used).max(MIN_WIDTH);
        let fold = |row: Vec<Cell>| {
            let lines = row.last().map(|cell| lines_of(&cell.text, room)).unwrap_or_default();
            let lines = lines.into_iter().enumerate().map(|(at, text)| {
                let blank = Cell { text: String::new(), severity: Severity::Plain };
                let beside = row.iter().take(before);
                let beside = beside.map(|cell| if at == 0 { cell.clone() } else { blank.clone() });
                beside.chain([Cell { text, ..blank.clone() }]).collect()
            });
            lines.collect::<Vec<_>>()
        };
        Self { rows: self.rows.into_iter().flat_map(fold).collect(), ..self }
    }

    /// Returns the width of each column: as wide as its widest cell, or less where the line would be too long.
    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.text.width().max(*width);
            }
        }
        let Some(most) = most else { return widths };
        let most = most.saturating_sub(GAP.len() * widths.len().saturating_sub(1));
        for width in &mut widths {
            *width = (*width).min(most.max(MIN_WIDTH));
        }
        while widths.iter().sum::<usize>() > most {
            match widths.iter_mut().max() {
                Some(widest) if *widest > MIN_WIDTH => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

fn line(cells: &[Cell], widths: &[usize], has_color: bool) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let text = shortened(&cell.text, *width);
        let pad = if at + 1 == widths.len() { 0 } else { width.saturating_sub(text.width()) + GAP.len() };
        let is_colored = has_color && cell.severity != Severity::Plain;
        let (begin, end) = if is_colored { (cell.severity.code(), PLAIN) } else { ("", "") };
        line.extend([begin, &text, end]);
        line.extend(std::iter::repeat_n(' ', pad));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Splits `text` between words into lines of at most `width` columns. A longer word continues on the next line.
fn lines_of(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let space = if line.is_empty() { "" } else { " " };
        if line.width() + space.len() + word.width() <= width {
            line.extend([space, word]);
            continue;
        }
        lines.extend((!line.is_empty()).then(|| std::mem::take(&mut line)));
        for c in word.chars() {
            if line.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// Returns as much of `text` as fits into `width` columns, and an ellipsis if something is missing.
pub(in crate::cli) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let columns = c.width().unwrap_or(0);
        let fits = columns <= left;
        left = if fits { left - columns } else { 0 };
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATE", "DESCRIPTION"]);
        for (name, state) in [("one", "ready"), ("名前は長いです", "failed")] {
            let description = Cell::new("A description that is\nlonger than \u{1b}[31mothers");
            table.rows.push(vec![Cell::new(name), Cell::state(state), description]);
        }
        table
    }

    fn written(width: Option<usize>, has_color: bool) -> String {
        let mut out = Vec::new();
        table().write(width, has_color, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_table_fits_the_width_of_the_terminal() {
        for width in [24, 30, 47, 80, 200] {
            let text = written(Some(width), false);
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        }
        let wanted = "\
NAME            STATE   DESCRIPTION
one             ready   A description th…
名前は長いです  failed  A description th…
";
        assert_eq!(written(Some(41), false), wanted);
        assert!(written(None, false).contains(r"is longer than \u{1b}[31mothers"));
    }

    #[test]
    fn a_folded_column_keeps_all_its_words() {
        for width in [41, 38] {
            let mut out = Vec::new();
            table().folded(width).write(Some(width), false, &mut out).expect("written");
            let text = String::from_utf8(out).expect("UTF-8");
            assert!(text.lines().all(|line| line.width() <= width) && !text.contains('…'), "{text}");
            let letters: String = text.split_whitespace().collect();
            assert!(letters.contains(r"Adescriptionthatislongerthan\u{1b}[31mothers"), "{text}");
        }
    }

    #[test]
    fn states_have_a_color_and_texts_of_servers_have_none() {
        let text = written(Some(80), true);
        assert!(text.starts_with("\x1b[1mNAME"), "{text:?}");
        assert!(text.contains("\x1b[32mready\x1b[0m") && text.contains("\x1b[31mfailed\x1b[0m"), "{text:?}");
        assert_eq!(text.matches('\x1b').count(), 6, "{text:?}");
    }
}
