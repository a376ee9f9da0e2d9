//! `login` and `logout` against a scripted gateway.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use secrecy::SecretString;
use testkit::scripted::{ReceivedRequest, Step, TestServer, json};

use super::super::error::{EXIT_DENIED, EXIT_UNREACHABLE};
use super::super::{ConfigFile, EXIT_USAGE};
use super::*;

const LINK: &str =
    r#"{"url":"http://127.0.0.1:8080/oauth/start?login=TICKET","expires_at":"2026-11-23T00:00:00.000Z"}"#;
const OUT: &str = r#"{"server":"notes","state":"login_required","scopes":[],"per":"principal"}"#;
const IN: &str = r#"{"server":"notes","state":"logged_in","account":"ann\u001b[2J","scopes":["read","write"],"per":"principal"}"#;

fn running(server: &TestServer) -> RunningGateway {
    let file = ConfigFile { config: PathBuf::from("no-such-file.yaml"), is_default: false };
    let url = Url::parse(&server.url.origin().ascii_serialization()).ok();
    RunningGateway { file, url, key: Some(SecretString::from("canary-of-the-key")) }
}

/// Runs `login` and returns its end, its output, and the opened pages.
async fn logged_in(server: &TestServer) -> (Result<(), CommandError>, String, Vec<String>) {
    let (mut out, mut err, opened) = (Vec::new(), Vec::new(), RefCell::new(Vec::new()));
    let open = |url: &Url| {
        opened.borrow_mut().push(url.to_string());
        true
    };
    let mut terminal = LoginTerminal { out: &mut out, err: &mut err, open: &open };
    let ended = log_in(&running(server), "notes", &mut terminal).await;
    let text = String::from_utf8([out, err].concat()).expect("UTF-8");
    assert!(!text.contains("canary"), "{text}");
    (ended, text, opened.into_inner())
}

/// A gateway at which a person logs in after `looks` looks.
async fn gateway(looks: usize) -> TestServer {
    let seen = Arc::new(AtomicUsize::new(0));
    TestServer::new(move |request: &ReceivedRequest| -> Vec<Step> {
        assert_eq!(request.header("authorization"), Some("Bearer canary-of-the-key"));
        let answer = match request.line.as_str() {
            "GET /api/v1/mcp/servers/notes/login" if seen.fetch_add(1, Ordering::SeqCst) < looks => OUT,
            "GET /api/v1/mcp/servers/notes/login" => IN,
            "POST /api/v1/mcp/servers/notes/login" => LINK,
            "DELETE /api/v1/mcp/servers/notes/login" => OUT,
            other => panic!("{other}"),
        };
        vec![json(200, answer)]
    })
    .await
}

#[tokio::test]
async fn a_login_opens_the_link_and_waits_until_somebody_has_logged_in() {
    let server = gateway(3).await;
    let (ended, text, opened) = logged_in(&server).await;
    assert_eq!(ended, Ok(()));
    assert_eq!(opened, ["http://127.0.0.1:8080/oauth/start?login=TICKET"]);
    assert!(text.starts_with("http://127.0.0.1:8080/oauth/start?login=TICKET\n"), "{text}");
    assert!(text.contains(r"logged in to notes as ann\u{1b}[2J (scopes: read write; used by you)"), "{text}");
    let looks = server.seen().iter().filter(|seen| seen.line.starts_with("GET")).count();
    assert_eq!(looks, 4);
}

#[tokio::test]
async fn a_refused_login_ends_with_its_reason_and_one_of_before_does_not() {
    const BEFORE: &str = r#"{"server":"notes","state":"login_required","failure":{"reason":"old","at":"1"}}"#;
    const REFUSED: &str =
        r#"{"server":"notes","state":"login_required","failure":{"reason":"declined\u001b[2J","at":"2"}}"#;
    let looks = AtomicUsize::new(0);
    let server = TestServer::new(move |request: &ReceivedRequest| -> Vec<Step> {
        let is_look = request.line.starts_with("GET");
        let number = if is_look { looks.fetch_add(1, Ordering::SeqCst) } else { 0 };
        vec![json(
            200,
            if !is_look {
                LINK
            } else if number < 3 {
                BEFORE
            } else {
                REFUSED
            },
        )]
    })
    .await;
    let (ended, _, _) = logged_in(&server).await;
    let mut err = Vec::new();
    assert_eq!(exit(ended, &mut err), ExitCode::from(1));
    let text = String::from_utf8(err).expect("UTF-8");
    assert!(text.contains("the login to notes failed: declined\\u{1b}[2J"), "{text}");
    assert_eq!(server.seen().iter().filter(|seen| seen.line.starts_with("GET")).count(), 4);
}

#[tokio::test]
async fn an_existing_login_is_told_and_not_replaced() {
    let server = gateway(0).await;
    let (ended, text, opened) = logged_in(&server).await;
    assert_eq!((ended, opened.len()), (Ok(()), 0));
    assert!(text.contains("already logged in to notes as ann"), "{text}");
    assert!(server.seen().iter().all(|seen| seen.line.starts_with("GET")));
}

/// A stream whose reader has gone.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn closed_output_is_a_failure_only_before_the_login() {
    let open = |_: &Url| true;
    for (looks, is_closed, code) in
        [(1, "err", ExitCode::FAILURE), (1, "out", ExitCode::FAILURE), (0, "out", ExitCode::SUCCESS)]
    {
        let server = gateway(looks).await;
        let (mut gone, mut kept) = (Gone, Vec::new());
        let (out, err): (&mut dyn Write, &mut dyn Write) =
            if is_closed == "out" { (&mut gone, &mut kept) } else { (&mut kept, &mut gone) };
        let mut terminal = LoginTerminal { out, err, open: &open };
        let ended = log_in(&running(&server), "notes", &mut terminal).await;
        assert_eq!(exit_unless_done(ended, &mut Vec::new()), code, "{looks} {is_closed}");
    }
}

#[tokio::test]
async fn each_kind_of_failure_has_its_exit_code() {
    let problem = r#"{"detail":"the request carries no credential","hint":"send a credential"}"#;
    for (status, code) in [(401, EXIT_DENIED), (403, EXIT_DENIED), (404, 1), (409, 1), (500, 1)] {
        let server = TestServer::new(move |_: &ReceivedRequest| vec![json(status, problem)]).await;
        let (ended, _, _) = logged_in(&server).await;
        let mut err = Vec::new();
        assert_eq!(exit(ended, &mut err), ExitCode::from(code), "{status}");
        let text = String::from_utf8(err).expect("UTF-8");
        assert!(text.contains("carries no credential (send a credential)"), "{text}");
    }
    let gone = {
        let server = gateway(0).await;
        running(&server)
    };
    let ended = log_out(&gone, "notes", &mut Vec::new()).await;
    let text = ended.as_ref().expect_err("nobody listens").to_string();
    assert!(text.contains("cannot reach the gateway at http://127.0.0.1:"), "{text}");
    assert_eq!(exit(ended, &mut Vec::new()), ExitCode::from(EXIT_UNREACHABLE));
    let unknown = RunningGateway { url: None, ..gone };
    let ended = log_out(&unknown, "notes", &mut Vec::new()).await;
    assert_eq!(exit(ended, &mut Vec::new()), ExitCode::from(EXIT_USAGE), "no configuration file");
}

#[tokio::test]
async fn a_link_that_is_no_web_address_is_not_opened() {
    let server = TestServer::new(|request: &ReceivedRequest| {
        let link = r#"{"url":"file:///etc/passwd","expires_at":""}"#;
        vec![json(200, if request.line.starts_with("POST") { link } else { OUT })]
    });
    let server = server.await;
    let (ended, text, opened) = logged_in(&server).await;
    assert!(ended.is_err() && opened.is_empty() && !text.contains("passwd"), "{text}");
}
