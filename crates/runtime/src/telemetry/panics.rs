//! Panics of Switchyard as log lines: the source location, and the request that the panic ended.
//!
//! ```text
//! panic ─▶ hook: counted, the line "panicked" ─▶ unwinds ─▶ caught: the line "a request panicked", with its id
//! ```
//!
//! The hook does not know the request, because recording it before each piece of work would slow down every call. The
//! hook therefore leaves the panic on the thread, and the code that catches the panic there logs it with the request.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use super::limit;
use super::{RequestId, untrusted, untrusted_if_any};

/// The reason and the location of a panic.
#[derive(Debug, Default)]
struct PanicReport {
    reason: String,
    at: String,
}

thread_local! {
    /// The last panic of this thread that no request has logged.
    static LAST: RefCell<Option<PanicReport>> = const { RefCell::new(None) };
}

/// Counts and logs a panic. The default hook would print several lines that are not JSON.
pub(super) fn hook(panic: &PanicHookInfo<'_>) {
    limit::panicked();
    let reason = panic.payload_as_str().unwrap_or("not a text");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(reason = %untrusted(reason), at, "panicked");
    // A thread that is ending no longer has the variable, and nothing would read it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(PanicReport { reason: untrusted(reason).to_string(), at });
        }
    });
}

/// Logs that the request `id` ended in a panic, which was caught on this thread just now. `method` is that of its
/// message, if one was read.
pub fn caught(id: RequestId, method: Option<&str>) {
    let fault = LAST.with(|last| last.try_borrow_mut().ok().and_then(|mut last| last.take()));
    let PanicReport { reason, at } = fault.unwrap_or_default();
    let method = untrusted_if_any(method);
    tracing::error!(request_id = %id, method, reason, at, "a request panicked");
}

#[cfg(test)]
mod tests {
    use super::super::sink::Sink;
    use super::*;

    #[test]
    fn a_panic_is_counted_and_its_request_has_a_line_that_says_where() {
        let (sink, id) = (Sink::default(), RequestId::new());
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).json().flatten_event(true);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(hook));
        let before = limit::panics();
        tracing::subscriber::with_default(lines.finish(), || {
            let ended = std::panic::catch_unwind(|| panic!("on\npurpose"));
            assert!(ended.is_err());
            caught(id, Some("tools/call"));
            // The fault of one request is not logged for another one.
            caught(id, None);
        });
        std::panic::set_hook(usual);
        assert_eq!(limit::panics(), before + 1);
        let written = sink.text();
        let lines: Vec<serde_json::Value> =
            written.lines().map(|line| serde_json::from_str(line).expect("one object")).collect();
        let [fault, request, other] = lines.as_slice() else { panic!("{written}") };
        assert_eq!((&fault["message"], &fault["level"]), (&"panicked".into(), &"ERROR".into()));
        assert_eq!(fault["reason"], "on\\npurpose");
        assert_eq!(request["message"], "a request panicked");
        assert_eq!(request["request_id"], id.to_string());
        assert_eq!((&request["reason"], &request["at"]), (&fault["reason"], &fault["at"]));
        assert_eq!(request["method"], "tools/call");
        assert_eq!(other["reason"], "");
    }
}
