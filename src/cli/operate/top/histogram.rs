//! Durations of calls, from the metrics of the gateway.
//!
//! Invariants: figures are those of the dashboard (`crates/admin/ui/metrics.js`): buckets of all outcomes are added, and a
//! quantile is interpolated inside of its bucket.
//!
//! Not here: the other metrics.

use std::collections::HashMap;

/// The series that is read.
const SERIES: &str = "switchyard_server_call_duration_seconds_bucket{";

/// Counts of calls by the upper bound of their duration in seconds, each with those of the lower bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram(Vec<(f64, f64)>);

/// Reads the histogram of each server from the text of the metrics.
pub(super) fn histograms(text: &str) -> HashMap<String, Histogram> {
    let mut all: HashMap<String, Histogram> = HashMap::new();
    for line in text.lines() {
        let Some(sample) = line.strip_prefix(SERIES).and_then(sample) else { continue };
        all.entry(sample.server).or_default().add(sample.bound, sample.count);
    }
    all
}

impl Histogram {
    fn add(&mut self, bound: f64, count: f64) {
        match self.0.binary_search_by(|(other, _)| other.total_cmp(&bound)) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (bound, count)),
        }
    }

    /// Returns the duration in ms that the part `q` of the calls since `before` did not exceed. None: no call ended.
    pub(super) fn quantile(&self, q: f64, before: &Self) -> Option<f64> {
        let old = |bound: f64| before.0.iter().find(|(other, _)| other.total_cmp(&bound).is_eq());
        let fresh =
            |(bound, count): &(f64, f64)| (*bound, count - old(*bound).map_or(0.0, |(_, count)| *count));
        let buckets: Vec<_> = self.0.iter().map(fresh).collect();
        let total = buckets.last().map(|(_, count)| *count).filter(|total| *total > 0.0)?;
        let (wanted, mut low, mut below) = (q * total, 0.0, 0.0);
        for (bound, count) in buckets {
            if count >= wanted && bound.is_finite() {
                let inside = count - below;
                let part = if inside > 0.0 { (wanted - below) / inside } else { 1.0 };
                return Some((low + (bound - low) * part) * 1000.0);
            }
            if count >= wanted {
                break;
            }
            (low, below) = (bound, count);
        }
        Some(low * 1000.0)
    }
}

/// One bucket of one server and outcome.
struct BucketSample {
    server: String,
    bound: f64,
    count: f64,
}

/// Reads a line after the name of the series and its brace.
fn sample(mut rest: &str) -> Option<BucketSample> {
    let (mut server, mut bound) = (None, None);
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        match name.trim_start_matches(',') {
            "server" => server = Some(value),
            "le" if value == "+Inf" => bound = Some(f64::INFINITY),
            "le" => bound = value.parse().ok(),
            _ => {}
        }
        rest = after;
    }
    let count = rest[1..].split_whitespace().next()?.parse().ok()?;
    Some(BucketSample { server: server?, bound: bound?, count })
}

/// Reads the value of a label whose opening quote was read, and returns what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.char_indices());
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                c => c,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "switchyard_server_call_duration_seconds_bucket";

    fn one(text: &str) -> Histogram {
        histograms(text).remove("a").expect("the server a")
    }

    fn text(counts: [u32; 4]) -> String {
        let bounds = ["0.01", "0.1", "1.0", "+Inf"];
        let line = |(bound, count)| format!("{NAME}{{server=\"a\",outcome=\"ok\",le=\"{bound}\"}} {count}\n");
        bounds.into_iter().zip(counts).map(line).collect()
    }

    /// The figures are what `quantile` of `metrics.js` returns for the same texts.
    #[test]
    fn quantiles_of_the_calls_between_two_texts_are_those_of_the_dashboard() {
        let quantiles = |now, before| {
            let (now, before) = (one(&text(now)), one(&text(before)));
            [0.5, 0.99].map(|q| now.quantile(q, &before).map(|ms| (ms * 1000.0).round() / 1000.0))
        };
        for (now, before, wanted) in [
            ([0, 0, 0, 0], [0, 0, 0, 0], [None, None]),
            ([10, 10, 10, 10], [10, 10, 10, 10], [None, None]),
            ([10, 10, 10, 10], [0, 0, 0, 0], [Some(5.0), Some(9.9)]),
            ([6, 9, 10, 10], [0, 0, 0, 0], [Some(8.333), Some(910.0)]),
            ([106, 109, 110, 110], [100, 100, 100, 100], [Some(8.333), Some(910.0)]),
            ([0, 0, 0, 4], [0, 0, 0, 0], [Some(1000.0), Some(1000.0)]),
            ([0, 0, 1, 4], [0, 0, 0, 0], [Some(1000.0), Some(1000.0)]),
            ([1, 1, 1, 1], [5, 5, 5, 5], [None, None]),
        ] {
            assert_eq!(quantiles(now, before), wanted, "{now:?} {before:?}");
        }
    }

    #[test]
    fn outcomes_are_added_and_names_keep_every_character() {
        let text = format!(
            "# HELP {NAME} text\n{NAME}{{le=\"0.1\",outcome=\"ok\",server=\"a\"}} 3\n\
             {NAME}{{le=\"0.1\",outcome=\"failed\",server=\"a\"}} 2 # {{id=\"1\"}} 0.05\n\
             {NAME}{{le=\"0.1\",server=\"x}},\\\"\\\\\\n\"}} 1\nother{{server=\"a\"}} 9\n{NAME}{{server=\"b\n"
        );
        let all = histograms(&text);
        assert_eq!(all.len(), 2);
        assert_eq!(all["a"], Histogram(vec![(0.1, 5.0)]));
        assert_eq!(all["x},\"\\\n"], Histogram(vec![(0.1, 1.0)]));
    }
}
