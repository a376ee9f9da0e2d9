//! `switchyard top`: the servers of the running gateway, on the screen until the user quits, or once.
//!
//! ```text
//!             keys ─▶ model ─▶ frame ─▶ screen
//! gateway ─▶ source ───▲  └─▶ requests of keys ─▶ gateway
//! ```
//!
//! Invariants: figures are those of the dashboard. A gateway that is away when this begins, or that refuses the
//! credential, is an error; one that leaves meanwhile is waited for. Texts of servers are visible text.
//!
//! Not here: a gateway's own figures, such as its memory (`/metrics`).

mod detail;
mod frame;
mod histogram;
mod history;
mod keys;
mod line;
mod live;
mod model;
mod screen;
mod seen;
mod source;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use self::history::{duration, rate};
use self::model::{Model, Server};
use super::super::remote::{Failed, Remote};
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Table};
use json::Raw;

/// The shortest and the longest time between two samples.
const INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_hours(1)];

/// How the servers are watched.
#[derive(Debug, Clone, clap::Args)]
pub struct Wanted {
    /// How long to wait between two samples: 500ms, 2s, 1m.
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = parse_interval)]
    interval: Duration,
    /// Print one sample and end. Rates are those of one interval.
    #[arg(long)]
    once: bool,
}

fn parse_interval(text: &str) -> Result<Duration, &'static str> {
    let interval = settings::parse_duration(text);
    let interval = interval.filter(|time| *time >= INTERVALS[0] && *time <= INTERVALS[1]);
    interval.ok_or("expected a time from 250ms to 1h, such as 2s")
}

/// Shows the servers: until the user quits, or once.
pub(super) async fn run(remote: &Remote, wanted: &Wanted, screen: &mut Screen<'_>) -> Result<(), Failed> {
    // Before the screen changes, so that an error stays on it.
    let first = source::sample(remote).await?;
    if screen.is_interactive && screen.format == OutputFormat::Table && !wanted.once {
        return live::run(remote, wanted.interval, first, screen).await;
    }
    let mut model = Model::new(remote.origin(), (0, 0));
    model.sampled(first);
    sleep(wanted.interval).await;
    model.sampled(source::sample(remote).await?);
    Ok(screen.show(&view(&model))?)
}

/// One server, as programs read it.
#[derive(Serialize)]
struct Figures<'m> {
    name: &'m str,
    state: &'m str,
    breaker: &'m str,
    /// In the interval.
    calls_per_second: Option<f64>,
    /// In ms, for calls that ended in the interval.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    running_calls: u64,
    waiting_calls: u64,
    tool_count: u64,
    /// Since the gateway started.
    calls: u64,
    failures: u64,
}

impl<'m> Figures<'m> {
    fn of(Server { seen, history, .. }: &'m Server) -> Self {
        let [p50_ms, p99_ms] = history.last_durations();
        Self {
            name: &seen.name,
            state: &seen.state,
            breaker: &seen.breaker,
            calls_per_second: history.rate(),
            p50_ms,
            p99_ms,
            running_calls: seen.running,
            waiting_calls: seen.waiting,
            tool_count: seen.tools,
            calls: seen.calls,
            failures: seen.failures,
        }
    }
}

/// Returns one sample in all its forms.
fn view(model: &Model) -> View {
    let rows = model.rows();
    let mut table = Table::new(&[
        "SERVER", "STATE", "BREAKER", "CALLS/S", "ERRORS", "P50", "P99", "RUNNING", "TOOLS", "CALLS",
    ]);
    table.rows.extend(rows.iter().map(|Server { seen, history, .. }| {
        let [p50, p99] = history.last_durations().map(duration);
        let figures = [rate(history.rate()), seen.failures.to_string(), p50, p99];
        let counts = [seen.running + seen.waiting, seen.tools, seen.calls].map(|count| count.to_string());
        let states = [Cell::new(&seen.name), Cell::state(&seen.state), Cell::state(&seen.breaker)];
        states.into_iter().chain(figures.iter().chain(&counts).map(|text| Cell::new(text))).collect()
    }));
    let figures: Vec<_> = rows.iter().map(|server| Figures::of(server)).collect();
    let names = rows.iter().map(|server| server.seen.name.clone()).collect();
    View { document: Raw::object(&[("servers", &Raw::of(&figures))]), names, table }
}
