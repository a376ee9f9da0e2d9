//! Tests of the login at R2R, and of the errors that tools get if R2R fails.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::client::Client;
use super::double::{EMAIL, Fault, KEY, PASSWORD, R2r, ReceivedRequest};
use super::fixture::without_file;
use super::model::Results;
use super::session::is_open_to_all;
use crate::r2r::config::{self, Credentials};
use crate::server_context;
use net::http::Form;
use runtime::shutdown::Shutdown;
use upstream::api::Error;

const LOGIN: &str = "POST /v3/users/login";
const REFRESH: &str = "POST /v3/users/refresh-token";
const COLLECTIONS: &str = "GET /v3/collections";

fn account(password: &str) -> Credentials {
    Credentials::Account { email: EMAIL.to_owned().into(), password: password.to_owned().into() }
}

fn options(r2r: &R2r, credentials: Credentials) -> config::R2rOptions {
    config::R2rOptions { credentials, ..without_file(r2r) }
}

async fn open(r2r: &R2r, credentials: Credentials) -> Result<Client, Error> {
    let server_context = server_context(&Shutdown::new());
    Client::open(&options(r2r, credentials), &server_context).await
}

async fn logged_in(r2r: &R2r) -> Client {
    open(r2r, account(PASSWORD)).await.expect("it lets us in")
}

async fn list(client: &Client) -> Result<Results<Vec<Value>>, Error> {
    client.get(&["collections"], &[("limit", "10")]).await
}

fn status(error: &Error) -> u16 {
    match error {
        Error::Backend { status, .. } => *status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_ended_tokens_under_64_calls_are_renewed_once_each_and_no_call_fails() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    for round in 1..=100 {
        r2r.expire_access();
        let calls = (0..64).map(|_| {
            let client = client.clone();
            async move { list(&client).await.map(drop) }
        });
        let failed: Vec<Error> = join_all(calls).await.into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "round {round}: {failed:?}");
        assert_eq!((r2r.count(LOGIN), r2r.count(REFRESH)), (1, round));
    }
}

#[tokio::test]
async fn session_that_cannot_renew_logs_in_again_once_for_all_callers() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.expire_all();
    let all = join_all((0..64).map(|_| list(&client))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!((r2r.count(LOGIN), r2r.count(REFRESH)), (2, 1));
}

#[tokio::test]
async fn a_refused_account_is_tried_once() {
    let r2r = R2r::start();
    let refused = open(&r2r, account("wrong")).await.map(drop).expect_err("it is refused");
    let Error::AuthFailed { reason } = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("Incorrect email or password") && !reason.contains("wrong"), "{reason}");
    let unknown = Credentials::Account {
        email: "nobody@example.com".to_owned().into(),
        password: PASSWORD.to_owned().into(),
    };
    assert!(matches!(open(&r2r, unknown).await, Err(Error::AuthFailed { .. })));
    assert_eq!(r2r.count(LOGIN), 2);
}

#[tokio::test]
async fn credentials_refused_while_running_are_not_tried_again() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    assert!(client.refused().now_or_never().is_none());
    r2r.change_password("another");
    for _ in 0..3 {
        let all = join_all((0..64).map(|_| list(&client))).await;
        assert!(all.iter().all(|one| matches!(one, Err(Error::AuthFailed { .. }))), "{:?}", all[0]);
    }
    assert!(client.refused().await.contains("Incorrect"));
    assert!(matches!(client.health().await, Err(Error::AuthFailed { .. })));
    assert_eq!((r2r.count(LOGIN), r2r.count(REFRESH)), (2, 1));
}

#[tokio::test]
async fn a_second_401_is_the_answer() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.fail_next("collections", 2, Fault::Recorded("auth-bad-token"));
    assert_eq!(status(&list(&client).await.map(drop).expect_err("refused")), 401);
    assert_eq!((r2r.count(COLLECTIONS), r2r.count(REFRESH), r2r.count(LOGIN)), (2, 1, 1));
    assert!(list(&client).await.is_ok());
}

#[tokio::test]
async fn a_401_of_the_provider_behind_r2r_is_not_of_our_token() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.fail_next("documents", 1, Fault::Recorded("document-create-embedding-401"));
    let form = || Form::new().text("raw_text", "some text");
    let refused = client.upload::<IgnoredAny>(&["documents"], form).await.expect_err("refused");
    assert_eq!(status(&refused), 401);
    assert_eq!((r2r.count("POST /v3/documents"), r2r.count(REFRESH)), (1, 0));
}

#[tokio::test]
async fn a_form_is_made_again_for_the_one_repetition() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.expire_access();
    let form = || Form::new().text("raw_text", "some text");
    let created: Results<Value> = client.upload(&["documents"], form).await.expect("it is taken");
    assert_eq!(created.results["document_id"], r2r.documents()[0]["id"]);
    assert_eq!((r2r.count("POST /v3/documents"), r2r.documents().len()), (2, 1));
}

#[tokio::test]
async fn a_fault_of_the_network_is_no_refusal() {
    let mut r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.expire_access();
    r2r.kill();
    // The first request may still have used an existing connection.
    assert!(matches!(list(&client).await, Err(Error::Connect { .. } | Error::Lost { .. })));
    assert!(matches!(list(&client).await, Err(Error::Connect { .. })));
    assert!(matches!(open(&r2r, account(PASSWORD)).await, Err(Error::Connect { .. })));
    r2r.restart();
    assert!(list(&client).await.is_ok());
    assert!(client.refused().now_or_never().is_none());
}

#[tokio::test]
async fn a_token_is_renewed_ahead_of_its_end_and_nobody_waits_for_it() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    let later = async |minutes| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(minutes)).await;
        tokio::time::resume();
    };
    later(54).await;
    list(&client).await.expect("the first token is good");
    assert_eq!(r2r.count(REFRESH), 0);
    later(2).await;
    // It uses the old token while the new one is requested, which is not answered yet.
    r2r.delay("refresh-token", Duration::from_millis(300));
    list(&client).await.expect("the first token is good");
    list(&client).await.expect("the first token is good");
    // R2R no longer accepts the old token: a new call waits for the running renewal and starts no other.
    r2r.expire_access();
    list(&client).await.expect("the second token is good");
    assert_eq!((r2r.count(REFRESH), r2r.count(COLLECTIONS)), (1, 5));
    r2r.delay("refresh-token", Duration::ZERO);
    // The token has expired by Switchyard's clock, so it is not even tried.
    later(61).await;
    list(&client).await.expect("the third token is good");
    assert_eq!((r2r.count(REFRESH), r2r.count(LOGIN), r2r.count(COLLECTIONS)), (2, 1, 6));
}

#[tokio::test]
async fn cancelled_caller_does_not_end_the_renewal_for_the_others() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    r2r.expire_access();
    r2r.delay("refresh-token", Duration::from_millis(200));
    let hasty = tokio::time::timeout(Duration::from_millis(100), list(&client));
    let (hasty, patient) = tokio::join!(hasty, list(&client));
    assert!(hasty.is_err() && patient.is_ok());
    assert_eq!(r2r.count(REFRESH), 1);
}

#[tokio::test]
async fn a_key_and_nobody_are_looked_at_once() {
    let r2r = R2r::start();
    let refused = open(&r2r, Credentials::None).await.map(drop).expect_err("it wants credentials");
    assert!(matches!(&refused, Error::AuthFailed { reason } if reason.contains("api_key")), "{refused}");
    let wrong = Credentials::ApiKey("pk_no.sk_no".to_owned().into());
    assert!(matches!(open(&r2r, wrong).await, Err(Error::AuthFailed { .. })));

    let client = open(&r2r, Credentials::ApiKey(KEY.to_owned().into())).await.expect("a good key");
    assert!(list(&client).await.is_ok());
    r2r.fail_next("collections", 1, Fault::Recorded("auth-bad-token"));
    assert_eq!(status(&list(&client).await.map(drop).expect_err("refused")), 401);
    assert!(list(&client).await.is_ok(), "the key is as good as before");
    r2r.change_password("another");
    assert!(matches!(list(&client).await, Err(Error::AuthFailed { .. })));
    client.refused().await;

    r2r.anonymous();
    let nobody = open(&r2r, Credentials::None).await.expect("anybody may");
    assert!(list(&nobody).await.is_ok());
    assert_eq!(r2r.count(LOGIN), 0);
}

#[tokio::test]
async fn errors_say_what_was_wrong_and_nothing_of_what_was_sent() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    for (recorded, said) in [
        ("refresh-object-body", "body: Input should be a valid string"),
        ("search-limit-too-big", "body.search_settings.limit: Input should be less than or equal to 1000"),
        ("document-retrieve-missing", "Document not found."),
        ("search-filter-bad-uuid", "An error 'Invalid UUID format"),
        ("rate-limited", "Per-route per-minute rate limit exceeded"),
        ("unknown-route", "Not Found"),
    ] {
        r2r.fail_next("collections", 1, Fault::Recorded(recorded));
        let error = list(&client).await.map(drop).expect_err("it fails");
        assert!(error.to_string().starts_with(said), "{recorded}: {error}");
        assert!(error.to_string().len() < 700 && !error.to_string().contains("JWT"), "{error}");
    }
    r2r.fail_next("collections", 1, Fault::Status(502));
    assert_eq!(list(&client).await.map(drop).expect_err("it fails").to_string(), "HTTP 502 Bad Gateway");
    r2r.fail_next("collections", 1, Fault::RateLimited(Some(7)));
    let limited = list(&client).await.map(drop).expect_err("it fails");
    assert!(
        matches!(limited, Error::Backend { status: 429, retry_after: Some(after), .. } if after.as_secs() == 7)
    );
}

#[tokio::test]
async fn no_segment_reaches_another_route() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    let before = r2r.seen().len();
    for segment in ["", ".", "..", "a/b", "../users/me", "/", "a\\b", "..\\x", "a\nb", "a/../../users", "\0"]
    {
        for path in [&["documents", segment][..], &["collections", segment, "documents"]] {
            let refused = client.get::<IgnoredAny>(path, &[]).await.expect_err(segment);
            assert_eq!(status(&refused), 400, "{segment:?}");
            let refused = client.delete::<IgnoredAny>(path).await.expect_err(segment);
            assert_eq!(status(&refused), 400, "{segment:?}");
        }
    }
    assert_eq!(r2r.seen().len(), before, "nothing was sent");
    for (segment, sent) in [
        ("a?b=c", "a%3Fb=c"),
        ("a#b", "a%23b"),
        ("a%2Fb", "a%252Fb"),
        ("%2e%2e", "%252e%252e"),
        ("имя x", "%D0%B8%D0%BC%D1%8F%20x"),
        ("a;b&c", "a;b&c"),
        ("...", "..."),
    ] {
        let _ = client.get::<IgnoredAny>(&["collections", "name", segment], &[]).await;
        let seen = r2r.seen().pop().expect("it was sent");
        assert_eq!((seen.path, seen.query), (format!("/v3/collections/name/{sent}"), String::new()));
    }
}

#[tokio::test]
async fn a_generated_answer_comes_as_events() {
    let r2r = R2r::start();
    let client = logged_in(&r2r).await;
    let form = || Form::new().text("raw_text", "Tokens expire after one hour.");
    client.upload::<IgnoredAny>(&["documents"], form).await.expect("it is taken");
    let body = json!({"query": "When do tokens expire?", "rag_generation_config": {"stream": true}});
    let events: Vec<_> =
        client.answer(&["retrieval", "rag"], &body).await.expect("a stream").events().collect().await;
    let names: Vec<String> = events
        .into_iter()
        .map(|event| String::from_utf8_lossy(&event.expect("an event").name).into_owned())
        .collect();
    assert_eq!((names[0].as_str(), names[1].as_str()), ("search_results", "message"));
    assert_eq!(names[names.len() - 3..], ["citation", "final_answer", "done"]);
}

#[tokio::test]
async fn an_r2r_that_takes_whoever_comes_is_noticed() {
    let looks = async |is_open: bool| {
        let r2r = R2r::start();
        if is_open {
            r2r.anonymous();
        }
        let client = logged_in(&r2r).await;
        let bare = |seen: &ReceivedRequest| {
            seen.path == "/v3/users/me" && !seen.headers.iter().any(|(name, _)| name == "authorization")
        };
        assert_eq!(r2r.seen().iter().filter(|seen| bare(seen)).count(), 1);
        list(&client).await.expect("whatever came of it");
        let rest = crate::rest::Rest::new(
            &r2r.url().parse().expect("a URL"),
            &crate::server_context(&Shutdown::new()),
        );
        is_open_to_all(&rest.expect("a client")).await
    };
    assert_eq!((looks(false).await, looks(true).await), (false, true));
}
