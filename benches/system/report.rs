//! The results: printed as they come, and written as one JSON file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::measure::{Role, Row};
use crate::stats::{Spread, rounded};

/// The head of the table.
const COLUMNS: [&str; 11] = [
    "scenario",
    "conns",
    "way",
    "calls/s",
    "of direct",
    "of the limit",
    "of plain",
    "p50 us",
    "p99 us",
    "cpu us",
    "of limit",
];

/// A figure that belongs to no row.
#[derive(Debug)]
pub struct Fact {
    /// The measured quantity.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
}

/// The results so far.
#[derive(Debug, Default)]
pub struct Report {
    /// The results of each way.
    pub rows: Vec<Row>,
    /// Figures that belong to no way.
    pub facts: Vec<Fact>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Scenarios that failed, and why.
    pub failures: Vec<String>,
}

impl Report {
    /// Prints the head of the table.
    pub fn begin() {
        line(COLUMNS.map(str::to_owned));
    }

    /// Adds the rows of a group.
    pub fn add(&mut self, rows: Vec<Row>) {
        rows.iter().for_each(print);
        self.rows.extend(rows);
    }

    /// Adds a figure.
    pub fn fact(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        println!("  {name}: {value:.1} {unit}");
        self.facts.push(Fact { name, value, unit });
    }

    /// Adds a note for the reader.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        println!("  note: {text}");
        self.notes.push(text);
    }

    /// Adds a scenario that failed; the others continue.
    pub fn failed(&mut self, text: String) {
        println!("  FAILED: {text}");
        self.failures.push(text);
    }

    /// Writes everything to `path`, by default in the target folder.
    pub fn write(&self, path: Option<&Path>) -> anyhow::Result<PathBuf> {
        let program = std::env::current_exe()?;
        // <target>/release/deps/system-<hash>
        let target = program.ancestors().nth(3).unwrap_or(&program);
        let path = path.map_or_else(|| target.join("system.json"), Path::to_owned);
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        let facts: Vec<Value> = self.facts.iter().map(fact_json).collect();
        let all = json!({"rows": rows, "facts": facts, "notes": self.notes, "failures": self.failures});
        fs::write(&path, serde_json::to_string_pretty(&all)?)?;
        Ok(path)
    }
}

/// One line of the table.
fn line([scenario, connections, way, rate, direct, limit, plain, p50, p99, used, times]: [String; 11]) {
    println!(
        "{scenario:<20} {connections:>5} {way:<34} {rate:>9} {direct:>17} {limit:>17} {plain:>17} {p50:>8} {p99:>8} {used:>8} {times:>8}"
    );
}

fn print(row: &Row) {
    line(row.cells("-"));
    if let Some(added) = row.added.filter(|_| row.connections == 1) {
        println!("  p50 added by {}: {added} times what the limit adds", row.way);
    }
}

fn row_json(row: &Row) -> Value {
    let spread = |spread: Option<Spread>| spread.map(Spread::json);
    json!({
        "scenario": row.group,
        "connections": row.connections,
        "way": row.way,
        "role": match row.role {
            Role::Direct => "direct",
            Role::Limit => "limit",
            Role::Plain => "gateway",
            Role::Other => "other",
        },
        "calls_per_second": row.rate.round(),
        "of_direct": spread(row.of_direct),
        "of_limit": spread(row.of_limit),
        "of_plain": spread(row.of_plain),
        "added_p50_of_what_the_limit_adds": spread(row.added),
        "p50_us": rounded(row.p50),
        "p99_us": rounded(row.p99),
        "processor_us_per_call": row.processor.map(rounded),
        "processor_of_limit": row.processor_of_limit.map(rounded),
    })
}

fn fact_json(fact: &Fact) -> Value {
    json!({"name": fact.name, "value": rounded(fact.value), "unit": fact.unit})
}
