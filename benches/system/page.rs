//! The figures as Markdown, between two markers of a hand-written page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::measure::Row;
use crate::report::Fact;

const BEGIN: &str = "<!-- figures: written by `cargo bench --bench system -- --page` -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Replaces the text between the markers of `page`.
pub fn write(page: &Path, rows: &[Row], facts: &[Fact], notes: &[String]) -> anyhow::Result<()> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no place for figures")?;
    let (_, after) = rest.split_once(END).context("the place for figures has no end")?;
    let figures = figures(rows, facts, notes);
    fs::write(page, format!("{before}{BEGIN}\n{figures}\n{END}{after}"))?;
    Ok(())
}

fn figures(rows: &[Row], facts: &[Fact], notes: &[String]) -> String {
    let mut text = String::from(
        "| scenario | connections | way | calls/s | of direct | of the limit | of the plain call | p50 µs | p99 µs | CPU µs per call | CPU of the limit's |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells("–").join(" | "));
    }
    text.push_str("\n| figure | |\n|---|---|\n");
    for fact in facts {
        let _ = writeln!(text, "| {} | {:.1} {} |", fact.name, fact.value, fact.unit);
    }
    for row in rows.iter().filter(|row| row.connections == 1) {
        if let Some(added) = row.added {
            let _ =
                writeln!(text, "| {}, {}: p50 added, of what the limit adds | {added} |", row.group, row.way);
        }
    }
    for note in notes {
        let _ = write!(text, "\n{note}.\n");
    }
    text
}
