//! Lines of the screen, and columns that fit its width.
//!
//! Invariants: a line is never wider than the screen. Escape sequences are written here only, and colors only where they
//! are wanted.
//!
//! Not here: what the lines say.

use unicode_width::UnicodeWidthStr;

use super::super::table::{BOLD, PLAIN, Severity, shortened};

const REVERSED: &str = "\x1b[7m";
/// Erases the rest of the line.
const TO_END: &str = "\x1b[K";
/// Columns between two cells.
const GAP: usize = 2;

/// A piece of a line: visible text in one color.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) severity: Severity,
}

impl Span {
    pub(super) fn new(text: impl Into<String>, severity: Severity) -> Self {
        Self { text: text.into(), severity }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Severity::Plain)
    }
}

/// How a whole line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LineStyle {
    #[default]
    Plain,
    Bold,
    /// For the selection, over the whole width.
    Reversed,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) spans: Vec<Span>,
    pub(super) look: LineStyle,
}

impl Line {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { spans: vec![Span::plain(text)], look: LineStyle::Plain }
    }

    pub(super) fn bold(text: impl Into<String>) -> Self {
        Self { look: LineStyle::Bold, ..Self::plain(text) }
    }

    pub(super) fn with_severity(text: impl Into<String>, severity: Severity) -> Self {
        Self { spans: vec![Span::new(text, severity)], look: LineStyle::Plain }
    }

    /// Returns its text without looks.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Returns the line for a terminal of this width.
    pub(super) fn written(&self, width: usize, has_color: bool) -> String {
        let (mut line, mut left) = (String::new(), width);
        line.push_str(match self.look {
            LineStyle::Plain => "",
            LineStyle::Bold => BOLD,
            LineStyle::Reversed => REVERSED,
        });
        // A color would end the look of the whole line.
        let is_toned = has_color && self.look == LineStyle::Plain;
        for span in &self.spans {
            if left == 0 {
                break;
            }
            let text = shortened(&span.text, left);
            left = left.saturating_sub(text.width());
            let code = if is_toned { span.severity.code() } else { "" };
            line.extend([code, &text, if code.is_empty() { "" } else { PLAIN }]);
        }
        if self.look == LineStyle::Reversed {
            line.extend(std::iter::repeat_n(' ', left));
        }
        line.push_str(if self.look == LineStyle::Plain { "" } else { PLAIN });
        // At the last column, the cursor of many terminals is still on the last character.
        line.push_str(if left == 0 || self.look == LineStyle::Reversed { "" } else { TO_END });
        line
    }
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// If it is a text, the columns of the terminal to which it may be narrowed. Numbers are not narrowed.
    pub(super) least: Option<usize>,
    pub(super) cells: Vec<Span>,
}

impl Column {
    fn natural(&self) -> usize {
        self.cells.iter().map(|cell| cell.text.width()).max().unwrap_or(0).max(self.title.width())
    }

    fn least(&self) -> usize {
        self.least.map_or_else(|| self.natural(), |least| self.natural().min(least.max(self.title.width())))
    }
}

/// Returns the header and the rows of the columns that fit `width`. `order` has the columns by how much they are needed,
/// the most first; those that do not fit are left out.
pub(super) fn table(columns: &[Column], order: &[usize], width: usize) -> Vec<Line> {
    let mut shown = Vec::new();
    let mut taken = 0;
    for &at in order {
        let more = columns[at].least() + if shown.is_empty() { 0 } else { GAP };
        if taken + more <= width || shown.is_empty() {
            shown.push(at);
            taken += more;
        }
    }
    shown.sort_unstable();
    let mut left = width.saturating_sub(taken);
    let widths: Vec<_> = shown
        .iter()
        .map(|&at| {
            let (least, natural) = (columns[at].least(), columns[at].natural());
            let more = left.min(natural - least);
            left -= more;
            (at, least + more)
        })
        .collect();
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let header = line(columns, &widths, None);
    let mut lines = vec![Line { look: LineStyle::Bold, ..header }];
    lines.extend((0..rows).map(|row| line(columns, &widths, Some(row))));
    lines
}

/// One row; the header, if there is none.
fn line(columns: &[Column], widths: &[(usize, usize)], row: Option<usize>) -> Line {
    let mut spans = Vec::new();
    for (place, &(at, width)) in widths.iter().enumerate() {
        let column = &columns[at];
        let cell = row.map_or_else(|| Span::plain(column.title), |row| column.cells[row].clone());
        let text = shortened(&cell.text, width);
        let pad = " ".repeat(width.saturating_sub(text.width()));
        let gap = if place + 1 == widths.len() { "" } else { "  " };
        let (before, after) =
            if column.least.is_none() { (pad, String::new()) } else { (String::new(), pad) };
        spans.extend([Span::plain(before), Span::new(text, cell.severity), Span::plain(after + gap)]);
    }
    Line { spans, look: LineStyle::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let cells = |texts: [&str; 2]| texts.map(|text| Span::new(text, Severity::of_state(text))).to_vec();
        vec![
            Column { title: "NAME", least: Some(6), cells: cells(["one", "名前は長いです"]) },
            Column { title: "STATE", least: Some(6), cells: cells(["ready", "failed"]) },
            Column { title: "RATE", least: None, cells: cells(["1.0", "12345.0"]) },
        ]
    }

    fn texts(width: usize) -> Vec<String> {
        let lines = table(&columns(), &[0, 2, 1], width);
        lines.iter().map(|line| line.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_numbers_stay_whole() {
        let wide = ["NAME            STATE      RATE", "one             ready       1.0"];
        assert_eq!(texts(40)[..2], wide);
        assert_eq!(texts(16), ["NAME        RATE", "one          1.0", "名前は…  12345.0"]);
        for width in 0..40 {
            for line in table(&columns(), &[0, 2, 1], width) {
                let written = line.written(width, false);
                let written = [BOLD, PLAIN, TO_END].iter().fold(written, |text, code| text.replace(code, ""));
                assert!(written.width() <= width, "{width}: {written:?}");
            }
        }
    }

    #[test]
    fn a_line_has_colors_only_where_they_are_wanted() {
        let line = |look| Line { spans: vec![Span::new("failed", Severity::Bad)], look };
        assert_eq!(line(LineStyle::Plain).written(10, true), "\x1b[31mfailed\x1b[0m\x1b[K");
        assert_eq!(line(LineStyle::Plain).written(10, false), "failed\x1b[K");
        assert_eq!(line(LineStyle::Reversed).written(8, true), "\x1b[7mfailed  \x1b[0m");
        assert_eq!(line(LineStyle::Bold).written(4, true), "\x1b[1mfai…\x1b[0m");
    }
}
