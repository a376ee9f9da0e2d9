//! Repeats a call whose headers a modern server refused, with the headers of its new tool list.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`. If the headers and the body of a request disagree,
//! the server answers −32020 and runs nothing. The usual cause is a tool that has changed its header
//! parameters.
//!
//! Invariants: a call is repeated at most once, and only if the new list requires other headers. If the
//! refusal is returned to the client, the list was read again before. So the next list of the client is
//! current.
//!
//! Not here: reading the list. The transport has already requested it from the supervisor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, timeout, timeout_at};

use super::snapshot::Server;
use super::{Manager, RoutedRequest, Snapshot};
use protocol::error::code;
use protocol::headers::HeaderParam;
use protocol::{ErrorCode, Problem};
use upstream::{ForwardedHeaders, MAX_FORWARDED_BYTES, Offer, ResponseBody, ServerResponse};

/// How long to wait for a new list. After this time the refusal is returned.
const LIST_WAIT: Duration = Duration::from_secs(5);
/// How often to see whether the list was read again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether the response refuses the headers of a tool call. In older revisions the code may mean anything.
pub(super) fn are_refused(
    request: &RoutedRequest,
    ServerResponse { body, version }: &ServerResponse,
) -> bool {
    let ResponseBody::Buffered(Err(refusal)) = body else { return false };
    refusal.code() == code::HEADER_MISMATCH && version.is_modern() && request.tool().is_some()
}

impl Manager {
    /// Returns the header parameters of `request` in the next list of its server. Returns none if they are
    /// unchanged, or if no list arrives in time.
    pub(super) async fn other_headers(
        &self,
        request: &RoutedRequest,
        deadline: Instant,
    ) -> Option<Arc<[HeaderParam]>> {
        let (mut changes, mut first) = (self.changes(), None);
        let listed = async {
            loop {
                changes.mark_unchanged();
                let snapshot = self.seen_by(request.call.affinity.as_ref());
                let server = snapshot.server(request.server_name()).ok()?;
                let params = current_params(server, request)?;
                if params != request.call.header_params {
                    return Some(params);
                }
                // A list that was read again without a change publishes nothing.
                let read = server.upstream.offer();
                let before = first.get_or_insert_with(|| read.clone());
                let is_same = |one: &Arc<Offer>, other: &Arc<Offer>| Arc::ptr_eq(one, other);
                let is_reread = !read.iter().zip(before.iter()).all(|(read, before)| is_same(read, before));
                if is_reread && server.offer == read {
                    return None;
                }
                let _ = timeout(POLL_INTERVAL, changes.changed()).await;
            }
        };
        timeout_at(deadline.min(Instant::now() + LIST_WAIT), listed).await.ok().flatten()
    }
}

/// Returns the header parameters in the current list, or none if the tool is gone.
fn current_params(server: &Server, request: &RoutedRequest) -> Option<Arc<[HeaderParam]>> {
    let mut tools = server.catalog.all_tools().iter();
    let found = tools.find(|entry| entry.route.subject == request.subject)?;
    Some(Arc::clone(&found.route.header_params))
}

// The headers of a client's request that some server gets (`forward_headers`).

impl Snapshot {
    /// Whether a server gets headers of clients.
    pub(super) fn forwards_headers(&self) -> bool {
        self.servers().iter().any(|server| !server.upstream.config().forwarded_headers().is_empty())
    }
}

impl Manager {
    /// Returns the headers of a request with `headers` that its calls carry on. For most configurations one comparison
    /// decides.
    pub fn forwarded(&self, headers: &HeaderMap) -> Result<Option<ForwardedHeaders>, Box<Problem>> {
        if !self.published.forwards_headers.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let snapshot = self.snapshot();
        let servers = snapshot.servers().iter();
        let names = servers.flat_map(|server| server.upstream.config().forwarded_headers());
        ForwardedHeaders::of(headers, names).map_err(|_| {
            let text =
                format!("the headers that servers get of clients have more than {MAX_FORWARDED_BYTES} bytes");
            Box::new(Problem::new(ErrorCode::HeadersTooLarge, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manager::config::Config;
    use crate::manager::{CallResponse, Scope};
    use json::Raw;
    use protocol::{ErrorObject, Version, method};
    use runtime::shutdown::Shutdown;
    use upstream::fake::{self, Answer, Fake};

    /// Connects to a server whose tool list first names the header `Before`.
    async fn scene(server: &Fake) -> Arc<Manager> {
        let config = Config::of(vec![fake::config("s")]);
        list(server, "Before", "Before");
        let manager = Manager::with_connectors(config, vec![server.connector()], Shutdown::new());
        manager.settled(&Scope::ALL, LIST_WAIT).await;
        manager
    }

    /// Lists a tool with the header parameter `listed`, which accepts calls with `current_params` only.
    fn list(server: &Fake, listed: &'static str, params: &'static str) {
        let own = server.clone();
        server.answer(move |call| match call.method.as_str() {
            method::TOOLS_LIST => {
                let schema = json!({"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": listed}}});
                Some(Answer::result(&json!({"tools": [{"name": "echo", "inputSchema": schema}]})))
            }
            method::TOOLS_CALL => {
                let own = own.clone();
                Some(Answer::work(move |call, _| {
                    let agrees = call.header_params.iter().any(|param| param.header == params);
                    if !agrees {
                        // The transport reports this too.
                        own.say_changed();
                    }
                    let refusal = ErrorObject::new(code::HEADER_MISMATCH, "no such header");
                    std::future::ready(if agrees { Ok(Raw::empty_object()) } else { Err(refusal) })
                }))
            }
            _ => None,
        });
    }

    async fn called(manager: &Manager) -> CallResponse {
        manager.call_tool("s", "echo", &Raw::of(&json!({"where": "eu"})), None).await.expect("an answer")
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_goes_out_once_more_with_the_headers_of_the_new_list() {
        let server = Fake::new(Version::V2026_07_28);
        let manager = scene(&server).await;
        assert!(called(&manager).await.reply.is_ok());
        list(&server, "After", "After");
        assert!(called(&manager).await.reply.is_ok());
        assert_eq!(server.executed(method::TOOLS_CALL), 3, "one of them was refused");
        assert!(called(&manager).await.reply.is_ok());
        assert_eq!(server.executed(method::TOOLS_CALL), 4, "and now it is known");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_no_new_list_explains_is_passed_on_after_it() {
        let server = Fake::new(Version::V2026_07_28);
        let manager = scene(&server).await;
        list(&server, "Before", "Other");
        let lists = server.executed(method::TOOLS_LIST);
        let started = Instant::now();
        assert_eq!(called(&manager).await.reply.expect_err("refused").code(), code::HEADER_MISMATCH);
        assert_eq!(
            (server.executed(method::TOOLS_CALL), server.executed(method::TOOLS_LIST)),
            (1, lists + 1)
        );
        assert!(started.elapsed() < LIST_WAIT, "as soon as it is there: {:?}", started.elapsed());

        // The result of the second call is final.
        list(&server, "After", "Other");
        assert_eq!(called(&manager).await.reply.expect_err("refused").code(), code::HEADER_MISMATCH);
        assert_eq!(server.executed(method::TOOLS_CALL), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_come_is_not_waited_for_for_long() {
        let server = Fake::new(Version::V2026_07_28);
        let manager = scene(&server).await;
        server.answer(|call| match call.method.as_str() {
            method::TOOLS_CALL => {
                Some(Answer::Reply(Err(ErrorObject::new(code::HEADER_MISMATCH, "no such header"))))
            }
            _ => Some(Answer::Silence),
        });
        let started = Instant::now();
        assert_eq!(called(&manager).await.reply.expect_err("refused").code(), code::HEADER_MISMATCH);
        assert_eq!(server.executed(method::TOOLS_CALL), 1);
        assert!((LIST_WAIT..LIST_WAIT * 2).contains(&started.elapsed()), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_code_of_an_older_server_is_its_own() {
        let server = Fake::new(Version::V2025_11_25);
        let manager = scene(&server).await;
        list(&server, "After", "Other");
        assert_eq!(called(&manager).await.reply.expect_err("its own").code(), code::HEADER_MISMATCH);
        assert_eq!(server.executed(method::TOOLS_CALL), 1);
    }
}
