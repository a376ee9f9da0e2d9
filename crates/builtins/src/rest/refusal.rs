//! Responses of a service that are errors or cannot be read: their text for people, and the facts beside it, such as
//! `{code, message, data}`.
//!
//! Invariants: the text is the service's own message, in one short line. Neither text nor facts have a secret of the request or
//! a stack trace (`cleaner`). The text shows no member that repeats the request (`input` of a validation error). Each fact is
//! short, and all of them together have a few kilobytes. A fact is taken from the innermost object that has it. A body that is
//! not JSON is not shown, because it may contain anything.
//!
//! Not here: what a failure is taken for.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};

use super::cleaner::Cleaner;
use json::Raw;
use json::fault::{Cause, Fault};
use net::http::{Response, retry_after, whole};
use runtime::secret::SecretString;
use upstream::api::Error;

/// Most bytes of an error response that are read.
const MOST_BYTES: usize = 64 << 10;
/// Most problems of one validation error that are shown.
const MOST_PROBLEMS: usize = 5;
/// Facts with a meaning of their own. The others go into `data`.
const MEMBERS: [&str; 9] = [
    "code",
    "field",
    "rejected_value",
    "valid_range",
    "suggestion",
    "retry_after_seconds",
    "guidance",
    "retryable",
    "error_id",
];
/// Members of an error that are its text, or hold other members.
const ENVELOPE: [&str; 5] = ["success", "error", "detail", "message", "data"];
/// Bytes of one fact that is no text.
const MAX_FACT_BYTES: usize = 512;
/// Bytes of the other facts together, as the service wrote them.
const MAX_DATA_BYTES: usize = 4 << 10;
/// Seconds to wait that are believed.
const MAX_WAIT: f64 = 86_400.0;

/// Returns the error of `response`. `secrets` were sent with the request. The bytes that are read count for
/// `origin`.
pub(super) async fn of(response: Response, secrets: &[SecretString], origin: &Arc<str>) -> Error {
    let status = response.status();
    let waits = retry_after(response.headers());
    let body = whole(response.into_body(), MOST_BYTES, origin).await.unwrap_or_default();
    let cleaner = Cleaner::new(secrets);
    let said = error_text(&body).map(|text| cleaner.line(text)).filter(|text| !text.is_empty());
    let detail = said.unwrap_or_else(|| of_status(status));
    let facts = Raw::parse(&body).ok().and_then(|body| facts(&body, &cleaner));
    let retry_after = waits.or_else(|| wait_of(facts.as_ref()?));
    Error::Backend { status: status.as_u16(), detail, retry_after, facts: facts.map(Box::new) }
}

/// Returns the error of a `body` with a status of success that is not the JSON that was expected. Some services send their
/// errors so.
pub(super) fn of_success(body: &[u8], error: &serde_json::Error, secrets: &[SecretString]) -> Error {
    let read = Some(body).filter(|body| body.len() <= MOST_BYTES).and_then(error_text);
    let said = read.map(|text| Cleaner::new(secrets).line(text)).filter(|text| !text.is_empty());
    match said {
        Some(said) => {
            Error::Malformed { reason: format!("it is an error with the status of a success: {said}") }
        }
        None if error.is_data() => {
            let (line, column) = (error.line(), error.column());
            Error::Malformed {
                reason: format!("it is other JSON than was expected, at line {line} column {column}"),
            }
        }
        None => not_json(body, error),
    }
}

/// Returns the error of a `body` that is no JSON because of `error`.
pub(crate) fn not_json(body: &[u8], error: &serde_json::Error) -> Error {
    let fault = Fault::of(body, error);
    let reason = match fault.cause {
        Cause::Number(_) => fault.advice(),
        _ => format!("it is not JSON: {fault}"),
    };
    Error::Malformed { reason }
}

fn of_status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    }
}

/// Returns the message from the usual forms of errors: `{message}`, `{detail: text}`, `{detail: {message}}`,
/// `{detail: [{loc, msg}]}`, `{error: {message}}`, `{error: text}`.
fn error_text(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let nested = |value: &Value| text(value).or_else(|| text(value.get("message")?));
    let said = (body.get("message").and_then(text))
        .or_else(|| body.get("detail").and_then(nested))
        .or_else(|| body.get("detail")?.as_array().map(|problems| invalid(problems)))
        .or_else(|| body.get("error").and_then(nested))?;
    (!said.trim().is_empty()).then_some(said)
}

/// Returns the place and message of each problem.
fn invalid(problems: &[Value]) -> String {
    let one = |problem: &Value| {
        let what = problem.get("msg").and_then(Value::as_str).unwrap_or("invalid");
        format!("{}: {what}", place(problem))
    };
    problems.iter().take(MOST_PROBLEMS).map(one).collect::<Vec<_>>().join("; ")
}

/// The facts in `body`, an error or an answer with an error in it. None if there are none.
pub(crate) fn facts(body: &Raw, cleaner: &Cleaner<'_>) -> Option<Raw> {
    let objects = objects(body);
    let named = |name: &&str| {
        let found = objects.iter().find_map(|object| object.get(name).filter(|fact| !fact.is_null()))?;
        Some(((*name).to_owned(), fact(&found, cleaner)?))
    };
    let mut facts: Map<String, Value> = MEMBERS.iter().filter_map(named).collect();
    if !facts.contains_key("field") {
        facts.extend(invalid_field(body, cleaner).map(|field| ("field".to_owned(), field)));
    }
    // The envelope itself may hold anything, such as what was asked.
    let inner = objects.iter().filter(|object| object.as_str() != body.as_str());
    let data = others(inner, cleaner);
    if !data.is_empty() {
        facts.insert("data".to_owned(), Value::Object(data));
    }
    (!facts.is_empty()).then(|| Raw::of(&facts))
}

/// The time to wait that is among `facts`.
fn wait_of(facts: &Raw) -> Option<Duration> {
    let seconds: f64 = facts.get_as("retry_after_seconds")?;
    (0.0..=MAX_WAIT).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// The objects that can hold facts, the innermost first.
fn objects(body: &Raw) -> Vec<Raw> {
    let within = |object: &Raw, name: &str| object.get(name).filter(Raw::is_object);
    let errors = ["error", "detail"].into_iter().filter_map(|name| within(body, name));
    let all = errors.chain(body.is_object().then(|| body.clone()));
    all.flat_map(|object| [within(&object, "data"), Some(object)]).flatten().collect()
}

/// One fact, cleaned. One that is too large or no usual JSON is shown as the beginning of its text.
fn fact(given: &Raw, cleaner: &Cleaner<'_>) -> Option<Value> {
    let read = if given.bytes().len() <= MAX_FACT_BYTES { given.read().ok() } else { None };
    let text = || given.read::<String>().unwrap_or_else(|_| given.as_str().to_owned());
    clean(read.unwrap_or_else(|| Value::String(text())), cleaner)
}

/// `value` with each text in it cleaned; none if nothing is left of it.
fn clean(value: Value, cleaner: &Cleaner<'_>) -> Option<Value> {
    match value {
        Value::String(text) => Some(cleaner.line(text)).filter(|text| !text.is_empty()).map(Value::String),
        Value::Array(items) => Some(items.into_iter().filter_map(|item| clean(item, cleaner)).collect()),
        Value::Object(members) => {
            let members = members.into_iter();
            Some(
                members
                    .filter_map(|(name, value)| Some((cleaner.line(name), clean(value, cleaner)?)))
                    .collect(),
            )
        }
        other => Some(other),
    }
}

/// The members of `objects` that have no meaning here, as many as there is room for.
fn others<'a>(objects: impl Iterator<Item = &'a Raw>, cleaner: &Cleaner<'_>) -> Map<String, Value> {
    let (mut data, mut room) = (Map::new(), MAX_DATA_BYTES);
    for object in objects {
        for (name, value) in object.members() {
            let bytes = name.len() + value.bytes().len();
            let is_other = !MEMBERS.contains(&&*name) && !ENVELOPE.contains(&&*name);
            if !is_other || bytes > room || data.contains_key(&*name) {
                continue;
            }
            room -= bytes;
            let shown = value.read().ok().and_then(|value| clean(value, cleaner));
            data.extend(shown.map(|value| (cleaner.line(name.into_owned()), value)));
        }
    }
    data
}

/// The place of the first problem of a validation error as `FastAPI` reports it, within the body that was sent.
fn invalid_field(body: &Raw, cleaner: &Cleaner<'_>) -> Option<Value> {
    let problem = body.get("detail")?.elements().next()?;
    let at = place(&problem.read().ok()?);
    let field = at.strip_prefix("body.").or_else(|| at.strip_prefix("query.")).unwrap_or(&at);
    clean(Value::String(field.to_owned()), cleaner)
}

/// Returns the place of a validation error, such as `body.params.depth`.
fn place(problem: &Value) -> String {
    let parts = problem.get("loc").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let parts = parts.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned));
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(body: &Value) -> Value {
        let secrets = ["hunter2-hunter2".to_owned().into()];
        facts(&Raw::of(body), &Cleaner::new(&secrets)).map_or(Value::Null, |raw| raw.read().expect("JSON"))
    }

    #[test]
    fn facts_are_found_in_every_usual_shape() {
        let data = json!({"field": "top_k", "valid_range": [1, 50], "more": {"a": 1}});
        let whole =
            json!({"code": -32602, "field": "top_k", "valid_range": [1, 50], "data": {"more": {"a": 1}}});
        let error = json!({"code": -32602, "message": "no", "data": data});
        assert_eq!(of(&json!({"success": false, "error": error})), whole);
        assert_eq!(of(&json!({"detail": error})), whole);
        assert_eq!(of(&error), whole);
        let flat = json!({"message": "no", "code": "BUSY", "retry_after_seconds": 3, "index": "wiki"});
        assert_eq!(
            of(&json!({"error": flat})),
            json!({"code": "BUSY", "retry_after_seconds": 3, "data": {"index": "wiki"}})
        );
        assert_eq!(
            of(&json!({"success": false, "error": "no", "guidance": "Wait."})),
            json!({"guidance": "Wait."})
        );
        let invalid = json!({"detail": [{"loc": ["body", "params", 0], "msg": "no", "input": "x"}]});
        assert_eq!(of(&invalid), json!({"field": "params.0"}));
        for none in [json!({"error": "no"}), json!([]), json!("no"), json!({"success": false, "query": "q"})]
        {
            assert_eq!(of(&none), Value::Null, "{none}");
        }
    }

    #[test]
    fn facts_have_no_secret_and_no_trace_and_are_short() {
        let trace = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\n";
        let told = of(&json!({"error": {
            "rejected_value": {"key": ["hunter2-hunter2"], "much": "x".repeat(10_000)},
            "guidance": "use hunter2-hunter2\nor not",
            "data": {"trace": trace, "hunter2-hunter2": 1, "big": "x".repeat(5_000), "small": "y"},
        }}));
        let text = told.to_string();
        assert!(!text.contains("hunter2") && !text.contains("app.py") && text.len() < 1_000, "{told}");
        assert_eq!((&told["guidance"], &told["data"]["small"]), (&json!("use … or not"), &json!("y")));
        assert!(told["rejected_value"].as_str().is_some_and(|text| text.ends_with('…')), "{told}");
    }

    #[test]
    fn a_time_to_wait_is_believed_within_a_day() {
        let wait = |seconds: Value| wait_of(&Raw::of(&json!({"retry_after_seconds": seconds})));
        assert_eq!(wait(json!(1.5)), Some(Duration::from_millis(1500)));
        for odd in [json!(-1), json!(1e300), json!("3"), json!(86_401)] {
            assert_eq!(wait(odd), None);
        }
    }
}
