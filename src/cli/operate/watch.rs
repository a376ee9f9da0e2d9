//! `switchyard status --watch`: the servers of the running gateway, every two seconds until Ctrl-C.
//!
//! Invariants: a terminal is cleared and gets at most its own lines, servers with a problem first. Anything else gets one
//! block for each interval, without escape sequences. A gateway that is away when this begins, or that refuses the
//! credential, is an error. One that leaves meanwhile is waited for.
//!
//! Not here: single calls, which the dashboard and `switchyard logs` have.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use tokio::time::sleep;

use super::super::error::CommandError;
use super::super::remote::Remote;
use super::members::{elements, number, text};
use super::screen::{Screen, View};
use super::servers::{counters, errors, how_many_are_healthy, is_healthy, last_error};
use super::table::{Cell, Table};
use json::Raw;

const INTERVAL: Duration = Duration::from_secs(2);

/// The calls and errors of each server since the gateway started, at one moment.
struct Sample {
    at: Instant,
    counts: HashMap<String, [u64; 2]>,
}

/// Shows the servers until the process is interrupted, or the gateway refuses the credential.
pub(super) async fn run(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let mut before = None;
    loop {
        let title = |text: &str| {
            let now = httpdate::fmt_http_date(SystemTime::now());
            // With the day of the week, the line would be longer than 80 columns.
            let date = now.split_once(' ').map_or(&*now, |(_, date)| date);
            format!("{date}  {}  {text}", remote.origin())
        };
        match remote.rest(Method::GET, &["servers"], &[]).await {
            Ok(document) => {
                let servers = elements(&document, "servers")?;
                let (table, sample) = table_of(&servers, before.as_ref());
                let names = servers.iter().map(|server| text(server, "name")).collect();
                let view = View { document, names, table };
                screen.redraw(&title(&how_many_are_healthy(&servers)), Some(&view))?;
                before = Some(sample);
            }
            Err(failed) if before.is_some() && !matches!(failed, CommandError::Denied { .. }) => {
                screen.redraw(&title(&failed.to_string()), None)?;
            }
            Err(failed) => return Err(failed),
        }
        sleep(INTERVAL).await;
    }
}

/// The table, and the counters for the rates of the next one. A gateway that started again has a rate of zero once.
fn table_of(servers: &[Raw], before: Option<&Sample>) -> (Table, Sample) {
    let mut now = Sample { at: Instant::now(), counts: HashMap::new() };
    let mut table = Table::new(&[
        "SERVER",
        "STATE",
        "BREAKER",
        "CALLS/S",
        "ERRORS/S",
        "P50/P99 MS",
        "RUNNING",
        "WAITING",
        "TOOLS",
        "CALLS",
        "LAST ERROR",
    ]);
    let mut servers: Vec<&Raw> = servers.iter().collect();
    servers.sort_by_key(|server| is_healthy(server));
    for server in servers {
        let counters = counters(server);
        let counts = [counters.get_as("calls").unwrap_or(0_u64), errors(&counters)];
        let old = before.and_then(|before| Some((before.at, *before.counts.get(&text(server, "name"))?)));
        let rate = |at: usize| {
            old.map_or("-".to_owned(), |(since, old)| {
                let per_interval = u32::try_from(counts[at].saturating_sub(old[at])).unwrap_or(u32::MAX);
                format!(
                    "{:.1}",
                    f64::from(per_interval) / now.at.duration_since(since).as_secs_f64().max(0.001)
                )
            })
        };
        let figures = [
            rate(0),
            rate(1),
            quantiles(server),
            number(server, "running_calls"),
            number(server, "waiting_calls"),
        ];
        let totals = [number(server, "tool_count"), counts[0].to_string(), last_error(server)];
        let states = [
            Cell::new(&text(server, "name")),
            Cell::state(&text(server, "state")),
            Cell::state(&text(server, "breaker")),
        ];
        table.rows.push(
            states.into_iter().chain(figures.iter().chain(&totals).map(|figure| Cell::new(figure))).collect(),
        );
        now.counts.insert(text(server, "name"), counts);
    }
    (table, now)
}

/// The median and the 99th percentile of the durations of the last minutes, in milliseconds.
fn quantiles(server: &Raw) -> String {
    let Some(recent) = server.get("recent_calls").filter(Raw::is_object) else { return "-".to_owned() };
    let [p50, p99] = ["p50_ms", "p99_ms"].map(|member| recent.get_as::<f64>(member).unwrap_or_default());
    let digits = |value: f64| if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{}/{}", digits(p50), digits(p99))
}
