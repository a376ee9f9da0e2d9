//! Numbers, times and strings that not every client can read.

use std::borrow::Cow;

use bytes::Bytes;

use json::Raw;

/// The most digits of a number. Python refuses to read integers with more than 4,300 digits.
const MAX_DIGITS: usize = 4_000;
/// The least magnitude at which a number is not exact in every language.
const EXACT: f64 = 9_223_372_036_854_775_808.0;

/// Checks that clients can read each number of `definition`.
pub(super) fn check_numbers(definition: &Raw) -> Result<(), String> {
    match definition.numbers().map(str::len).max() {
        Some(longest) if longest > MAX_DIGITS => Err(format!("it has a number of {longest} digits")),
        _ => Ok(()),
    }
}

/// The finite number that `value` is.
pub(super) fn number(value: &Raw) -> Option<f64> {
    value.read::<f64>().ok().filter(|number| number.is_finite())
}

/// Whether `value` is a number without a fraction.
pub(super) fn is_whole(value: &Raw) -> bool {
    number(value).is_some_and(|number| number.fract() == 0.0 && number.abs() < EXACT)
}

/// `definition` with a replacement character for each half of a surrogate pair; `None` if it has none. JSON allows such
/// halves, and readers of Python refuse the whole message for one.
pub(super) fn without_lone_surrogates(definition: &Raw) -> Option<Raw> {
    let mut text = Cow::Borrowed(definition.bytes().as_ref());
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match (surrogate(&text, at), surrogate(&text, at + 6)) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                text.to_mut()[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (None, _) => 2,
        };
    }
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Raw::parse(&Bytes::from(text)).ok(),
    }
}

#[derive(PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// The half of a surrogate pair whose escape begins at `at`.
fn surrogate(text: &[u8], at: usize) -> Option<Half> {
    let escape = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let code = u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()?;
    match code {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}

/// Whether `text` is a date and time with an offset (RFC 3339, with a capital `T` and `Z`).
pub(super) fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    is_date(date) && is_time_of_day(time)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => 31,
    };
    (1..=12).contains(&month) && (1..=days).contains(&day)
}

fn is_time_of_day(text: &str) -> bool {
    let (time, offset) = match text.strip_suffix('Z') {
        Some(time) => (time, None),
        None => match text.rfind(['+', '-']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => return false,
        },
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parts: Vec<&str> = whole.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return false };
    let is_second = digits(second, 2).is_some_and(|second| second < 60);
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_offset =
        |offset: &str| offset.split_once(':').is_some_and(|(hour, minute)| is_clock(hour, minute));
    is_clock(hour, minute) && is_second && is_fraction && offset.is_none_or(is_offset)
}

fn is_clock(hour: &str, minute: &str) -> bool {
    digits(hour, 2).is_some_and(|hour| hour < 24) && digits(minute, 2).is_some_and(|minute| minute < 60)
}

/// The number that exactly `count` digits spell.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
