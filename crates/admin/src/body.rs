//! Parses the body of `POST /call` strictly: undocumented members are refused, and all errors are
//! reported at once.
//!
//! Invariant: the arguments keep their bytes, so numbers, order and unknown members reach the server
//! unchanged. `null` for an optional member means that it is absent.

use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use utoipa::ToSchema;

use super::problem::Problem;
use json::{Raw, raw};
use net::http::has_content_coding;
use protocol::ErrorCode;
use protocol::JsonObject;
use protocol::message::MAX_DEPTH;
use protocol::problem::FieldError;
use settings::nearest;

const MEMBERS: [&str; 5] = ["server", "tool", "arguments", "timeout", "view"];
/// The longest name that is looked up, in bytes.
const MAX_NAME: usize = 1024;
/// Limit of members of `arguments`, because each is compared with the others.
const MAX_MEMBERS: usize = 10_000;
/// Limit of errors that are reported.
const MAX_ERRORS: usize = 10;
/// Limit of characters of a wrong value that an error repeats.
const MAX_FOUND: usize = 60;

/// Reads a whole body of at most `limit` bytes.
pub(super) async fn received(body: Body, limit: usize) -> Result<Bytes, Problem> {
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        if error.source().is_some_and(<dyn Error>::is::<http_body_util::LengthLimitError>) {
            Problem::new(ErrorCode::BodyTooLarge, format!("the body is larger than {limit} bytes"))
        } else {
            Problem::new(ErrorCode::BodyIncomplete, "the body ended too early")
        }
    })
}

/// The tool to call, and its arguments.
#[derive(Debug, Clone, PartialEq, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRequest {
    /// The server. Without it the tool is found by its discovered name.
    #[schema(min_length = 1, max_length = 1024, examples("issues"))]
    pub(super) server: Option<String>,
    /// The tool: by its name at `server`, or by its discovered name.
    #[schema(min_length = 1, max_length = 1024, examples("create_issue"))]
    pub(super) tool: String,
    /// The arguments of the tool, as its `inputSchema` says; `{}` when they are left out.
    #[schema(value_type = Option<JsonObject>)]
    pub(super) arguments: Raw,
    /// Seconds the call may take, waiting and retries included; without it the server's own timeout.
    #[schema(value_type = Option<f64>, minimum = 0.001, maximum = 600, examples(30))]
    pub(super) timeout: Option<Duration>,
    /// The view through which the tool is looked up. A credential that is bound to a view has no other.
    #[schema(min_length = 1, max_length = 1024, examples("support"))]
    pub(super) view: Option<String>,
}

/// Reads the body of a call.
pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<CallRequest, Problem> {
    let mut errors = Vec::new();
    let members = taken(&read_object(headers, body)?, MEMBERS, &mut errors);
    match call_request(members, &mut errors) {
        Some(request) if errors.is_empty() => Ok(request),
        _ => Err(refusal(errors)),
    }
}

/// Reads a body with the members `names`. Each of them may be absent.
pub(super) fn members<const N: usize>(
    headers: &HeaderMap,
    body: &Bytes,
    names: [&str; N],
) -> Result<[Option<Raw>; N], Problem> {
    let mut errors = Vec::new();
    let members = taken(&read_object(headers, body)?, names, &mut errors);
    if errors.is_empty() { Ok(members) } else { Err(Problem::of_fields(errors)) }
}

fn read_object(headers: &HeaderMap, body: &Bytes) -> Result<Raw, Problem> {
    is_json(headers)?;
    let text = raw::without_byte_order_mark(body);
    let raw = Raw::parse(text.as_ref().unwrap_or(body)).map_err(|error| not_json(body, &error))?;
    if !raw.is_object() {
        return Err(Problem::of_fields(vec![wrong("", found(&raw), "a JSON object")]));
    }
    if raw.depth() > MAX_DEPTH {
        let found = format!("{} levels of nesting", raw.depth());
        return Err(Problem::of_fields(vec![wrong("", found, "at most 64 levels")]));
    }
    Ok(raw)
}

/// Returns the members `names` of `raw`. Adds an error for each other one, and for one that stands twice.
fn taken<const N: usize>(raw: &Raw, names: [&str; N], errors: &mut Vec<FieldError>) -> [Option<Raw>; N] {
    let mut members = [const { None }; N];
    for (key, value) in raw.members() {
        let shown: String = key.chars().take(MAX_FOUND).collect();
        match names.iter().position(|name| *name == key) {
            None => {
                let expected = format!("one of {}", names.join(", "));
                report(errors, wrong(&shown, "a member that is not known", &expected));
            }
            Some(at) if members[at].is_some() => {
                report(errors, wrong(&shown, "the member twice", "each member once"));
            }
            Some(at) => members[at] = Some(value),
        }
    }
    members
}

/// Returns the string that a required member is.
pub(super) fn required_text(value: Option<&Raw>, field: &str, most: usize) -> Result<String, Problem> {
    let text = value.and_then(|value| value.read::<String>().ok());
    text.filter(|text| !text.is_empty() && text.len() <= most).ok_or_else(|| {
        let expected = format!("a string of 1 to {most} bytes");
        Problem::of_fields(vec![wrong(field, value.map_or_else(|| "nothing".to_owned(), found), &expected)])
    })
}

/// Returns the name of a view that an optional member `view` is.
pub(super) fn optional_view(value: Option<Raw>) -> Result<Option<String>, Problem> {
    let given = value.filter(|value| !value.is_null());
    given.map(|value| required_text(Some(&value), "view", MAX_NAME)).transpose()
}

/// Returns the integer that `value` is. JSON has many spellings of one, such as `1`, `1.0` and `1e0`.
pub(super) fn integer(value: &Raw) -> Option<i64> {
    /// Above it, a number of JSON may be another integer than the one that was meant.
    const LAST_EXACT: f64 = 9_007_199_254_740_991.0;
    let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= LAST_EXACT;
    // serde_json may read a float as its neighbor, which is not whole for large numbers.
    let float = || value.as_str().parse::<f64>().ok();
    #[allow(clippy::cast_possible_truncation)] // it is whole, and in range
    let read = || float().filter(whole).map(|number| number as i64);
    value.read().ok().or_else(read)
}

/// Returns the object that an optional member is.
pub(super) fn optional_object(value: Option<Raw>, field: &str) -> Result<Option<Raw>, Problem> {
    let given = value.filter(|value| !value.is_null());
    given
        .map(|value| object(&value))
        .transpose()
        .map_err(|(found, expected)| Problem::of_fields(vec![wrong(field, found, expected)]))
}

/// Requires the media type of JSON. A form of a foreign web page cannot send it, so it is a
/// protection from cross-site requests.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (first, second) = (types.next(), types.next());
    let is_usual = first.is_some_and(|value| value == "application/json") && second.is_none();
    if is_usual && !has_content_coding(headers) {
        return Ok(());
    }
    let text = first.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let suffixed = essence.strip_prefix("application/").is_some_and(|subtype| subtype.ends_with("+json"));
    let detail = match (first, second) {
        (None, _) => "the request has no content type".to_owned(),
        (_, Some(_)) => "the request has more than one content type".to_owned(),
        _ if essence != "application/json" && !suffixed => format!("the content type is {essence:?}"),
        _ if has_content_coding(headers) => {
            let detail = "encoded bodies are not accepted";
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, detail)
                .hinting("send the body as it is, without Content-Encoding"));
        }
        _ => return Ok(()),
    };
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
}

fn not_json(body: &Bytes, error: &serde_json::Error) -> Problem {
    let found =
        if body.is_empty() { "nothing".to_owned() } else { format!("text that is not JSON: {error}") };
    Problem::of_fields(vec![wrong("", found, "a JSON object")])
}

fn refusal(errors: Vec<FieldError>) -> Problem {
    let meant = errors.iter().find_map(|error| {
        let is_unknown = !MEMBERS.contains(&error.field.as_str());
        let near = if is_unknown { nearest(&error.field, MEMBERS.into_iter()) } else { None };
        near.map(|name| format!("did you mean {name:?}?"))
    });
    let problem = Problem::of_fields(errors);
    match meant {
        Some(hint) => problem.hinting(hint),
        None => problem,
    }
}

/// Returns the call that the members, in the order of [`MEMBERS`], ask for; adds an error for each invalid one.
fn call_request(
    [server, tool, arguments, timeout, view]: [Option<Raw>; 5],
    errors: &mut Vec<FieldError>,
) -> Option<CallRequest> {
    let given = |member: Option<Raw>| member.filter(|value| !value.is_null());
    let missing = || Err(("nothing".to_owned(), "the name of a tool"));
    let tool = noted(tool.as_ref().map_or_else(missing, name), "tool", errors);
    let server = given(server).and_then(|value| noted(name(&value), "server", errors));
    let arguments = given(arguments).and_then(|value| noted(object(&value), "arguments", errors));
    let view = given(view).and_then(|value| noted(name(&value), "view", errors));
    let timeout = given(timeout).and_then(|value| noted(seconds(&value), "timeout", errors));
    let arguments = arguments.unwrap_or_else(Raw::empty_object);
    Some(CallRequest { server, tool: tool?, arguments, timeout, view })
}

/// The value that was found, and a description of the expected one.
type Mismatch = (String, &'static str);

/// Returns the value of a member, or adds an error.
fn noted<T>(outcome: Result<T, Mismatch>, field: &str, errors: &mut Vec<FieldError>) -> Option<T> {
    outcome.map_err(|(found, expected)| report(errors, wrong(field, found, expected))).ok()
}

fn name(value: &Raw) -> Result<String, Mismatch> {
    let is_text = value.bytes().first() == Some(&b'"');
    match value.as_part().text() {
        Some(name) if name.is_empty() => Err(("an empty string".to_owned(), "a name")),
        Some(name) if name.len() > MAX_NAME => {
            Err((format!("a string of {} bytes", name.len()), "a name of at most 1024 bytes"))
        }
        Some(name) => Ok(name.into_owned()),
        None if is_text => Err(("a string that is not Unicode".to_owned(), "a string")),
        None => Err((found(value), "a string")),
    }
}

/// Servers differ in which of two equally named members they use, so neither is passed on.
fn object(value: &Raw) -> Result<Raw, Mismatch> {
    if !value.is_object() {
        return Err((found(value), "an object"));
    }
    if value.as_part().places().nth(MAX_MEMBERS).is_some() {
        return Err((format!("more than {MAX_MEMBERS} members"), "an object of at most 10,000 members"));
    }
    match value.duplicate_key() {
        Some(key) => {
            let key: String = key.chars().take(MAX_FOUND).collect();
            Err((format!("the member {key:?} twice"), "an object with each member once"))
        }
        None => Ok(value.clone()),
    }
}

fn seconds(value: &Raw) -> Result<Duration, Mismatch> {
    const EXPECTED: &str = "a number of seconds from 0.001 to 600";
    let is_number = matches!(value.bytes().first(), Some(b'-' | b'0'..=b'9'));
    // serde_json is not used here: it rejects `1e400`, which is a valid number that is only out of
    // range.
    let number =
        value.as_str().parse::<f64>().ok().filter(|number| is_number && (0.001..=600.0).contains(number));
    number.map(Duration::from_secs_f64).ok_or_else(|| (found(value), EXPECTED))
}

/// Describes a value in an error, with a few characters of its text at most.
fn found(value: &Raw) -> String {
    let text = value.as_str();
    let shown = match text.char_indices().nth(MAX_FOUND) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    match text.as_bytes().first() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b'"') => format!("the string {shown}"),
        Some(b't' | b'f' | b'n') => shown,
        _ => format!("the number {shown}"),
    }
}

fn wrong(field: &str, found: impl Into<String>, expected: &str) -> FieldError {
    FieldError { field: field.to_owned(), found: found.into(), expected: expected.to_owned() }
}

fn report(errors: &mut Vec<FieldError>, error: FieldError) {
    if errors.len() < MAX_ERRORS {
        errors.push(error);
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
