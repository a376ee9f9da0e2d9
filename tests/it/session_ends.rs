//! The end of a session at a server: the calls that run in it are cancelled there first, however it ends.

use serde_json::{Value, json};

use crate::support::client::Session;
use crate::support::scripted::{Act, ReceivedRequest, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// Calls that run in the session when it ends: more than cancellations are sent at a time.
const CALLS: usize = 40;

/// How a session ends.
#[derive(Debug, Clone, Copy)]
enum End {
    ClientDeletesIt,
    OperatorReconnects,
    ProgramEnds,
}

/// How often each call in `seen` was cancelled. The check of a connection whose calls hang may be cancelled too.
fn cancellations(seen: &[ReceivedRequest]) -> Vec<usize> {
    let with = |method| seen.iter().filter(move |seen| seen.rpc_method.as_deref() == Some(method));
    let read = |seen: &ReceivedRequest| serde_json::from_str::<Value>(&seen.body).expect("a message");
    let ends: Vec<_> =
        with("notifications/cancelled").map(|seen| read(seen)["params"]["requestId"].clone()).collect();
    with("tools/call").map(|call| ends.iter().filter(|id| **id == read(call)["id"]).count()).collect()
}

/// Begins calls in `session` that nobody waits for.
async fn begin_calls(session: &Session, server: &Server) {
    for number in 1..=CALLS {
        let text = session.client.envelope("tools/call", r#"{"name":"hang"}"#);
        let stream = [("accept", "text/event-stream, application/json;q=0.1")];
        drop(session.client.post_stream(&text, &stream).await);
        eventually("the call runs", async || (server.runs("hang") == number).then_some(())).await;
    }
}

async fn end(how: End, gateway: Running, session: &Session) -> Option<Running> {
    match how {
        End::ClientDeletesIt => assert_eq!(session.delete().await.status, 204),
        End::OperatorReconnects => _ = gateway.post("/servers/one/reconnect", "").await,
        End::ProgramEnds => {
            assert!(gateway.stop().await.success());
            return None;
        }
    }
    Some(gateway)
}

#[tokio::test]
async fn calls_are_cancelled_before_their_session_ends_at_the_server() {
    for how in [End::ClientDeletesIt, End::OperatorReconnects, End::ProgramEnds] {
        let server = Scripted::legacy().tool(Tool::named("hang").does(Act::Hang)).start();
        let registry = Registry::new().http("one", &server.url()).setting("server: {drain_timeout: 0}");
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["hang"]).await;
        let session = gateway.mcp().legacy().await;
        begin_calls(&session, &server).await;
        let calls = server.seen_calling("tools/call");
        let id = calls[0].header("mcp-session-id").expect("a session");
        assert!(calls.iter().all(|call| call.header("mcp-session-id") == Some(id)));
        let _gateway = end(how, gateway, &session).await;
        let in_session = eventually(&format!("{how:?} ends it"), async || {
            let seen = server.seen().into_iter().filter(|seen| seen.header("mcp-session-id") == Some(id));
            let seen: Vec<_> = seen.collect();
            seen.iter().any(|seen| seen.http_method == "DELETE").then_some(seen)
        })
        .await;
        assert_eq!(cancellations(&in_session), [1; CALLS], "{how:?}");
        let last = in_session.last().expect("requests");
        assert_eq!(last.http_method, "DELETE", "{how:?}: the end comes last");
    }
}

#[tokio::test]
async fn calls_of_a_stream_are_cancelled_before_it_is_closed() {
    for how in [End::ClientDeletesIt, End::OperatorReconnects, End::ProgramEnds] {
        let server = Scripted::sse().tool(Tool::named("hang").does(Act::Hang)).start();
        let registry = Registry::new().sse("one", &server.url()).setting("server: {drain_timeout: 0}");
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["hang"]).await;
        let session = gateway.mcp().legacy().await;
        begin_calls(&session, &server).await;
        let _gateway = end(how, gateway, &session).await;
        let cancelled = || cancellations(&server.seen());
        let all = async || (cancelled().iter().sum::<usize>() >= CALLS).then_some(());
        eventually(&format!("{how:?} cancels them"), all).await;
        assert_eq!(cancelled(), [1; CALLS], "{how:?}");
    }
}

#[tokio::test]
async fn calls_of_a_client_that_leaves_its_stream_are_cancelled_before_its_session_ends() {
    let server = Scripted::legacy().tool(Tool::named("hang").does(Act::Hang)).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["hang"]).await;
    let client = gateway.mcp();
    let mut stream = client.to(&gateway.url("/sse")).listen().await;
    let address = stream.event().await.expect("the first event").data;
    let messages = client.to(&gateway.url(&address));
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"}});
    for (method, params) in [("initialize", hello.to_string()), ("tools/call", r#"{"name":"hang"}"#.into())] {
        assert_eq!(messages.post(&messages.envelope(method, &params), &[]).await.status, 202);
    }
    eventually("the call runs", async || (server.runs("hang") == 1).then_some(())).await;
    drop(stream);
    let ends = eventually("the session ends", async || {
        let seen = server.seen();
        let found = |seen: &&crate::support::scripted::ReceivedRequest| seen.http_method == "DELETE";
        seen.iter().find(found)?;
        Some(seen.iter().filter_map(|seen| seen.rpc_method.clone()).collect::<Vec<_>>())
    })
    .await;
    assert!(ends.contains(&"notifications/cancelled".to_owned()), "{ends:?}");
}
