//! Measures the ways of a group in rounds. Each round has another order, so that noise affects all
//! ways alike, and ratios compare measurements close in time.

use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::child::Running;
use crate::load::{Load, Sample, closed};
use crate::options::Pace;
use crate::stats::{Spread, median};

/// How long answers may arrive after their slice has ended.
const WAIT: Duration = Duration::from_mins(1);
/// How often a slice without a single call is repeated.
const TRIES: usize = 3;

/// The role of a way in comparisons within its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Calls without a hop.
    Direct,
    /// The cheapest possible hop.
    Limit,
    /// The gateway in its plain configuration.
    Plain,
    /// Anything else.
    Other,
}

/// One way to the server.
#[derive(Debug)]
pub struct Way {
    /// The name of the way in the table.
    pub name: String,
    /// The role of the way in comparisons.
    pub role: Role,
    /// The calls and their destination.
    pub load: Load,
    /// The process whose CPU time is measured.
    pub hop: Option<u32>,
}

impl Way {
    /// Calls without a hop.
    pub fn direct(load: Load) -> Self {
        Self { name: "direct".to_owned(), role: Role::Direct, load, hop: None }
    }

    /// Through `hop`, which must be where `load` is sent.
    pub fn through(name: &str, role: Role, hop: &Running, load: Load) -> Self {
        Self { name: name.to_owned(), role, load, hop: Some(hop.id()) }
    }
}

/// One slice of measurement of one way.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    /// Calls per second.
    pub rate: f64,
    /// Half of the calls took no longer, in microseconds.
    pub p50: f64,
    /// 99 in 100 took no longer.
    pub p99: f64,
    calls: f64,
    processor_seconds: f64,
}

impl Visit {
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    fn of(sample: &Sample) -> Self {
        Self {
            rate: sample.rate(),
            p50: sample.percentile(0.5),
            p99: sample.percentile(0.99),
            calls: sample.latencies.len() as f64,
            processor_seconds: sample.processor_seconds.first().copied().unwrap_or_default(),
        }
    }
}

/// The results of all rounds for one way.
#[derive(Debug)]
pub struct Row {
    /// The group it was measured in.
    pub group: String,
    /// The name of the way.
    pub way: String,
    /// Its role in comparisons.
    pub role: Role,
    /// The number of concurrent callers.
    pub connections: usize,
    /// Medians of all rounds.
    pub rate: f64,
    /// Half of the calls took no longer, in microseconds.
    pub p50: f64,
    /// 99 in 100 took no longer.
    pub p99: f64,
    /// CPU time of the hop's process for each call, in microseconds.
    pub processor: Option<f64>,
    /// CPU time of the hop, as a multiple of that of the limit's process.
    pub processor_of_limit: Option<f64>,
    /// Its rate as a share of the direct one.
    pub of_direct: Option<Spread>,
    /// Its rate as a share of the limit's.
    pub of_limit: Option<Spread>,
    /// Its rate as a share of the gateway's plain one.
    pub of_plain: Option<Spread>,
    /// The p50 that the way adds to the direct calls, as a multiple of that of the limit.
    pub added: Option<Spread>,
}

impl Row {
    /// Returns the cells of a table row; `none` for missing values.
    pub fn cells(&self, none: &str) -> [String; 11] {
        let or_none = |cell: Option<String>| cell.unwrap_or_else(|| none.to_owned());
        let spread = |spread: Option<Spread>| or_none(spread.map(|spread| spread.to_string()));
        [
            self.group.clone(),
            self.connections.to_string(),
            self.way.clone(),
            format!("{:.0}", self.rate),
            spread(self.of_direct),
            spread(self.of_limit),
            spread(self.of_plain),
            format!("{:.0}", self.p50),
            format!("{:.0}", self.p99),
            or_none(self.processor.map(|used| format!("{used:.1}"))),
            or_none(self.processor_of_limit.map(|times| format!("{times:.2}"))),
        ]
    }
}

/// Measures every way in every round.
pub async fn rounds(group: &str, ways: &[Way], pace: Pace) -> anyhow::Result<Vec<Row>> {
    let mut visits: Vec<Vec<Visit>> = ways.iter().map(|_| Vec::new()).collect();
    for round in 0..pace.rounds {
        for turn in 0..ways.len() {
            let forward = (turn + round / 2) % ways.len();
            let index = if round.is_multiple_of(2) { forward } else { ways.len() - 1 - forward };
            let way = &ways[index];
            let watched: Vec<u32> = way.hop.into_iter().collect();
            let visit = visit(&way.load, pace, &watched).await;
            visits[index].push(visit.with_context(|| format!("{group}: {}", way.name))?);
        }
    }
    Ok(rows(group, ways, &visits))
}

async fn visit(load: &Load, pace: Pace, watched: &[u32]) -> anyhow::Result<Visit> {
    let limit = pace.warm_up + pace.slice + WAIT;
    for _ in 0..TRIES {
        let sample = closed::run(load, pace.warm_up, pace.slice, watched);
        let sample = tokio::time::timeout(limit, sample).await.context("answers stay away")??;
        if !sample.latencies.is_empty() {
            return Ok(Visit::of(&sample));
        }
    }
    bail!("no call fits into {:?}: the machine is busy with something else", pace.slice)
}

fn rows(group: &str, ways: &[Way], visits: &[Vec<Visit>]) -> Vec<Row> {
    let of = |role: Role| ways.iter().position(|way| way.role == role).map(|at| &visits[at][..]);
    let (direct, limit, plain) = (of(Role::Direct), of(Role::Limit), of(Role::Plain));
    let row = |(way, mine): (&Way, &Vec<Visit>)| {
        let rate = |base: Option<&[Visit]>| base.map(|base| ratio(mine, base, |visit| visit.rate));
        let added = direct.zip(limit).map(|(direct, limit)| added(mine, direct, limit));
        Row {
            group: group.to_owned(),
            way: way.name.clone(),
            role: way.role,
            connections: way.load.connections,
            rate: median(mine.iter().map(|visit| visit.rate)),
            p50: median(mine.iter().map(|visit| visit.p50)),
            p99: median(mine.iter().map(|visit| visit.p99)),
            processor: way.hop.map(|_| processor(mine)),
            processor_of_limit: limit
                .filter(|_| way.hop.is_some() && way.role != Role::Limit)
                .map(|limit| processor(mine) / processor(limit)),
            of_direct: rate(direct).filter(|_| way.role != Role::Direct),
            of_limit: rate(limit).filter(|_| way.role != Role::Limit),
            of_plain: rate(plain).filter(|_| way.role == Role::Other),
            added: added.filter(|_| !matches!(way.role, Role::Direct | Role::Limit)),
        }
    };
    ways.iter().zip(visits).map(row).collect()
}

/// Total CPU time divided by the number of calls, in microseconds: the clock is too coarse for a
/// single slice.
fn processor(visits: &[Visit]) -> f64 {
    let calls: f64 = visits.iter().map(|visit| visit.calls).sum();
    let used: f64 = visits.iter().map(|visit| visit.processor_seconds).sum();
    used * 1e6 / calls
}

fn ratio(mine: &[Visit], base: &[Visit], figure: fn(&Visit) -> f64) -> Spread {
    Spread::of(mine.iter().zip(base).map(|(mine, base)| figure(mine) / figure(base)))
}

fn added(mine: &[Visit], direct: &[Visit], limit: &[Visit]) -> Spread {
    let rounds = mine.iter().zip(direct).zip(limit);
    Spread::of(rounds.map(|((mine, direct), limit)| (mine.p50 - direct.p50) / (limit.p50 - direct.p50)))
}
