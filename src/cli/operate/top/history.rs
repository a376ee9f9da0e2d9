//! Rates and durations of one server, from one sample to the next.
//!
//! Invariants: figures are those of the dashboard (`crates/admin/ui/state.js`, `dom.js`), if both ask at the same times.
//! At most [`KEPT`] of each are kept.
//!
//! Not here: how a quantile is found (`histogram`).

use std::collections::VecDeque;
use std::time::Duration;

use super::seen::SeenServer;

/// Samples that are kept: two minutes of one every two seconds.
const KEPT: usize = 60;
/// From no calls to the most calls.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Figures between samples, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    rate: VecDeque<f64>,
    p50: VecDeque<Option<f64>>,
    p99: VecDeque<Option<f64>>,
}

impl History {
    /// Notes what happened in `time` between two samples of a server.
    pub(super) fn note(&mut self, before: &SeenServer, now: &SeenServer, time: Duration) {
        // A difference of more than 2⁵³ calls would be rounded.
        #[allow(clippy::cast_precision_loss)]
        let calls = now.calls.saturating_sub(before.calls) as f64;
        push(&mut self.rate, calls / time.as_secs_f64().max(0.001));
        push(&mut self.p50, now.durations.quantile(0.5, &before.durations));
        push(&mut self.p99, now.durations.quantile(0.99, &before.durations));
    }

    /// Returns the calls per second of now; none before the second sample.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.back().copied()
    }

    /// Returns the last p50 and p99 in ms; none if no call ended in the time that is kept.
    pub(super) fn durations(&self) -> [Option<f64>; 2] {
        [&self.p50, &self.p99].map(|list| list.iter().rev().find_map(|value| *value))
    }

    /// Returns the p50 and p99 in ms of the calls between the last two samples.
    pub(super) fn last_durations(&self) -> [Option<f64>; 2] {
        [&self.p50, &self.p99].map(|list| list.back().copied().flatten())
    }

    /// Returns the calls per second as a row of bars, the newest last.
    pub(super) fn bars(&self) -> String {
        let most = self.rate.iter().copied().fold(1e-9, f64::max);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 7
        let bar = |rate: &f64| BARS[((rate / most * 7.0).ceil() as usize).min(7)];
        self.rate.iter().map(bar).collect()
    }
}

fn push<T>(list: &mut VecDeque<T>, value: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(value);
}

/// Writes calls per second.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// Writes a duration in ms.
pub(super) fn duration(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "-".into(),
        Some(time) if time < 1.0 => format!("{time:.2} ms"),
        Some(time) if time < 10.0 => format!("{time:.1} ms"),
        Some(time) if time < 1000.0 => format!("{time:.0} ms"),
        Some(time) if time < 60_000.0 => format!("{:.1} s", time / 1000.0),
        Some(time) => format!("{:.1} min", time / 60_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(calls: u64) -> SeenServer {
        SeenServer { calls, ..SeenServer::default() }
    }

    #[test]
    fn a_rate_is_the_calls_between_two_samples_and_never_negative() {
        let mut history = History::default();
        assert_eq!((history.rate(), history.bars().as_str()), (None, ""));
        history.note(&seen(10), &seen(40), Duration::from_secs(2));
        assert_eq!(history.rate(), Some(15.0));
        // The gateway was restarted.
        history.note(&seen(40), &seen(1), Duration::from_secs(2));
        assert_eq!((history.rate(), history.bars().as_str()), (Some(0.0), "█▁"));
        for calls in 0..200 {
            history.note(&seen(calls), &seen(calls + 1), Duration::from_secs(1));
        }
        assert_eq!(history.bars().chars().count(), KEPT);
    }

    #[test]
    fn a_duration_stays_until_it_is_two_minutes_old() {
        let history = History { p50: [Some(1.0), Some(2.0), None].into(), ..History::default() };
        assert_eq!(history.durations(), [Some(2.0), None]);
        assert_eq!(history.last_durations(), [None, None]);
    }

    #[test]
    fn figures_have_as_many_digits_as_those_of_the_dashboard() {
        let shown = [None, Some(0.25), Some(9.94), Some(10.4), Some(1500.0), Some(90_000.0)].map(duration);
        assert_eq!(shown, ["-", "0.25 ms", "9.9 ms", "10 ms", "1.5 s", "1.5 min"]);
        assert_eq!([None, Some(0.0), Some(9.5), Some(1234.5)].map(rate), ["-", "0.0", "9.5", "1234"]);
    }
}
