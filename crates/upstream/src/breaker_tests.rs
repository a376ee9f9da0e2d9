//! Tests of the breaker: against an independent model, and with many concurrent callers.

use std::sync::Arc;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use runtime::shutdown::Shutdown;

pub(super) type Outcome = Result<(), Error>;

pub(super) const CONFIG: config::BreakerConfig =
    config::BreakerConfig { threshold: 3, successes: 1, timeout: Duration::from_secs(30) };

pub(super) fn timed_out() -> Outcome {
    Err(Error::TimedOut { after: Duration::from_secs(1) })
}

pub(super) fn lost() -> Outcome {
    Err(Error::Lost { reason: "gone".into() })
}

fn refused() -> Outcome {
    Err(Error::Overloaded { retry_in: Duration::ZERO })
}

fn opened() -> Breaker {
    let breaker = Breaker::new(CONFIG);
    for _ in 0..CONFIG.threshold {
        breaker.judge(breaker.admit(None).expect("closed"), &timed_out());
    }
    assert_eq!(breaker.snapshot().state, State::Open);
    breaker
}

/// One step of a random sequence. Indexes select one of the issued permits.
#[derive(Debug, Clone, Copy)]
enum Step {
    Admit,
    Succeed(usize),
    Fail(usize),
    FailConnection(usize),
    Refuse(usize),
    Leave(usize),
    Wait(u64),
    Reset,
}

fn random_step(random: &mut StdRng) -> Step {
    let which = random.random_range(0..8);
    match random.random_range(0..20) {
        0..6 => Step::Admit,
        6..8 => Step::Succeed(which),
        8..12 => Step::Fail(which),
        12..15 => Step::FailConnection(which),
        15 => Step::Refuse(which),
        16 => Step::Leave(which),
        17..19 => Step::Wait(random.random_range(1..40)),
        _ => Step::Reset,
    }
}

/// An independent implementation of the rules. It keeps all events in one list and reads it for each
/// question.
struct Model {
    config: config::BreakerConfig,
    /// Events in the current state, oldest first.
    history: Vec<Past>,
    state: &'static str,
    open_until: u64,
    failures_before: u32,
    period: usize,
    clock: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Past {
    Admitted(usize),
    Succeeded,
    Failed,
    ConnectionFailed,
    Left(usize),
}

struct Ticket {
    number: usize,
    period: usize,
}

impl Model {
    const fn new(config: config::BreakerConfig) -> Self {
        let history = Vec::new();
        Self { config, history, state: "closed", open_until: 0, failures_before: 0, period: 0, clock: 0 }
    }

    fn enter(&mut self, state: &'static str) {
        self.state = state;
        self.history.clear();
        self.period += 1;
    }

    fn failures(&self) -> u32 {
        let is_failure = |past: &&Past| matches!(past, Past::Failed | Past::ConnectionFailed);
        if self.state == "half-open" {
            // A success clears the count only when it closes the breaker.
            let failed = u32::try_from(self.history.iter().filter(is_failure).count()).expect("few");
            return self.failures_before + failed;
        }
        let streak = self.history.iter().rev().take_while(|past| **past != Past::Succeeded);
        let cleared = self.history.contains(&Past::Succeeded);
        let streak = u32::try_from(streak.filter(is_failure).count()).expect("few");
        if cleared { streak } else { streak + self.failures_before }
    }

    fn probe_is_out(&self) -> bool {
        let admitted = self.history.iter().filter(|past| matches!(past, Past::Admitted(_))).count();
        admitted > self.history.len() - admitted
    }

    fn successes(&self) -> usize {
        self.history.iter().filter(|past| **past == Past::Succeeded).count()
    }

    fn admit(&mut self, number: usize) -> Option<Ticket> {
        if self.state == "open" && self.clock >= self.open_until {
            self.failures_before = self.failures();
            self.enter("half-open");
        }
        if self.state == "open" || (self.state == "half-open" && self.probe_is_out()) {
            return None;
        }
        self.history.push(Past::Admitted(number));
        Some(Ticket { number, period: self.period })
    }

    fn settle(&mut self, ticket: &Ticket, past: Past) {
        if ticket.period != self.period {
            return;
        }
        if past == Past::ConnectionFailed && self.state == "closed" {
            let mine = self.history.iter().position(|p| *p == Past::Admitted(ticket.number));
            let last = self.history.iter().rposition(|p| *p == Past::ConnectionFailed);
            if last > mine {
                return;
            }
        }
        self.history.push(past);
        let failed = matches!(past, Past::Failed | Past::ConnectionFailed);
        let must_open = match self.state {
            "half-open" => failed,
            _ => failed && self.failures() >= self.config.threshold,
        };
        if must_open {
            self.failures_before = self.failures();
            self.enter("open");
            self.open_until = self.clock + self.config.timeout.as_secs();
        } else if self.state == "half-open" && self.successes() >= self.config.successes as usize {
            self.failures_before = 0;
            self.enter("closed");
        }
    }

    fn reset(&mut self) {
        self.failures_before = 0;
        self.enter("closed");
    }

    fn state(&self) -> State {
        match self.state {
            "open" => State::Open,
            "half-open" => State::HalfOpen,
            _ => State::Closed,
        }
    }
}

fn run_both(config: config::BreakerConfig, steps: &[Step]) -> Result<(), String> {
    let (start, breaker, mut model) = (Instant::now(), Breaker::new(config), Model::new(config));
    let mut out: Vec<(Permit, Ticket)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let now = start + Duration::from_secs(model.clock);
        let result = match *step {
            Step::Succeed(_) => Some((Ok(()), Past::Succeeded)),
            Step::Fail(_) => Some((timed_out(), Past::Failed)),
            Step::FailConnection(_) => Some((lost(), Past::ConnectionFailed)),
            Step::Refuse(_) => Some((refused(), Past::Left(0))),
            _ => None,
        };
        match *step {
            Step::Admit => match (breaker.admit_at(None, || now), model.admit(number)) {
                (Ok(permit), Some(ticket)) => out.push((permit, ticket)),
                (Err(Error::CircuitOpen { retry_in }), None) if !retry_in.is_zero() => {}
                (real, model) => {
                    return Err(format!("step {number}: {real:?}, model admits: {}", model.is_some()));
                }
            },
            Step::Wait(seconds) => model.clock += seconds,
            Step::Reset => {
                breaker.reset();
                model.reset();
            }
            Step::Succeed(at)
            | Step::Fail(at)
            | Step::FailConnection(at)
            | Step::Refuse(at)
            | Step::Leave(at) => {
                if out.is_empty() {
                    continue;
                }
                let (permit, ticket) = out.swap_remove(at % out.len());
                let (result, past) = result.unzip();
                model.settle(&ticket, past.unwrap_or(Past::Left(ticket.number)));
                match result {
                    Some(result) => breaker.settle(permit, Verdict::of(&result), || now),
                    None => breaker.settle(permit, Verdict::Nothing, || now),
                }
            }
        }
        let snapshot = breaker.snapshot_at(now);
        let (real, expected) =
            ((snapshot.state, snapshot.consecutive_failures), (model.state(), model.failures()));
        if real != expected {
            return Err(format!("after step {number}: {real:?}, model: {expected:?}"));
        }
    }
    Ok(())
}

// RULES R6
#[test]
fn it_does_what_the_model_does() {
    for seed in 0..20_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let steps: Vec<_> = (0..random.random_range(1..60)).map(|_| random_step(&mut random)).collect();
        let config = config::BreakerConfig { successes: random.random_range(1..4), ..CONFIG };
        if let Err(difference) = run_both(config, &steps) {
            panic!("{difference} in sequence {seed} with {config:?}: {steps:?}");
        }
    }
}

// RULES R6
#[tokio::test(start_paused = true)]
async fn one_of_a_hundred_callers_probes() {
    let breaker = Arc::new(opened());
    tokio::time::advance(CONFIG.timeout).await;
    let shutdown = Shutdown::new();
    let (sender, mut probes) = tokio::sync::mpsc::channel(100);
    for _ in 0..100 {
        let (breaker, sender) = (Arc::clone(&breaker), sender.clone());
        shutdown.spawn(async move {
            let permit = breaker.admit(None);
            let _ = sender.send(permit.is_ok()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Ok(permit) = permit {
                breaker.judge(permit, &Ok::<_, Error>(()));
            }
        });
    }
    let mut admitted = 0;
    for _ in 0..100 {
        admitted += usize::from(probes.recv().await.expect("everyone reports"));
    }
    assert_eq!(admitted, 1);
    assert!(shutdown.wait(Duration::from_secs(5)).await);
    assert_eq!(breaker.snapshot().state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_leaves_frees_the_seat() {
    let breaker = opened();
    tokio::time::advance(CONFIG.timeout).await;
    for _ in 0..3 {
        let permit = breaker.admit(None).expect("the slot is free");
        assert!(breaker.admit(None).is_err(), "and now it is taken");
        breaker.forget(permit);
    }
    assert_eq!(breaker.snapshot().state, State::HalfOpen);
    breaker.judge(breaker.admit(None).expect("free"), &Ok::<_, Error>(()));
    assert_eq!(
        breaker.snapshot(),
        Snapshot { state: State::Closed, consecutive_failures: 0, successes: 0, retry_in: None }
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_names_the_time_left() {
    let breaker = opened();
    tokio::time::advance(Duration::from_secs(10)).await;
    let left = Duration::from_secs(20);
    assert_eq!(breaker.admit(None).expect_err("open"), Error::CircuitOpen { retry_in: left });
    assert_eq!((breaker.refuses_for(None), breaker.snapshot().retry_in), (Some(left), Some(left)));
}

#[tokio::test(start_paused = true)]
async fn late_results_do_not_touch_a_newer_state() {
    let breaker = Breaker::new(CONFIG);
    let early: Vec<_> = (0..10).map(|_| breaker.admit(None).expect("closed")).collect();
    for _ in 0..CONFIG.threshold {
        breaker.judge(breaker.admit(None).expect("closed"), &timed_out());
    }
    for (index, permit) in early.into_iter().enumerate() {
        breaker.judge(permit, &if index % 2 == 0 { Ok(()) } else { timed_out() });
    }
    assert_eq!(
        breaker.snapshot().state,
        State::Open,
        "a late success does not close it, a late failure does not prolong it"
    );
    assert_eq!(breaker.snapshot().retry_in, Some(CONFIG.timeout));
    tokio::time::advance(CONFIG.timeout).await;
    let probe = breaker.admit(None).expect("the probe");
    breaker.reset();
    breaker.judge(probe, &timed_out());
    let after = breaker.snapshot();
    assert_eq!(
        (after.state, after.consecutive_failures),
        (State::Closed, 0),
        "it was closed by hand meanwhile"
    );
    let before = breaker.admit(None).expect("closed");
    for _ in 0..CONFIG.threshold {
        breaker.judge(breaker.admit(None).expect("closed"), &timed_out());
    }
    tokio::time::advance(CONFIG.timeout).await;
    let probe = breaker.admit(None).expect("the probe");
    breaker.judge(before, &Ok::<_, Error>(()));
    assert_eq!(breaker.snapshot().state, State::HalfOpen, "only the probe decides");
    breaker.judge(probe, &timed_out());
    assert_eq!(breaker.snapshot().state, State::Open);
}

// RULES R7
#[tokio::test(start_paused = true)]
async fn error_of_the_caller_never_counts() {
    let breaker = Breaker::new(CONFIG);
    for _ in 0..2 {
        breaker.judge(breaker.admit(None).expect("closed"), &timed_out());
    }
    let not_found: Outcome = Err(Error::Status { status: 404, retry_after: None, detail: String::new() });
    for result in [refused(), not_found.clone(), refused()] {
        breaker.judge(breaker.admit(None).expect("closed"), &result);
    }
    assert_eq!(breaker.snapshot().consecutive_failures, 0, "the 404 is an answer");
    for _ in 0..100 {
        breaker.judge(breaker.admit(None).expect("closed"), &not_found);
        breaker.judge(breaker.admit(None).expect("closed"), &refused());
    }
    assert_eq!(breaker.snapshot().state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_crash_counts_once_however_many_calls_it_takes_along() {
    let breaker = Breaker::new(CONFIG);
    for crash in 1..=CONFIG.threshold {
        let calls: Vec<_> = (0..20).map(|_| breaker.admit(None).expect("closed")).collect();
        join_all(calls.into_iter().map(|permit| async { breaker.judge(permit, &lost()) })).await;
        assert_eq!(breaker.snapshot().consecutive_failures, crash);
    }
    assert_eq!(breaker.snapshot().state, State::Open);
    let breaker = Breaker::new(CONFIG);
    let calls: Vec<_> = (0..20).map(|_| breaker.admit(None).expect("closed")).collect();
    for permit in calls {
        breaker.judge(permit, &timed_out());
    }
    assert_eq!(breaker.snapshot().state, State::Open, "silence towards many is many failures");
}
