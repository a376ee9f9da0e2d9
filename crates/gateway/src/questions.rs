//! Converts server requests between the eras.
//!
//! Both eras have `sampling/createMessage`, `elicitation/create` and `roots/list` with the same
//! parameters, apart from the differences in this module. Source: `client/` and the schemas of
//! 2025-11-25 and 2026-07-28.

use uuid::Uuid;

use json::Raw;
use protocol::error::code;
use protocol::{ErrorObject, Version, method};

/// Error of a legacy server if the user must visit a page first (2025-11-25, `client/elicitation`).
pub(crate) const URL_ELICITATION_REQUIRED: i64 = -32042;
/// Limit of elicitations in one such error.
const MAX_ELICITATIONS: usize = 16;
/// A member of elicitations by URL that 2026-07-28 removed.
const ELICITATION_ID: &str = "elicitationId";
/// The capability to ask the user at the client.
const ELICITATION: &str = "elicitation";

/// Returns the capabilities of a legacy client of `version`, without server requests that its revision
/// lacks, so that servers do not send requests that would be refused.
pub(crate) fn declared(version: Version, capabilities: Raw) -> Raw {
    let has = |params: Option<&Raw>| version.has_question(method::ELICITATION_CREATE, params);
    if !has(None) {
        return capabilities.without(ELICITATION);
    }
    let by_url = Raw::empty_object().with("mode", &Raw::of("url"));
    match capabilities.get(ELICITATION) {
        Some(elicitation) if !has(Some(&by_url)) && elicitation.get("url").is_some() => {
            capabilities.with(ELICITATION, &elicitation.without("url"))
        }
        _ => capabilities,
    }
}

/// Converts the parameters of a modern server's request for a legacy client. In that era an elicitation
/// by URL needs an id.
pub(crate) fn for_legacy(version: Version, method: &str, params: Raw) -> Raw {
    let needs_id = method == method::ELICITATION_CREATE
        && !version.is_modern()
        && is_by_url(&params)
        && params.get(ELICITATION_ID).is_none();
    if needs_id { params.with(ELICITATION_ID, &Raw::of(&Uuid::new_v4().to_string())) } else { params }
}

/// Converts a legacy server's request to an entry of `inputRequests`.
pub(crate) fn for_modern(method: &str, params: Option<&Raw>) -> Raw {
    let params = params.map(|params| {
        if method == method::ELICITATION_CREATE { params.without(ELICITATION_ID) } else { params.clone() }
    });
    Raw::empty_object().edit(&[("method", Some(&Raw::of(method))), ("params", params.as_ref())])
}

/// Converts an error of a legacy server to requests to a modern client; none if it is another error or
/// names no page.
pub(crate) fn of_error(error: &ErrorObject) -> Option<Vec<Raw>> {
    if error.code() != URL_ELICITATION_REQUIRED {
        return None;
    }
    let elicitations = error.data()?.get("elicitations")?;
    let questions: Vec<Raw> = elicitations
        .elements()
        .take(MAX_ELICITATIONS)
        .filter(is_by_url)
        .map(|params| for_modern(method::ELICITATION_CREATE, Some(&params)))
        .collect();
    (!questions.is_empty()).then_some(questions)
}

/// The error for the server if the client did not declare the needed capability.
pub(crate) fn refusal(method: &str) -> ErrorObject {
    let shown: String = method.chars().take(64).collect();
    let text = format!("the client did not say that it can answer {shown:?}");
    ErrorObject::new(code::METHOD_NOT_FOUND, &text)
}

/// The client capabilities that a server request needs.
pub(crate) fn required(method: &str, params: Option<&Raw>) -> Raw {
    let one = |name: &str, value: &Raw| Raw::empty_object().with(name, value);
    let empty = Raw::empty_object();
    match method {
        method::ELICITATION_CREATE => {
            let mode = if params.is_some_and(is_by_url) { "url" } else { "form" };
            one("elicitation", &one(mode, &empty))
        }
        method::SAMPLING_CREATE_MESSAGE => {
            let brings_tools = params.is_some_and(|params| {
                ["tools", "toolChoice"]
                    .iter()
                    .any(|name| params.get(name).is_some_and(|value| !value.is_null()))
            });
            let needed = if brings_tools { one("tools", &empty) } else { empty };
            one("sampling", &needed)
        }
        method::ROOTS_LIST => one("roots", &empty),
        _ => empty,
    }
}

/// The client capabilities that an elicitation by URL needs.
pub(crate) fn required_by_url() -> Raw {
    required(method::ELICITATION_CREATE, Some(&Raw::empty_object().with("mode", &Raw::of("url"))))
}

fn is_by_url(params: &Raw) -> bool {
    params.get_as::<String>("mode").as_deref() == Some("url")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
    }

    #[test]
    fn a_client_declares_only_what_its_revision_has() {
        let both = r#"{"roots":{},"elicitation":{"form":{},"url":{}},"x":1.0}"#;
        for (version, left) in [
            (Version::V2024_11_05, r#"{"roots":{},"x":1.0}"#),
            (Version::V2025_03_26, r#"{"roots":{},"x":1.0}"#),
            (Version::V2025_06_18, r#"{"roots":{},"elicitation":{"form":{}},"x":1.0}"#),
            (Version::V2025_11_25, both),
        ] {
            assert_eq!(declared(version, raw(both)).as_str(), left, "{version}");
        }
        assert_eq!(
            declared(Version::V2025_06_18, raw(r#"{"elicitation":{}}"#)).as_str(),
            r#"{"elicitation":{}}"#
        );
    }

    #[test]
    fn only_elicitations_by_url_get_an_id_and_lose_it() {
        let by_url = raw(r#"{"mode":"url","url":"https://x","message":"m"}"#);
        let converted = for_legacy(Version::V2025_11_25, "elicitation/create", by_url.clone());
        let id: String = converted.get_as("elicitationId").expect("an id");
        assert_eq!(id.len(), 36);
        assert_eq!(
            for_modern("elicitation/create", Some(&converted)).as_str(),
            r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}"#
        );
        let form = raw(r#"{"mode":"form","message":"m","requestedSchema":{"x":1e400}}"#);
        assert_eq!(for_legacy(Version::V2025_06_18, "elicitation/create", form.clone()), form);
        assert_eq!(for_modern("roots/list", None).as_str(), r#"{"method":"roots/list"}"#);
    }

    #[test]
    fn a_page_to_visit_first_is_a_question() {
        let error = |text: &str| ErrorObject::from_raw(raw(text)).expect("an error");
        let requested = of_error(&error(
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"go"},{"mode":"form"}]}}"#,
        ));
        let requested: Vec<_> =
            requested.expect("questions").iter().map(|question| question.as_str().to_owned()).collect();
        assert_eq!(
            requested,
            [r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"go"}}"#]
        );
        for text in [
            r#"{"code":-32041,"message":"m","data":{"elicitations":[{"mode":"url"}]}}"#,
            r#"{"code":-32042,"message":"m"}"#,
            r#"{"code":-32042,"message":"m","data":{"elicitations":{"mode":"url"}}}"#,
        ] {
            assert!(of_error(&error(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn each_question_names_its_capability() {
        for (method, params, expected) in [
            ("roots/list", "{}", r#"{"roots":{}}"#),
            ("sampling/createMessage", r#"{"tools":null}"#, r#"{"sampling":{}}"#),
            ("sampling/createMessage", r#"{"tools":[]}"#, r#"{"sampling":{"tools":{}}}"#),
            ("elicitation/create", r#"{"message":"m"}"#, r#"{"elicitation":{"form":{}}}"#),
            ("elicitation/create", r#"{"mode":"url"}"#, r#"{"elicitation":{"url":{}}}"#),
            ("else", "{}", "{}"),
        ] {
            assert_eq!(required(method, Some(&raw(params))).as_str(), expected);
        }
    }
}
