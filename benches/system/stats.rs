//! Medians and spreads.

use std::fmt;

use serde_json::{Value, json};

/// The median of the rounds, and the rounds furthest from it.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    /// Summarizes at least one value.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), least: at(0), most: at(values.len().saturating_sub(1)) }
    }

    /// As JSON with three decimals.
    pub fn json(self) -> Value {
        json!({"median": rounded(self.median), "least": rounded(self.least), "most": rounded(self.most)})
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2} ({:.2}–{:.2})", self.median, self.least, self.most);
        f.pad(&text)
    }
}

/// The middle value.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(values).median
}

/// Rounds to three decimals.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
