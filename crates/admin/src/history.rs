//! `/history`: the last calls of tools, in pages.
//!
//! Invariant: a cursor is the number of the last call of its page. It is not sealed, because each page has only calls that
//! its reader may see, whatever the cursor is.
//!
//! Not here: keeping and finding calls (`gateway::manager::history`).

use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::{IntoParams, ToSchema};

use super::event_data::CallEnded;
use super::openapi::HistoryProblems;
use super::parameters::{Parameters, page_size, parameters};
use super::problem::Problem;
use super::{Api, json_bytes};
use auth::Principal;
use gateway::manager::history::{CallPage, Filter, OUTCOMES};
use protocol::ErrorCode;

/// The parameters that there are.
const HINT: &str = "the parameters are `server`, `tool`, `principal`, `outcome`, `failed`, `since`, `until`, `limit` and `cursor`";

/// The longest text of a parameter, in bytes.
const MAX_TEXT: usize = 256;
/// The outcomes that `failed` chooses.
const FAILED: [&str; 3] = ["tool_error", "rpc_error", "failed"];
/// Before the number in a cursor.
const CURSOR: &str = "h1-";

/// Which calls are returned.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Only calls to this server.
    #[param(nullable = false, max_length = 256, example = "issues")]
    server: Option<String>,
    /// Only calls of this tool, by its name at its server.
    #[param(nullable = false, max_length = 256)]
    tool: Option<String>,
    /// Only calls by this principal.
    #[param(nullable = false, max_length = 256, example = "key:ci")]
    principal: Option<String>,
    /// Only calls that ended so, separated by commas: `ok`, `tool_error`, `rpc_error`, `failed` or `cancelled`.
    #[param(nullable = false, max_length = 256)]
    outcome: Option<String>,
    /// `true`: only calls with the outcomes `tool_error`, `rpc_error` and `failed`.
    #[param(nullable = false)]
    failed: Option<bool>,
    /// Only calls that ended since then: a date (RFC 3339), or how long ago, as a number with `s`, `m`, `h` or `d`.
    #[param(nullable = false, max_length = 256, example = "1h")]
    since: Option<String>,
    /// Only calls that ended before then, in the same forms.
    #[param(nullable = false, max_length = 256, example = "2026-11-20T12:00:00Z")]
    until: Option<String>,
    /// The most calls of the answer, 100 without it.
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before, with the same other parameters.
    #[param(nullable = false, max_length = 256)]
    cursor: Option<String>,
}

/// Some of the last calls.
#[derive(Serialize, ToSchema)]
#[allow(dead_code)] // describes what `printed` prints
struct CallHistory {
    /// The calls, the newest first.
    calls: Vec<PastCall>,
    /// The `cursor` of the next page, which may exist although this one has fewer calls than `limit`. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A call that ended.
#[derive(Serialize, ToSchema)]
#[allow(dead_code)] // describes the text that the history keeps
struct PastCall {
    /// Its number in the history. Later calls have larger numbers, also after a restart.
    #[schema(minimum = 1)]
    id: u64,
    #[serde(flatten)]
    call: CallEnded,
}

/// List past calls
///
/// The last calls of tools, the newest first, also of times when nobody watched and before a restart. Needs the role
/// *reader*. Only a *superuser* gets the calls of others; everybody else gets its own.
#[utoipa::path(
    get, path = "/history", tag = "gateway", operation_id = "list_past_calls", params(HistoryQuery),
    responses((status = 200, description = "Calls", body = CallHistory), HistoryProblems)
)]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    query: Parameters<HistoryQuery>,
) -> Result<Response, Problem> {
    let query = parameters(query, HINT)?;
    let limit = page_size(query.limit).map_err(wrong)?;
    let before = query.cursor.as_deref().map(number).transpose()?;
    let filter = query.filter(SystemTime::now())?;
    let history = api.manager.history();
    if !history.is_on() {
        return Err(Problem::new(ErrorCode::NotFound, "this gateway keeps no history of calls")
            .hinting("set `calls` under `history:` in the configuration file"));
    }
    let page = history.search(principal, filter, before, limit).await;
    Ok(json_bytes(printed(&page).into()))
}

impl HistoryQuery {
    fn filter(self, now: SystemTime) -> Result<Filter, Problem> {
        let outcomes: Vec<String> = match (&self.outcome, self.failed) {
            (Some(_), Some(true)) => return Err(wrong("`outcome` and `failed` exclude each other")),
            (None, Some(true)) => FAILED.map(str::to_owned).into(),
            (outcome, _) => {
                let words = outcome.iter().flat_map(|words| words.split(','));
                words.map(|word| word.trim().to_owned()).collect()
            }
        };
        if let Some(word) = outcomes.iter().find(|word| !OUTCOMES.contains(&word.as_str())) {
            let text = format!("`outcome` has `{word}`, which is none of {}", OUTCOMES.join(", "));
            return Err(wrong(text));
        }
        let texts = [&self.server, &self.tool, &self.principal];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TEXT) {
            return Err(wrong("a parameter is longer than 256 bytes"));
        }
        let time =
            |name, text: &Option<String>| text.as_deref().map(|text| time(name, text, now)).transpose();
        let (since, until) = (time("since", &self.since)?, time("until", &self.until)?);
        let Self { server, tool, principal, .. } = self;
        Ok(Filter { server, tool, principal, outcomes, since, until })
    }
}

/// Reads the time of the parameter `name`.
fn time(name: &str, text: &str, now: SystemTime) -> Result<SystemTime, Problem> {
    let ago = || {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        let ago = number.parse::<u64>().ok()?.checked_mul(seconds)?;
        // Before the epoch, there were no calls.
        let then = now.checked_sub(Duration::from_secs(ago)).unwrap_or(SystemTime::UNIX_EPOCH);
        Some(then.max(SystemTime::UNIX_EPOCH))
    };
    let date = || OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from);
    ago().or_else(date).ok_or_else(|| {
        wrong(format!("`{name}` is not a time"))
            .hinting("write a date such as 2026-11-20T12:00:00Z, or how long ago such as 15m, 1h or 2d")
    })
}

/// Reads the number in a cursor.
fn number(cursor: &str) -> Result<u64, Problem> {
    let digits = cursor.strip_prefix(CURSOR).filter(|digits| digits.len() == 16);
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        wrong("`cursor` is not one that this list has returned").hinting("begin again without `cursor`")
    })
}

fn printed(page: &CallPage) -> Vec<u8> {
    let size: usize = page.calls.iter().map(|call| call.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 64);
    text.extend_from_slice(b"{\"calls\":[");
    for (at, call) in page.calls.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(call);
    }
    text.push(b']');
    if let Some(next) = page.next {
        text.extend_from_slice(format!(",\"next_cursor\":\"{CURSOR}{next:016x}\"").as_bytes());
    }
    text.push(b'}');
    text
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, detail).hinting(HINT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::{Gateway, server};
    use super::*;
    use protocol::ErrorCode::InvalidRequest;

    #[test]
    fn times_are_dates_or_how_long_ago() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let seconds = |text| {
            let time = time("since", text, now).map_err(|problem| problem.code());
            time.map(|time| time.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs())
        };
        for (text, expected) in [
            ("10s", 999_990),
            ("15m", 999_100),
            ("1h", 996_400),
            ("2d", 827_200),
            ("0s", 1_000_000),
            ("90000000d", 0),
            ("1970-01-01T00:00:07Z", 7),
            ("1970-01-01T02:00:07+02:00", 7),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in
            ["", "h", "1", "-1h", "1.5h", "1 h", "1w", "h1", "99999999999999999999s", "yesterday", "é"]
        {
            assert_eq!(seconds(text), Err(InvalidRequest), "{text}");
        }
    }

    #[tokio::test]
    async fn history_has_the_calls_in_pages_and_names_each_mistake() {
        let gateway = Gateway::of(vec![server("docs")]).await;
        for _ in 0..5 {
            gateway.call(&json!({"tool": "echo", "arguments": {}}).to_string()).await;
        }
        let get = async |query: &str| {
            let path = format!("/api/v1/mcp/history{query}");
            let request = super::super::fixture::request(
                axum::http::Method::GET,
                &path,
                Some(auth::Role::Superuser),
                "",
            );
            gateway.ask(request).await
        };
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&format!("?limit=2{cursor}")).await.json();
            let calls = page["calls"].as_array().expect("a list").clone();
            assert!(calls.iter().all(|call| call["tool"] == "echo" && call["outcome"] == "ok"), "{page}");
            seen.extend(calls.iter().map(|call| call["id"].as_u64().expect("a number")));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert!(seen.len() == 5 && seen.is_sorted_by(|one, next| one > next), "{seen:?}");
        for (query, text) in [
            ("?cursor=x", "`cursor`"),
            ("?cursor=h1-zz00000000000000", "`cursor`"),
            ("?limit=0", "`limit`"),
            ("?limit=1001", "`limit`"),
            ("?limit=x", "limit"),
            ("?since=yesterday", "`since`"),
            ("?until=1w", "`until`"),
            ("?outcome=ok,broken", "`broken`"),
            ("?outcome=ok&failed=true", "`failed`"),
            ("?other=1", "other"),
        ] {
            let refused = get(query).await;
            assert_eq!(refused.status, 400, "{query}");
            assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains(text)), "{query}");
        }
        for (query, count) in [
            ("?server=docs&tool=echo&since=1h&failed=false", 5),
            ("?failed=true", 0),
            ("?outcome=ok,%20failed", 5),
            ("?until=1h", 0),
            ("?principal=nobody", 0),
            ("?server=other", 0),
        ] {
            assert_eq!(get(query).await.json()["calls"].as_array().map(Vec::len), Some(count), "{query}");
        }
    }
}
