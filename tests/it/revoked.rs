//! Revocation by a reload: streams, sessions and calls of the revoked credential end, and those of others
//! continue.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::client::{Session, Stream};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

const GOES: &str = "swy_goes_0123456789abcdef0123456789abcdef0123456789abcdef";
/// `Accept` of a client that prefers a stream.
const STREAM_FIRST: &str = "text/event-stream, application/json;q=0.1";
const STAYS: &str = "swy_stays_fedcba9876543210fedcba9876543210fedcba9876543210";

/// Returns a configuration file with `servers`, and with `keys` and their roles.
fn registry(servers: &[(&str, &Server)], keys: &[(&str, &str)]) -> Registry {
    let roles: Vec<String> = keys.iter().map(|(_, role)| format!("role: {role}")).collect();
    let keys: Vec<_> = keys.iter().zip(&roles).map(|((key, _), role)| (*key, role.as_str())).collect();
    let all = servers.iter().fold(Registry::new(), |all, (name, server)| all.http(name, &server.url()));
    all.setting(&format!("server: {{{}}}", api_keys(&keys)))
}

pub fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

fn client_of(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &bearer(key))
}

/// Everything that a client keeps open.
pub struct Open {
    modern: Stream,
    session: Session,
    legacy: Stream,
    old: Stream,
    /// Posts messages of the old transport.
    messages: Client,
}

impl Open {
    pub async fn of(gateway: &Running, key: &str) -> Self {
        let client = client_of(gateway, key);
        let what = json!({"notifications": {"toolsListChanged": true}});
        let mut modern = client.modern_stream("subscriptions/listen", &what).await;
        let first = modern.next().await.expect("an acknowledgement");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        let session = client.legacy().await;
        let legacy = session.client.listen().await;
        let mut old = client.to(&gateway.url("/sse")).listen().await;
        let address = old.event().await.expect("the first event").data;
        let messages = client.to(&gateway.url(&address));
        Self { modern, session, legacy, old, messages }
    }

    /// Returns the status of the next request in each of its sessions.
    pub async fn next_requests(&self) -> [u16; 2] {
        let ping = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
        let in_session = self.session.request("ping", json!({})).await.status;
        [in_session, self.messages.post(ping, &[]).await.status]
    }

    /// Checks that its streams end, each as its kind of stream ends.
    pub async fn ends(&mut self) {
        let last = self.modern.next().await.expect("an answer");
        assert_eq!(last["error"]["data"]["code"], "unauthorized", "{last}");
        for stream in [&mut self.modern, &mut self.legacy, &mut self.old] {
            assert_eq!(stream.next().await, None);
            assert!(!stream.is_broken, "it was closed in the middle");
        }
    }

    /// Checks that the next message of each of its streams is a notification of a change.
    async fn tells_of_a_change(&mut self) {
        for stream in [&mut self.modern, &mut self.legacy] {
            let notice = stream.next().await.expect("a notice");
            assert_eq!(notice["method"], "notifications/tools/list_changed");
        }
        let answers = self.next_requests().await;
        assert_eq!(answers, [200, 202]);
        let pong = self.old.next().await.expect("an answer on the old stream");
        assert_eq!(pong["id"], 9);
    }
}

#[tokio::test]
async fn the_streams_and_sessions_of_a_key_end_with_it_and_nobody_elses_do() {
    let (one, two) = (
        Scripted::modern().tool(Tool::named("a")).start(),
        Scripted::modern().tool(Tool::named("b")).start(),
    );
    let (goes, stays) = ((GOES, "superuser"), (STAYS, "superuser"));
    let gateway = Gateway::of(&registry(&[("one", &one)], &[goes, stays])).start().await;
    gateway.offers_to("a", &bearer(GOES)).await;
    let mut theirs = Open::of(&gateway, GOES).await;
    let mut others = Open::of(&gateway, STAYS).await;

    gateway.reload_with(&registry(&[("one", &one)], &[stays])).await;
    theirs.ends().await;
    assert_eq!(theirs.next_requests().await, [401, 401]);
    // By a reload of its own: servers are applied before keys, so a new list could reach a key that is about to end.
    gateway.reload_with(&registry(&[("one", &one), ("two", &two)], &[stays])).await;
    others.tells_of_a_change().await;
}

#[tokio::test]
async fn a_key_that_is_changed_is_one_that_was_taken_back() {
    let one = Scripted::modern().tool(Tool::named("a")).start();
    let file = |role: &str, key: &str| registry(&[("one", &one)], &[(key, role), (STAYS, "reader")]);
    let gateway = Gateway::of(&file("superuser", GOES)).start().await;
    gateway.offers_to("a", &bearer(GOES)).await;
    let mut before = Open::of(&gateway, GOES).await;

    gateway.reload_with(&file("reader", GOES)).await;
    before.ends().await;
    assert_eq!(before.next_requests().await, [404, 404], "the key is good, and its sessions are gone");

    let mut before = Open::of(&gateway, GOES).await;
    let another = GOES.replace("0123", "4567");
    gateway.reload_with(&file("reader", &another)).await;
    before.ends().await;
    assert_eq!(before.next_requests().await, [401, 401]);
    client_of(&gateway, &another).legacy().await;
}

#[tokio::test]
async fn a_key_that_is_taken_back_while_a_body_arrives_begins_nothing() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let (goes, stays) = ((GOES, "superuser"), (STAYS, "superuser"));
    let gateway = Gateway::of(&registry(&[("one", &server)], &[goes, stays])).start().await;
    gateway.offers_to("a", &bearer(GOES)).await;
    let body = r#"{"tool":"a","arguments":{}}"#;
    let (first, last) = body.split_at(body.len() - 1);
    let half = async |key: &str| {
        let mut socket = TcpStream::connect(&gateway.address).await.expect("it listens");
        let head = format!(
            "POST /api/v1/mcp/call HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            &gateway.address,
            bearer(key),
            body.len()
        );
        socket.write_all(format!("{head}{first}").as_bytes()).await.expect("it reads");
        socket
    };
    let (mut theirs, mut others) = (half(GOES).await, half(STAYS).await);
    // Both requests were checked by then: a later request was already answered.
    client_of(&gateway, GOES).legacy().await;

    gateway.reload_with(&registry(&[("one", &server)], &[stays])).await;
    for (socket, status, runs) in [(&mut theirs, "401", 0), (&mut others, "200", 1)] {
        socket.write_all(last.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert_eq!(server.runs("a"), runs);
    }
}

#[tokio::test]
async fn calls_of_a_key_are_cancelled_with_it() {
    let server = Scripted::legacy().tool(Tool::named("hang").does(Act::Hang)).start();
    let (goes, stays) = ((GOES, "superuser"), (STAYS, "superuser"));
    let gateway = Gateway::of(&registry(&[("one", &server)], &[goes, stays])).start().await;
    gateway.offers_to("hang", &bearer(GOES)).await;
    let client = client_of(&gateway, GOES);
    let rest = client.to(&gateway.url("/api/v1/mcp/call"));
    let session = client.legacy().await;
    let text = client.envelope("tools/call", r#"{"name":"hang"}"#);
    let mut streaming = session.client.post_stream(&text, &[("accept", STREAM_FIRST)]).await;

    let (call, of_rest) = (json!({}), r#"{"server":"one","tool":"hang","arguments":{}}"#);
    let other = client_of(&gateway, STAYS);
    let kept = other.to(&gateway.url("/api/v1/mcp/call"));
    let mut kept = Box::pin(kept.post(of_rest, &[]));
    let asked = join_all([
        Box::pin(client.call("hang", call.clone())) as futures_util::future::BoxFuture<'_, _>,
        Box::pin(rest.post(of_rest, &[])),
        Box::pin(session.call("hang", call)),
    ]);
    let reload = async {
        eventually("all calls run", async || (server.runs("hang") == 5).then_some(())).await;
        gateway.reload_with(&registry(&[("one", &server)], &[stays])).await;
    };
    let answers = tokio::select! {
        (answers, ()) = async { tokio::join!(asked, reload) } => answers,
        answer = &mut kept => panic!("nobody else is concerned: {answer:?}"),
    };
    assert_eq!((answers[0].status, answers[1].status), (401, 401));
    assert_eq!(answers[1].json()["code"], "unauthorized");
    // The answer of the session was a stream by then, or it is refused like the others.
    assert!(!answers[2].body.contains("result"), "{:?}", answers[2]);
    while let Some(last) = streaming.next().await {
        assert!(last.get("result").is_none(), "{last}");
    }
    assert!(!streaming.is_broken);
    let told = async || (server.seen_calling("notifications/cancelled").len() == 4).then_some(());
    eventually("the server was told to stop each", told).await;
    drop(kept);
    assert!(gateway.stop().await.success());
}

#[tokio::test]
async fn the_streams_of_tokens_end_with_the_secret_that_they_were_signed_with() {
    let one = Scripted::modern().tool(Tool::named("a")).start();
    let file = |secret: &str| {
        let jwt = format!("{{issuer: i, audience: a, algorithm: HS256, secret: {secret}}}");
        Registry::new().http("one", &one.url()).setting(&format!("server: {{auth_mode: jwt, jwt: {jwt}}}"))
    };
    let secret = "a-secret-that-is-used-by-this-test-and-by-nobody-else";
    let gateway = Gateway::of(&file(secret)).start().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let claims = json!({"iss": "i", "aud": "a", "sub": "ada", "exp": now + 600, "role": "superuser"});
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).expect("a token");
    gateway.offers_to("a", &bearer(&token)).await;
    let mut open = Open::of(&gateway, &token).await;

    gateway.reload_with(&file(secret)).await;
    assert_eq!(open.next_requests().await, [200, 202], "nothing was changed");
    assert_eq!(open.old.next().await.expect("an answer")["id"], 9);
    gateway.reload_with(&file(&secret.replace("nobody", "somebody"))).await;
    open.ends().await;
    assert_eq!(open.next_requests().await, [401, 401]);
}
