//! `docs/errors.md` is what the table of codes says; `UPDATE_GOLDEN=1` renews it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::fixture::Gateway;
use super::*;
use protocol::error_code::Surface;

/// The text above the table.
const INTRO: &str = r"<!-- Made from crates/protocol/src/error_code/table.rs. Renew it with UPDATE_GOLDEN=1. -->

# Error codes

Every error of Switchyard has a stable `code`. Programs decide by it; texts may change. A running gateway shows these codes
at `/docs/errors`, which needs no credential.

## Members of every error

Problem documents of the [REST API](rest-api.md) and `error.data` of JSON-RPC errors over [MCP](mcp-endpoint.md) have the
same members:

| member | meaning |
|---|---|
| `code` | the code, one of those below |
| `detail` | what happened in this case, for people |
| `hint` | what to do about it |
| `retryable` | whether the unchanged request can succeed later |
| `retry_after_ms` | milliseconds until that is worth it, where they are known |
| `request_id` | the HTTP request, as the header `x-request-id` and the log have it; not over stdio |
| `server`, `tool` | what it is about, where it is about one |

Some codes have further members, which their row names. A problem document also has `type`, `title` and `status`
(RFC 9457). `type` is a path on the gateway, `/docs/errors#` and the code. If another program
[nests the router](library.md), the page is below the prefix of that program.

A failed result of `POST /call` has `code`, `hint`, `retryable` and `request_id`. The specification of the REST API names
the other members: `error` for the text, `server_name` and `tool_name`.

## Other names that specifications demand

These names stay in `error.data`, beside the members above, because a specification promised them to clients. Problem
documents do not have them.

| name | where | the same as | promised by |
|---|---|---|---|
| `type` | every error | the kind of the error, see the table of codes | specifications of `r2r` and `rag` |
| `retry_after`, in seconds | every error with a time to wait | `retry_after_ms` | specification of `r2r` |
| `retry_after_seconds` | `type` `service_unavailable` and `connection_limit_exceeded` | `retry_after_ms`; 30 if the time is not known and a retry can succeed | specification of `rag` |
| `guidance` | `type` `service_unavailable` | `hint` | specification of `rag` |
| `suggestion`, with `field`, `rejected_value`, `valid_range` | an invalid parameter | `hint` | specification of `rag` |
| `error_id` | `internal_error` | `request_id` | specification of `rag` |
| `max_connections`, `current_connections` | `connection_limit_exceeded` | | specification of `rag` |
| `requiredCapabilities`, `supported`, `requested`, `uri` | their codes | | MCP |

Answers of the built-in servers' tools (`isError`) keep the names that their pages list, because a language model reads
them: [R2R](r2r.md), [Chroma](chroma.md), [RAG](rag.md), [handbook](handbook.md).

## Numbers of JSON-RPC errors

Revision 2026-07-28 reserves −32000 to −32099 for itself, so Switchyard has other numbers for its clients. A request that
is refused before its body is read gets −32600 with every code, because its revision is not known yet.

";

/// The text between the numbers and the codes.
const MIDDLE: &str = "\n`backend_error` has the numbers of `auth_failed` if the service answered 401 or 403. `invalid_answer` has those of\n\
    `backend_error` if the server answered with an HTTP status. `invalid_message` is −32700 for text that is not JSON,\n\
    else −32600.\n\n\
    ## All codes\n\n\
    The HTTP status is that of the REST API, and of the MCP endpoint if a request is refused before its method is called.\n\
    A JSON-RPC error of a method has status 200. Over 2026-07-28 `method_not_found` has 404, and `capability_missing`,\n\
    `header_mismatch`, `invalid_meta` and `unsupported_version` have 400.\n\n\
    | code | meaning and remedy | HTTP | JSON-RPC | `type` | retryable |\n|---|---|---|---|---|---|\n";

fn minus(number: &str) -> String {
    number.replace("-3", "−3")
}

fn kind(row: &Row) -> String {
    let kind = serde_json::to_string(&row.kind).expect("a word");
    kind.replace('"', "`")
}

/// Codes by their numbers, in the order in which the table first has them.
fn numbers() -> String {
    let mut by_number: BTreeMap<Numbers, Vec<String>> = BTreeMap::new();
    for row in TABLE.iter().filter(|row| row.surface != Surface::Rest) {
        if let Some([legacy, modern]) = row.numbers {
            by_number.entry([-legacy, -modern]).or_default().push(format!("`{}`", row.name));
        }
    }
    let mut text = "| up to 2025-11-25 | 2026-07-28 | codes |\n|---|---|---|\n".to_owned();
    for ([legacy, modern], codes) in by_number {
        writeln!(text, "| −{legacy} | −{modern} | {} |", codes.join(", ")).expect("a string");
    }
    text
}

fn markdown() -> String {
    let mut page = format!("{INTRO}{}{MIDDLE}", numbers());
    for row in TABLE {
        let number = row.numbers.filter(|_| row.surface != Surface::Rest);
        let number = number.map_or_else(|| "–".to_owned(), both);
        let kind = if number == "–" { number.clone() } else { kind(row) };
        let (name, status, retryable) = (row.name, row.status, retryable(row.retryable));
        let (meaning, remedy) = (row.meaning, sentence(row.action).replace('|', "\\|"));
        let texts = format!("{}. {meaning} Remedy: {remedy}", row.title).replace('<', "&lt;");
        let line = format!(
            "| <a id=\"{name}\"></a>`{name}` | {texts} | {status} | {number} | {kind} | {retryable} |"
        );
        writeln!(page, "{}", minus(&line)).expect("a string");
    }
    page
}

#[test]
fn the_committed_page_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = markdown();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &page).expect("it can be written");
    }
    let committed = std::fs::read_to_string(path).expect("it is committed");
    assert!(committed == page, "docs/errors.md is not what the table says: run with UPDATE_GOLDEN=1");
}

#[tokio::test]
async fn the_type_of_every_code_leads_to_its_part_of_a_page_that_is_served() {
    let served = Gateway::of(vec![]).await.get("/docs/errors").await;
    assert_eq!((served.status.as_u16(), served.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(served.header("content-security-policy").contains("default-src 'self'"));
    for row in TABLE {
        let reference = row.code.reference();
        let anchor = reference.strip_prefix("/docs/errors#").expect("on this page");
        assert!(served.text().contains(&format!("<h2 id=\"{anchor}\">")), "{anchor}");
    }
    assert!(!served.text().contains("<token>"), "texts are escaped");
}
