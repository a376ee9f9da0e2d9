//! The `Accept` header of a client that can be answered with JSON or with an event stream.
//!
//! Source: RFC 9110, 12.5.1. The most specific range that matches a media type decides about it. Invariant: without
//! the header, or with an empty one, everything is acceptable. A weight that cannot be read counts as 1.

/// The media type of a single answer.
const JSON: &str = "application/json";
/// The media type of an event stream.
const EVENTS: &str = "text/event-stream";
/// The highest weight, in thousandths.
const MOST: u16 = 1_000;

/// The preferences of an `Accept` header for JSON and for event streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    json: Preference,
    events: Preference,
}

/// The range that decides about one media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Preference {
    /// From 0, which excludes it, to [`MOST`].
    weight: u16,
    /// 3 for the media type itself, 2 for its family, 1 for anything, 0 without a range.
    precision: u8,
    /// The position of the range in the header.
    position: usize,
}

impl Preference {
    const EXCLUDED: Self = Self { weight: 0, precision: 0, position: 0 };
    const ANYTHING: Self = Self { weight: MOST, precision: 1, position: 0 };

    const fn is_named(self) -> bool {
        self.precision == 3 && self.weight > 0
    }

    /// Takes the range at `position`, with its parameters, if it decides about the media type.
    fn record(&mut self, media_type: &str, (range, parameters): (&str, &str), position: usize) {
        let has_family = |family: &str| {
            media_type.get(..family.len()).is_some_and(|own| own.eq_ignore_ascii_case(family))
                && media_type.as_bytes().get(family.len()) == Some(&b'/')
        };
        let precision = match range.strip_suffix("/*") {
            _ if range.eq_ignore_ascii_case(media_type) => 3,
            Some("*") => 1,
            Some(family) if has_family(family) => 2,
            _ => return,
        };
        if precision > self.precision {
            *self = Self { weight: weight(parameters), precision, position };
        }
    }
}

/// The media range before the first `;`, and its parameters.
fn split(range: &str) -> (&str, &str) {
    range.split_once(';').map_or((range, ""), |(range, parameters)| (range.trim(), parameters))
}

impl Accept {
    /// Reads the values of all `Accept` headers of a request.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges = values.into_iter().flat_map(|value| value.split(',')).map(str::trim);
        let mut accept = Self { json: Preference::EXCLUDED, events: Preference::EXCLUDED };
        let mut is_empty = true;
        for (position, range) in ranges.filter(|range| !range.is_empty()).enumerate() {
            is_empty = false;
            let range = split(range);
            accept.json.record(JSON, range, position);
            accept.events.record(EVENTS, range, position);
        }
        if is_empty { Self { json: Preference::ANYTHING, events: Preference::ANYTHING } } else { accept }
    }

    /// Whether the answer may be JSON.
    pub const fn allows_json(self) -> bool {
        self.json.weight > 0
    }

    /// Whether the answer may be an event stream.
    pub const fn allows_events(self) -> bool {
        self.events.weight > 0
    }

    /// Whether an event stream is named, and JSON is not named or not better.
    pub const fn prefers_named_events(self) -> bool {
        self.events.is_named() && (!self.json.is_named() || self.prefers_events())
    }

    /// Whether an event stream is better than JSON: it has the higher weight, or the same one and is named first.
    pub const fn prefers_events(self) -> bool {
        let is_first = self.events.is_named() && self.events.position < self.json.position;
        self.events.weight > self.json.weight || self.events.weight == self.json.weight && is_first
    }
}

/// The weight in the parameters of a range, in thousandths.
fn weight(parameters: &str) -> u16 {
    let mut values = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let value = values.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    let weight = value.and_then(|(_, value)| value.trim().parse::<f32>().ok());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is from 0 to 1,000
    weight.filter(|weight| (0.0..=1.0).contains(weight)).map_or(MOST, |weight| (weight * 1_000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The media types that the header allows: `J` for JSON, `E` for events, the better one first.
    fn of(values: &[&str]) -> &'static str {
        let accept = Accept::of(values.iter().copied());
        match (accept.allows_json(), accept.allows_events(), accept.prefers_events()) {
            (true, true, false) => "JE",
            (true, true, true) => "EJ",
            (true, false, _) => "J",
            (false, true, _) => "E",
            (false, false, _) => "",
        }
    }

    #[test]
    fn the_most_specific_range_decides_about_each_media_type() {
        for (values, expected) in [
            (&[][..], "JE"),
            (&[""], "JE"),
            (&[" , "], "JE"),
            (&["*/*"], "JE"),
            (&["*/*;q=0.1"], "JE"),
            (&["application/json"], "J"),
            (&["Application/JSON; charset=utf-8"], "J"),
            (&["application/*"], "J"),
            (&["text/event-stream"], "E"),
            (&["text/*"], "E"),
            (&["text/*, application/*;q=0.5"], "EJ"),
            (&["application/json, text/event-stream"], "JE"),
            (&["text/event-stream, application/json"], "EJ"),
            (&["text/event-stream, */*"], "EJ"),
            (&["*/*, text/event-stream"], "JE"),
            (&["application/json", "text/event-stream"], "JE"),
            (&["text/event-stream;q=0.8, application/json;q=0.9"], "JE"),
            (&["application/json;q=0.8, text/event-stream;q=0.9"], "EJ"),
            (&["application/json, text/event-stream;q=0"], "J"),
            (&["*/*, application/json;q=0.0"], "E"),
            (&["application/json, text/plain, */*"], "JE"),
            (&["application/json;q=x"], "J"),
            (&["text/html"], ""),
            (&["image/*, application/xml"], ""),
            (&["json"], ""),
            (&["*/*;q=0"], ""),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_range_for_anything_names_no_event_stream() {
        let is = |value: &str| Accept::of([value]).prefers_named_events();
        for value in
            ["text/event-stream", "*/*, text/event-stream;q=0.5", "text/event-stream, application/json"]
        {
            assert!(is(value), "{value}");
        }
        for value in ["", "text/*", "text/event-stream;q=0", "application/json, text/event-stream"] {
            assert!(!is(value), "{value}");
        }
    }
}
