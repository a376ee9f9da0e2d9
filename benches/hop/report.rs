//! Medians of rounds, ratios, one table, one JSON file.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::CONNECTIONS;
use crate::load::Sample;

/// One visit of one cell.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    calls_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_ms_per_1000: f64,
}

impl Cell {
    /// The figures of one slice; `cpu` is what the gateway used meanwhile, warm-up included.
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    pub fn of(sample: &Sample, cpu: Duration) -> Self {
        let calls = sample.latencies.len() as f64;
        let took = sample.took.as_secs_f64();
        let warm = 1.0 + crate::WARM_UP.as_secs_f64() / took;
        let at = |share: usize| sample.latencies[(sample.latencies.len() - 1) * share / 100];
        Self {
            calls_per_second: calls / took,
            p50_us: at(50).as_secs_f64() * 1e6,
            p99_us: at(99).as_secs_f64() * 1e6,
            cpu_ms_per_1000: cpu.as_secs_f64() * 1e6 / (calls * warm),
        }
    }

    fn median_of(cells: &[Self]) -> Self {
        let median = |pick: fn(&Self) -> f64| {
            let mut values: Vec<f64> = cells.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            calls_per_second: median(|cell| cell.calls_per_second),
            p50_us: median(|cell| cell.p50_us),
            p99_us: median(|cell| cell.p99_us),
            cpu_ms_per_1000: median(|cell| cell.cpu_ms_per_1000),
        }
    }
}

/// All cells: ways × numbers of connections × rounds. The first way is direct, the second the bare
/// hop that the others are compared with.
#[derive(Debug)]
pub struct Report {
    names: Vec<&'static str>,
    cells: Vec<[Vec<Cell>; CONNECTIONS.len()]>,
}

impl Report {
    /// An empty report of these ways.
    pub fn new<const N: usize>(names: [&'static str; N]) -> Self {
        Self { names: names.to_vec(), cells: vec![Default::default(); N] }
    }

    /// Adds one visit.
    pub fn add(&mut self, row: usize, column: usize, cell: Cell) {
        self.cells[row][column].push(cell);
    }

    fn median(&self, row: usize, column: usize) -> Cell {
        Cell::median_of(&self.cells[row][column])
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        (0..CONNECTIONS.len()).flat_map(move |column| {
            let (direct, bare) = (self.median(0, column), self.median(1, column));
            (0..self.names.len()).map(move |row| {
                let cell = self.median(row, column);
                Row {
                    connections: CONNECTIONS[column],
                    way: self.names[row],
                    of_direct: cell.calls_per_second / direct.calls_per_second,
                    of_bare: cell.calls_per_second / bare.calls_per_second,
                    is_gateway: row > 1,
                    cell,
                }
            })
        })
    }

    /// Writes `hop.json` into the target folder and returns its path.
    pub fn write(&self) -> anyhow::Result<PathBuf> {
        let program = std::env::current_exe()?;
        // <target>/release/deps/hop-<hash>
        let target = program.ancestors().nth(3).unwrap_or(&program);
        let path = target.join("hop.json");
        let rows: Vec<Value> = self.rows().map(|row| row.json()).collect();
        std::fs::write(&path, serde_json::to_string_pretty(&json!({"rows": rows}))?)?;
        Ok(path)
    }
}

struct Row {
    connections: usize,
    way: &'static str,
    of_direct: f64,
    of_bare: f64,
    is_gateway: bool,
    cell: Cell,
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "connections": self.connections,
            "way": self.way,
            "calls_per_second": self.cell.calls_per_second.round(),
            "of_direct": self.of_direct,
            "of_bare_hop": self.of_bare,
            "p50_us": self.cell.p50_us,
            "p99_us": self.cell.p99_us,
            "gateway_cpu_ms_per_1000_calls": self.is_gateway.then_some(self.cell.cpu_ms_per_1000),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>5}  {:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
            "conns", "way", "calls/s", "of direct", "of bare", "p50 us", "p99 us", "cpu ms/1000"
        )?;
        for row in self.rows() {
            let cpu =
                if row.is_gateway { format!("{:.1}", row.cell.cpu_ms_per_1000) } else { "-".to_owned() };
            writeln!(
                f,
                "{:>5}  {:<24} {:>9.0} {:>9.2} {:>9.2} {:>9.0} {:>9.0} {:>12}",
                row.connections,
                row.way,
                row.cell.calls_per_second,
                row.of_direct,
                row.of_bare,
                row.cell.p50_us,
                row.cell.p99_us,
                cpu
            )?;
        }
        Ok(())
    }
}
