//! The timeouts of a client's entry, as `timeout`, `max_timeout` and `start_timeout`.
//!
//! Clients write seconds or milliseconds, and the name of a member says which. Where it does not, the client may be known
//! (`connect::spelling`), and otherwise the size tells it. Invariant: a time that is not taken as it stands gets a remark.
//!
//! Sources: the pages of the table of clients (`connect::clients`), read on 2026-11-28.

use std::fmt::Write as _;

use super::json::{Json, Unread};

/// The name of `timeout` in milliseconds, where the client is known.
pub(crate) const TIMEOUT_MS: &str = "timeout_ms";
/// The name of `timeout` in seconds, where the client is known.
pub(crate) const TIMEOUT_SEC: &str = "timeout_sec";

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutUnit {
    /// No page says it, so the size decides.
    Unknown,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

use TimeoutUnit::{Milliseconds, Seconds, Unknown};

/// Members with the longest time of a call.
const OF_CALLS: [(&str, TimeoutUnit); 4] =
    [("tool_timeout_sec", Seconds), (TIMEOUT_SEC, Seconds), (TIMEOUT_MS, Milliseconds), ("timeout", Unknown)];
/// Members with the longest time of a start.
const OF_STARTS: [(&str, TimeoutUnit); 4] = [
    ("startup_timeout_sec", Seconds),
    ("startup_timeout_ms", Milliseconds),
    ("connect_timeout", Seconds),
    ("connectionTimeout", Milliseconds),
];
/// The least time of a configuration file, in milliseconds.
const LEAST: u64 = 1_000;
/// The greatest `timeout`, `max_timeout` and `start_timeout`, in milliseconds.
const MOST: u64 = 600_000;
const MOST_AT_ALL: u64 = 86_400_000;
const MOST_OF_START: u64 = 3_600_000;

/// Takes the timeouts from `left`. Returns their lines, and the remarks about them. Only a program has a time to start.
pub(super) fn take(left: &mut Unread<'_>, is_program: bool) -> (String, Vec<String>) {
    let (mut lines, mut remarks) = (String::new(), Vec::new());
    if let Some((name, written, time)) = taken(left, &OF_CALLS, &mut remarks) {
        let used = within(name, written, time, MOST, &mut remarks);
        let _ = writeln!(lines, "    timeout: {}", shown(used));
        if time > MOST {
            let _ = writeln!(lines, "    max_timeout: {}", shown(time.min(MOST_AT_ALL)));
        }
    }
    if let Some((name, written, time)) = is_program.then(|| taken(left, &OF_STARTS, &mut remarks)).flatten() {
        let used = within(name, written, time, MOST_OF_START, &mut remarks);
        let _ = writeln!(lines, "    start_timeout: {}", shown(used));
    }
    (lines, remarks)
}

/// Takes the first of `names` that is a time. Returns its name as clients write it, its number and its milliseconds.
fn taken<'j>(
    left: &mut Unread<'j>,
    names: &[(&'static str, TimeoutUnit)],
    remarks: &mut Vec<String>,
) -> Option<(&'static str, &'j str, u64)> {
    names.iter().find_map(|(name, unit)| {
        let at = left.iter().position(|(key, _)| key == name)?;
        let (Json::Number(written) | Json::Text(written)) = left[at].1 else { return None };
        let number = written.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite())?;
        let time = match unit {
            Seconds => milliseconds(number * 1_000.0),
            Milliseconds => milliseconds(number),
            Unknown => guessed(number)?,
        };
        left.remove(at);
        let name = if [TIMEOUT_MS, TIMEOUT_SEC].contains(name) { "timeout" } else { name };
        if *unit == Unknown {
            remarks.push(format!("`{name}`: {written} is read as {}", shown(time)));
        }
        Some((name, written.as_str(), time))
    })
}

/// The milliseconds of a number without a unit, if its size tells the unit. No client accepts more than an hour in seconds,
/// and none has a default of more than ten minutes, so what lies between may be either.
fn guessed(number: f64) -> Option<u64> {
    match milliseconds(number) {
        seconds @ 1..=600 => Some(seconds * 1_000),
        milliseconds if milliseconds > 3_600 => Some(milliseconds),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a cast of a float stays within the type
fn milliseconds(number: f64) -> u64 {
    number.round() as u64
}

/// Returns `time` within what a configuration file may say.
fn within(name: &str, written: &str, time: u64, most: u64, remarks: &mut Vec<String>) -> u64 {
    let used = time.clamp(LEAST, most);
    if used != time {
        let bound = if used == most { "most" } else { "least" };
        remarks.push(format!("`{name}`: {written} is {} here, the {bound} that there is", shown(used)));
    }
    used
}

fn shown(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1_000) {
        format!("{}s", milliseconds / 1_000)
    } else {
        format!("{milliseconds}ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(member: (&str, &str), is_program: bool) -> (String, usize, usize) {
        let value = Json::Number(member.1.to_owned());
        let mut left = vec![(member.0, &value)];
        let (lines, remarks) = take(&mut left, is_program);
        (lines.split_whitespace().collect::<Vec<_>>().join(" "), remarks.len(), left.len())
    }

    #[test]
    fn the_unit_is_that_of_the_member_or_follows_from_the_size() {
        for (member, lines, remarks) in [
            (("tool_timeout_sec", "120"), "timeout: 120s", 0),
            (("tool_timeout_sec", "2.5"), "timeout: 2500ms", 0),
            (("tool_timeout_sec", "1800"), "timeout: 600s max_timeout: 1800s", 1),
            (("tool_timeout_sec", "1e9"), "timeout: 600s max_timeout: 86400s", 1),
            (("tool_timeout_sec", "0.1"), "timeout: 1s", 1),
            ((TIMEOUT_MS, "3000"), "timeout: 3s", 0),
            ((TIMEOUT_SEC, "3000"), "timeout: 600s max_timeout: 3000s", 1),
            (("timeout", "60"), "timeout: 60s", 1),
            (("timeout", "30000"), "timeout: 30s", 1),
            (("startup_timeout_sec", "20"), "start_timeout: 20s", 0),
            (("startup_timeout_ms", "20500"), "start_timeout: 20500ms", 0),
            (("startup_timeout_ms", "20000000"), "start_timeout: 3600s", 1),
        ] {
            assert_eq!(of(member, true), (lines.to_owned(), remarks, 0), "{member:?}");
        }
    }

    #[test]
    fn value_that_is_no_time_or_has_no_place_is_left() {
        for (member, is_program) in [
            (("timeout", "1800"), true),
            (("timeout", "0"), true),
            (("tool_timeout_sec", "-1"), true),
            (("startup_timeout_sec", "20"), false),
        ] {
            assert_eq!(of(member, is_program), (String::new(), 0, 1), "{member:?}");
        }
    }
}
