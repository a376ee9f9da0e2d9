//! Times with a unit, such as `500ms`, `30s`, `5m`, `2h` and `7d`.
//!
//! Not here: which times a setting accepts (`setting`).

use std::time::Duration;

/// Units with their seconds. `ms` comes first, because it ends as `s` does.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Reads a number with a unit, whole or with a fraction: `500ms`, `30s`, `1.5m`, `2h` or `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds_with_unit(text)?).ok()
}

pub(super) fn seconds_with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) =
        UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain { Some(number.parse::<f64>().ok()? * unit) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 1.5m ", 90_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        let long = format!("{}d", "9".repeat(400));
        for text in [
            "", "s", "30", "-1s", "+1s", ".5s", "5.s", "1.2.3s", "1e3s", "1 s", "1S", "1w", "infs", "nans",
            &long,
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
