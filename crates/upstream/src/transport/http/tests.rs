//! Tests of what requests to a server carry.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header;

use super::*;
use crate::config::{Limits, Transport};
use crate::transport::testing::MESSAGE_BYTES;
use net::http::collect;
use runtime::memory::Payer;
use testkit::scripted::{TestServer, json};
use url::Url;

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"note"}"#;

fn client(url: &Url, headers: Vec<(HeaderName, secrecy::SecretString)>) -> HttpClient {
    let http = Http { headers, ..Http::at(url.clone()) };
    let config =
        Config { limits: LIMITS, ..crate::transport::testing::config(Transport::Http(http.clone())) };
    HttpClient::new(&http, &config, None, &Shutdown::new()).expect("a client")
}

const LIMITS: Limits = Limits {
    connections: 300,
    concurrent_calls: 300,
    waiting_calls: 0,
    message_bytes: MESSAGE_BYTES,
    requests_per_minute: None,
};

/// Posts, and reads the whole answer.
async fn ask(client: &HttpClient, once: bool) -> Result<Bytes, Error> {
    let head = client.post(&client.endpoint().path, &HeaderMap::new());
    let answer = client.send(|| Ok((head.clone(), Bytes::from_static(NOTE.as_bytes()).into())), once).await?;
    let payer = Payer { principal: None, server: &client.server };
    Ok(collect(answer.into_body(), Bytes::new(), client.limit, payer).await?)
}

#[tokio::test]
async fn the_protocol_wins_over_the_configuration_and_that_over_us() {
    let server = TestServer::new(|_| vec![json(202, "")]).await;
    let mut url = server.url.clone();
    url.set_username("us%20er").expect("a user");
    url.set_password(Some("p:w")).expect("a password");
    url.set_query(Some("q=1&r"));
    url.set_fragment(Some("part"));
    let ours = client(&url, Vec::new());
    ask(&ours, true).await.expect("an answer");
    let configured = |name, value: &str| (name, secrecy::SecretString::from(value));
    let theirs = client(
        &url,
        vec![
            configured(header::USER_AGENT, "theirs"),
            configured(header::AUTHORIZATION, "Bearer k"),
            configured(HeaderName::from_static("x-both"), "theirs"),
        ],
    );
    let protocol = HeaderMap::from_iter([(
        "x-both".parse().expect("a name"),
        "the protocol's".parse().expect("a value"),
    )]);
    let post = theirs.post(&theirs.endpoint().path, &protocol);
    for (head, body) in [(post, "{}"), (theirs.get(&protocol), ""), (theirs.delete(&protocol), "")] {
        let made = || Ok((head.clone(), Bytes::from_static(body.as_bytes()).into()));
        theirs.send(made, true).await.expect("an answer");
    }

    let seen = server.seen();
    let lines: Vec<_> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(lines, ["POST /mcp?q=1&r", "POST /mcp?q=1&r", "GET /mcp?q=1&r", "DELETE /mcp?q=1&r"]);
    let host = format!("127.0.0.1:{}", url.port().expect("a port"));
    assert!(seen.iter().all(|seen| seen.header("host") == Some(host.as_str())));
    let all = |name| seen.iter().map(|seen| seen.header(name)).collect::<Vec<_>>();
    let version = concat!("switchyard/", env!("CARGO_PKG_VERSION"));
    assert_eq!(all("user-agent"), [Some(version), Some("theirs"), Some("theirs"), Some("theirs")]);
    let basic = format!("Basic {}", STANDARD.encode("us er:p:w"));
    assert_eq!(all("authorization")[..2], [Some(basic.as_str()), Some("Bearer k")]);
    assert_eq!(all("x-both")[1..], [Some("the protocol's"); 3]);
    let (both, events) = ("application/json, text/event-stream", "text/event-stream");
    assert_eq!(all("accept"), [Some(both), Some(both), Some(events), Some("*/*")]);
    assert_eq!(all("content-type"), [Some("application/json"), Some("application/json"), None, None]);
}

#[tokio::test]
async fn cookies_stay_in_the_session_that_they_were_set_in() {
    let server = TestServer::new(|seen| {
        let set = if seen.header("cookie").is_none() { "set-cookie: lb=one; Path=/\r\n" } else { "" };
        vec![testkit::scripted::full(202, set, "")]
    })
    .await;
    let client = client(&server.url, Vec::new());
    let (own, other) = (client.cookies(), client.cookies());
    let path = client.endpoint().path.clone();
    let bare = client.post(&path, &HeaderMap::new());
    let heads = [
        bare.clone().in_session(&own),
        client.get(&HeaderMap::new()).in_session(&own),
        client.delete(&HeaderMap::new()).in_session(&own),
        bare.clone().in_session(&other),
        bare,
    ];
    for head in heads {
        client.send(|| Ok((head.clone(), Bytes::new().into())), false).await.expect("an answer");
    }
    let seen = server.seen();
    let sent: Vec<_> = seen.iter().map(|seen| seen.header("cookie")).collect();
    assert_eq!(sent, [None, Some("lb=one"), Some("lb=one"), None, None]);
}

#[tokio::test]
async fn a_redirected_request_is_sent_again_and_a_permanent_target_is_kept() {
    for (status, lines) in [
        (308, ["POST /mcp", "POST /mcp/", "POST /mcp/", "POST /mcp/"].as_slice()),
        (307, &["POST /mcp", "POST /mcp/", "POST /mcp/", "POST /mcp", "POST /mcp/"]),
    ] {
        let server = TestServer::new(move |seen| match seen.line.as_str() {
            "POST /mcp" => vec![testkit::scripted::full(status, "location: /mcp/\r\n", "")],
            _ => vec![json(202, "")],
        })
        .await;
        let client = client(&server.url, Vec::new());
        // Its head was made before the redirect.
        let head = client.post(&client.endpoint().path, &HeaderMap::new());
        for round in 0..3 {
            if round == 2 {
                client.forget();
            }
            let made = || Ok((head.clone(), Bytes::from_static(NOTE.as_bytes()).into()));
            assert_eq!(client.send(made, true).await.expect("an answer").status(), 202);
        }
        let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.line).collect();
        assert_eq!(seen, lines, "{status}");
        assert!(server.seen().iter().all(|seen| seen.body.as_str() == NOTE));
    }
}

#[tokio::test]
async fn an_error_says_what_its_body_says() {
    for (status, kind, body, text) in [
        (429, "application/json", r#"{"error":{"message":"quota used"}}"#, ": quota used"),
        (
            503,
            "text/html",
            "<html><title>Down</title>",
            ": an HTML page (`text/html`) with the title \"Down\"",
        ),
        (400, "text/plain", "it's \"bad\"", ": it's \"bad\""),
        (502, "text/plain", "", ""),
    ] {
        let head = format!("content-type: {kind}\r\n");
        let server = TestServer::new(move |_| vec![testkit::scripted::full(status, &head, body)]).await;
        let client = client(&server.url, Vec::new());
        let head = client.post(&client.endpoint().path, &HeaderMap::new());
        let answer = client.send(|| Ok((head.clone(), Bytes::new().into())), true).await.expect("an answer");
        let error = client.refusal(answer).await;
        assert_eq!(error.to_string(), format!("the server answered HTTP {status}{text}"));
    }
}
