//! Log messages of servers: the levels that a client wants.
//!
//! A legacy session sets its level once with `logging/setLevel`, which is stored with the session
//! and answered here. A connection to a server is shared, so its level follows the needs of its
//! callers, and each client gets the messages of its own level. A modern client sets the level in
//! each request. Source: `server/utilities/logging` of each revision.

use super::caller::Caller;
use crate::manager::Manager;
use crate::params;
use json::Raw;
use protocol::{ErrorObject, LogLevel, Reply, meta};

/// Handles `logging/setLevel`.
pub(super) async fn set_level(manager: &Manager, caller: &Caller, params: Option<&Raw>) -> Reply {
    let level = noted(caller, params)?;
    manager.want_log(&caller.scope, &caller.affinity, level).await;
    Ok(Raw::empty_object())
}

/// Returns the level that a legacy client requests, and stores it in its session.
fn noted(caller: &Caller, params: Option<&Raw>) -> Result<LogLevel, ErrorObject> {
    let found = params.and_then(|params| params.get("level"));
    let name = found.as_ref().and_then(|level| level.read::<String>().ok());
    let level = name.as_deref().and_then(LogLevel::from_name);
    let level = level.ok_or_else(|| unknown("level", found.as_ref()))?;
    if let Some(mailbox) = &caller.mailbox {
        mailbox.set_log_level(level);
    }
    Ok(level)
}

/// Refuses a modern request with an invalid level. Legacy requests have no level.
pub(super) fn check(caller: &Caller, params: Option<&Raw>) -> Result<(), ErrorObject> {
    if !caller.names_no_level {
        return Ok(());
    }
    let found = params.and_then(|params| params.get("_meta")?.get(meta::LOG_LEVEL));
    Err(unknown(&format!("_meta[\"{}\"]", meta::LOG_LEVEL), found.as_ref()))
}

fn unknown(member: &str, found: Option<&Raw>) -> ErrorObject {
    let valid = format!("one of {}", LogLevel::ALL.map(LogLevel::as_str).join(", "));
    params::bad(&format!("params.{member} must be {valid}"), member, found, &valid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::era;
    use crate::manager::Scope;
    use auth::Principal;
    use protocol::error::code;
    use protocol::{Notification, method};

    fn legacy() -> Caller {
        Caller::legacy(Principal::anonymous(), Scope::ALL, None)
    }

    fn modern(meta: &serde_json::Value) -> (Caller, Raw) {
        let params = Raw::of(&json!({ "_meta": meta }));
        (Caller::modern(Principal::anonymous(), Scope::ALL, Some(&params)), params)
    }

    /// Returns the levels that reach the caller; the last one is that of a message without a level.
    fn heard(caller: &Caller) -> String {
        let passes = |level: Option<LogLevel>| {
            let params = level.map_or(json!({}), |level| json!({"level": level.as_str()}));
            let line = Notification { method: method::LOG_MESSAGE.into(), params: Some(Raw::of(&params)) };
            if era::notice(caller, line, None).is_some() { 'x' } else { '-' }
        };
        LogLevel::ALL.into_iter().map(Some).chain([None]).map(passes).collect()
    }

    #[test]
    fn a_session_gets_what_it_asked_for_from_then_on() {
        let caller = legacy();
        assert_eq!(heard(&caller), "xxxxxxxxx", "that is for the server to decide");
        let set = |level: &str| noted(&caller, Some(&Raw::of(&json!({ "level": level }))));
        assert_eq!(set("warning"), Ok(LogLevel::Warning));
        assert_eq!(heard(&caller), "---xxxxxx");
        for level in ["Warning", "warn", ""] {
            assert_eq!(set(level).expect_err("no level").code(), code::INVALID_PARAMS);
        }
        assert!(
            noted(&caller, None).is_err() && noted(&caller, Some(&Raw::of(&json!({"level": 3})))).is_err()
        );
        assert_eq!(
            (heard(&caller), caller.sender().log_level),
            ("---xxxxxx".into(), Some(LogLevel::Warning))
        );
        assert_eq!(set("debug"), Ok(LogLevel::Debug));
        assert_eq!(heard(&caller), "xxxxxxxxx");
    }

    #[test]
    fn a_modern_request_gets_what_it_names_and_nothing_without_a_level() {
        let (caller, params) = modern(&json!({}));
        assert_eq!((heard(&caller), check(&caller, Some(&params))), ("---------".into(), Ok(())));
        let (caller, params) = modern(&json!({meta::LOG_LEVEL: "error"}));
        assert_eq!((heard(&caller), check(&caller, Some(&params))), ("----xxxxx".into(), Ok(())));
        for odd in [json!("loud"), json!(3), json!(null)] {
            let (caller, params) = modern(&json!({ meta::LOG_LEVEL: odd }));
            assert_eq!(check(&caller, Some(&params)).expect_err("no level").code(), code::INVALID_PARAMS);
            assert_eq!(check(&legacy(), Some(&params)), Ok(()), "that wire has no such member");
        }
    }
}
