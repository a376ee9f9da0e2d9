//! Tables that fit the width of a terminal.
//!
//! Invariants: a line is never wider than the terminal, unless that is too narrow for a title and [`MIN_WIDTH`] columns.
//! Cells are text of servers: they are made visible here. Width counts columns of the terminal, of which some characters
//! take two.
//!
//! Not here: what the tables show.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::super::visible;
use super::members::text;
use json::Raw;

/// Columns are not made narrower than this.
const MIN_WIDTH: usize = 8;
/// A folded column is not made narrower than this.
const MIN_FOLDED: usize = 20;
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
    /// The severity of a state of a server, breaker or gateway.
    pub(in crate::cli) fn of_state(state: &str) -> Self {
        match state {
            "ready" | "idle" | "healthy" | "closed" | "ok" => Self::Good,
            "connecting" | "starting" | "degraded" | "half_open" | "warning" => Self::Warning,
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

    /// A cell with the text `member` of an item.
    pub(in crate::cli) fn of(item: &Raw, member: &str) -> Self {
        Self::new(&text(item, member))
    }

    /// A cell that one should look at.
    pub(in crate::cli) fn warning(text: &str) -> Self {
        Self { severity: Severity::Warning, ..Self::new(text) }
    }

    /// A cell with a state, in its color.
    pub(in crate::cli) fn state(state: &str) -> Self {
        Self { severity: Severity::of_state(state), ..Self::new(state) }
    }
}

/// A column of a list: its title, and the cell of an item.
pub(in crate::cli) type Column = (&'static str, fn(&Raw) -> Cell);

/// A table with a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Table {
    pub(in crate::cli) header: Vec<&'static str>,
    pub(in crate::cli) rows: Vec<Vec<Cell>>,
    /// Whether the last column continues on further lines instead of being shortened.
    folds: bool,
}

impl Table {
    /// An empty table.
    pub(in crate::cli) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), ..Self::default() }
    }

    /// A table with a row for each of `items`.
    pub(in crate::cli) fn of(items: &[Raw], columns: &[Column]) -> Self {
        let header = columns.iter().map(|(title, _)| *title).collect();
        let row = |item: &Raw| columns.iter().map(|(_, cell)| cell(item)).collect();
        Self { header, rows: items.iter().map(row).collect(), folds: false }
    }

    /// Returns the table with its last column on as many lines as the terminal makes necessary.
    pub(in crate::cli) fn folded(self) -> Self {
        Self { folds: true, ..self }
    }

    /// Writes it as lines of at most `width` columns: as a table, or as one block for each row if its columns would be too
    /// narrow. Without a width, no cell is shortened.
    pub(in crate::cli) fn write(
        &self,
        width: Option<usize>,
        has_color: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let widths = match width {
            Some(width) if !self.rows.is_empty() => self.fitted(width),
            _ => Some(self.widths()),
        };
        let Some(widths) = widths else {
            return self.write_blocks(width.unwrap_or_default(), has_color, out);
        };
        let header = self.header.iter().map(|title| Cell::new(title)).collect::<Vec<_>>();
        let bold = if has_color { (BOLD, PLAIN) } else { ("", "") };
        writeln!(out, "{}{}{}", bold.0, line(&header, &widths, false), bold.1)?;
        let rows = self.rows.iter().flat_map(|row| self.lines(row, &widths));
        rows.into_iter().try_for_each(|row| writeln!(out, "{}", line(&row, &widths, has_color)))
    }

    /// Writes each row as lines with the title and the text of a cell. A row without a first cell belongs to the row before.
    fn write_blocks(&self, width: usize, has_color: bool, out: &mut dyn Write) -> io::Result<()> {
        let before = self.header.iter().map(|title| title.width()).max().unwrap_or_default();
        let widths = [before, width.saturating_sub(before + GAP.len()).max(MIN_WIDTH)];
        let (bold, plain) = if has_color { (BOLD, PLAIN) } else { ("", "") };
        for (at, row) in self.rows.iter().enumerate() {
            let continues = row.first().is_some_and(|cell| cell.text.is_empty());
            if at > 0 && !continues {
                writeln!(out)?;
            }
            let mut titles = self.header.iter().map(|title| if continues { "" } else { title });
            for cell in row {
                let mut title = titles.next().unwrap_or_default();
                for text in lines_of(&cell.text, widths[1]).into_iter().filter(|text| !text.is_empty()) {
                    let text = line(&[Cell { text, severity: cell.severity }], &widths[1..], has_color);
                    writeln!(out, "{bold}{title:before$}{plain}{GAP}{text}")?;
                    title = "";
                }
            }
        }
        Ok(())
    }

    /// Returns the lines of a row: several if its last cell is folded.
    fn lines(&self, row: &[Cell], widths: &[usize]) -> Vec<Vec<Cell>> {
        let (true, Some((last, before)), Some(room)) = (self.folds, row.split_last(), widths.last()) else {
            return vec![row.to_vec()];
        };
        let lines = lines_of(&last.text, *room).into_iter().enumerate().map(|(at, text)| {
            let blank = || Cell { text: String::new(), severity: Severity::Plain };
            let beside = before.iter().map(|cell| if at == 0 { cell.clone() } else { blank() });
            beside.chain([Cell { text, severity: last.severity }]).collect()
        });
        lines.collect()
    }

    /// Returns the width of the widest cell of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.text.width().max(*width);
            }
        }
        widths
    }

    /// Returns the width of each column in a line of `most` columns, if all of them can be read then. The first column has
    /// the names that a user types, so it is shortened only if it takes more than half of the line.
    fn fitted(&self, most: usize) -> Option<Vec<usize>> {
        let mut widths = self.widths();
        let most = most.saturating_sub(GAP.len() * widths.len().saturating_sub(1));
        if self.folds {
            let last = widths.pop()?;
            let room = most.checked_sub(widths.iter().sum())?;
            widths.push(last.min(room));
            return (last <= room || room >= MIN_FOLDED).then_some(widths);
        }
        for width in &mut widths {
            *width = (*width).min(most.max(MIN_WIDTH));
        }
        while widths.iter().sum::<usize>() > most {
            let least = |at| if at == 0 { MIN_WIDTH.max(most / 2) } else { MIN_WIDTH };
            let can_shrink = widths.iter_mut().enumerate().filter(|(at, width)| **width > least(*at));
            *can_shrink.max_by_key(|(_, width)| **width)?.1 -= 1;
        }
        Some(widths)
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

    fn written_of(table: &Table, width: Option<usize>, has_color: bool) -> String {
        let mut out = Vec::new();
        table.write(width, has_color, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    fn written(width: Option<usize>, has_color: bool) -> String {
        written_of(&table(), width, has_color)
    }

    #[test]
    fn a_table_fits_the_width_of_the_terminal() {
        for width in [21, 24, 30, 47, 80, 200] {
            let text = written(Some(width), false);
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        }
        let expected = "\
NAME            STATE   DESCRIPTION
one             ready   A description th…
名前は長いです  failed  A description th…
";
        assert_eq!(written(Some(41), false), expected);
        assert!(written(None, false).contains(r"is longer than \u{1b}[31mothers"));
    }

    #[test]
    fn a_folded_column_keeps_all_its_words() {
        for width in [46, 41, 38] {
            let text = written_of(&table().folded(), Some(width), false);
            assert!(text.lines().all(|line| line.width() <= width) && !text.contains('…'), "{text}");
            assert_eq!(text.starts_with("NAME            STATE   DESCRIPTION\n"), width > 43, "{text}");
            let letters: String = text.split_whitespace().collect::<String>().replace("DESCRIPTION", "");
            assert!(letters.contains(r"Adescriptionthatislongerthan\u{1b}[31mothers"), "{text}");
        }
    }

    #[test]
    fn a_terminal_that_is_too_narrow_for_the_columns_shows_a_block_for_each_row() {
        let mut table = table();
        table.rows.insert(1, vec![Cell::new(""), Cell::new(""), Cell::new("fix: do this")]);
        let text = written_of(&table, Some(28), true);
        let expected = "\
<b>NAME       <p>  one
<b>STATE      <p>  <g>ready<p>
<b>DESCRIPTION<p>  A description
<b>           <p>  that is longer
<b>           <p>  than
<b>           <p>  \\u{1b}[31mother
<b>           <p>  s
<b>           <p>  fix: do this

<b>NAME       <p>  名前は長いです
<b>STATE      <p>  <r>failed<p>
<b>DESCRIPTION<p>  A description
<b>           <p>  that is longer
<b>           <p>  than
<b>           <p>  \\u{1b}[31mother
<b>           <p>  s
";
        let codes =
            [("<b>", BOLD), ("<p>", PLAIN), ("<g>", Severity::Good.code()), ("<r>", Severity::Bad.code())];
        assert_eq!(text, codes.iter().fold(expected.to_owned(), |text, (tag, code)| text.replace(tag, code)));
        let text = written_of(&Table::new(&["A LONG TITLE", "ANOTHER ONE"]), Some(20), false);
        assert_eq!(text, "A LONG TITLE  ANOTHER ONE\n", "a table without rows has its header");
    }

    #[test]
    fn names_in_the_first_column_are_shortened_last() {
        let mut table = Table::new(&["URI", "NAME", "DESCRIPTION"]);
        table
            .rows
            .push(["memory://knowledge/graph", "knowledge graph", "All that is known"].map(Cell::new).into());
        let text = written_of(&table, Some(50), false);
        assert!(text.ends_with("\nmemory://knowledge/gra…  knowledge g…  All that i…\n"), "{text}");
    }

    #[test]
    fn states_have_a_color_and_texts_of_servers_have_none() {
        let text = written(Some(80), true);
        assert!(text.starts_with("\x1b[1mNAME"), "{text:?}");
        assert!(text.contains("\x1b[32mready\x1b[0m") && text.contains("\x1b[31mfailed\x1b[0m"), "{text:?}");
        assert_eq!(text.matches('\x1b').count(), 6, "{text:?}");
    }
}
