//! Against a service at a real socket: what it is sent, what is tried again, and what is believed.

use secrecy::SecretString;
use testkit::scripted::TestServer;
use url::Url;

use super::super::testing::{Answer, inputs, scripted, soon, texts, vector};
use super::super::{Config, open};
use super::*;
use runtime::shutdown::Shutdown;

fn options(url: &str) -> OpenAi {
    OpenAi {
        url: Url::parse(url).expect("a URL"),
        needs_key: false,
        model: "m".into(),
        api_key: Some(SecretString::from("sk-canary")),
        dimensions: None,
        batch: 3,
    }
}

fn of(service: &TestServer) -> OpenAi {
    options(service.url.join("/v1").expect("a URL").as_str())
}

fn client(options: &OpenAi) -> OpenAiClient {
    let client = OpenAiClient::new(options, &crate::server_context(&Shutdown::new()));
    client.expect("usable").expect("it needs no key")
}

fn remote(service: &TestServer) -> OpenAiClient {
    client(&of(service))
}

fn json(status: u16, body: &str) -> Answer {
    Answer::Json(status, "", body.to_owned())
}

fn busy(retry_after: &'static str) -> Answer {
    Answer::Json(429, retry_after, r#"{"error":{"message":"slow down"}}"#.into())
}

#[tokio::test]
async fn texts_go_in_batches_and_vectors_come_in_their_order() {
    let service = scripted(vec![Answer::Vectors(4)]).await;
    let remote = remote(&service);
    let requested = texts(&["a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"]);
    let vectors = remote.embed(&requested, soon()).await.expect("vectors");
    assert_eq!(vectors, requested.iter().map(|text| vector(text, 4)).collect::<Vec<_>>());
    assert_eq!(remote.dimension(), Some(4));
    let seen = service.seen();
    assert_eq!(seen.iter().map(inputs).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(seen[0].line, "POST /v1/embeddings");
    assert_eq!(seen[0].header("authorization"), Some("Bearer sk-canary"));
    assert_eq!(seen[0].body.text("model").as_deref(), Some("m"));
    assert!(seen[0].body.get("dimensions").is_none(), "many services refuse it");
    assert!(remote.embed(&[], soon()).await.expect("none").is_empty());
    assert_eq!(service.seen().len(), 3);
}

#[tokio::test]
async fn dimensions_are_asked_for_where_they_are_configured_and_checked() {
    let service = scripted(vec![Answer::Vectors(8), Answer::Vectors(4)]).await;
    let options = OpenAi { dimensions: Some(8), api_key: None, ..of(&service) };
    let remote = client(&options);
    assert_eq!(remote.dimension(), Some(8));
    remote.embed(&texts(&["a"]), soon()).await.expect("a vector");
    let error = remote.embed(&texts(&["a"]), soon()).await.expect_err("another dimension");
    assert_eq!(error, Error::Dimension { model: "m".into(), expected: 8, found: 4 });
    assert_eq!(service.seen()[0].body.get_as("dimensions"), Some(8));
    assert_eq!(service.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn an_empty_text_is_never_sent() {
    let service = scripted(vec![Answer::Vectors(4)]).await;
    let error = remote(&service).embed(&texts(&["a", ""]), soon()).await.expect_err("empty");
    assert_eq!(error.to_string(), "text 2 of 2 is empty, and an empty text has no vector");
    assert!(service.seen().is_empty());
}

#[tokio::test]
async fn transient_failure_is_tried_again_three_times() {
    let now = "retry-after: 0\r\n";
    let service =
        scripted(vec![Answer::Gone, busy(now), Answer::Json(503, now, String::new()), Answer::Vectors(4)])
            .await;
    remote(&service).embed(&texts(&["a"]), soon()).await.expect("at last");
    assert_eq!(service.seen().len(), 4);
    let service = scripted(vec![busy(now)]).await;
    let error = remote(&service).embed(&texts(&["a"]), soon()).await.expect_err("never");
    assert_eq!(service.seen().len(), 4);
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "the embedding provider `openai` (model `m`) failed: slow down");
}

#[tokio::test]
async fn pause_longer_than_the_deadline_is_not_waited_for() {
    for (pause, deadline) in [("retry-after: 25\r\n", 20), ("retry-after: 3600\r\n", 9_999)] {
        let service = scripted(vec![busy(pause)]).await;
        let deadline = Instant::now() + Duration::from_secs(deadline);
        let error = remote(&service).embed(&texts(&["a"]), deadline).await.expect_err("refused");
        assert!(error.is_retryable(), "{error}");
        assert_eq!(service.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_shows_no_key() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-canary.","type":"x"}}"#;
    for status in [400, 401, 403, 404, 422] {
        let service = scripted(vec![json(status, body)]).await;
        let error = remote(&service).embed(&texts(&["a"]), soon()).await.expect_err("refused");
        assert_eq!(service.seen().len(), 1);
        let text = format!("{error} {error:?}");
        assert!(
            !error.is_retryable() && text.contains("Incorrect API key") && !text.contains("canary"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_no_vectors_is_not_believed() {
    for (body, desired) in [
        ("<html>", "it is not JSON"),
        (r#"{"error":"model `m` is not loaded, sk-canary"}"#, "model `m` is not loaded, …"),
        (r#"{"vectors":[]}"#, "other JSON than was expected"),
        (r#"{"data":[{"embedding":[1]},{"index":0,"embedding":[1]}]}"#, "indexes"),
        (r#"{"data":[]}"#, "0 vectors for 2 texts"),
        (r#"{"data":[{"index":0,"embedding":[1]}]}"#, "1 vectors for 2 texts"),
        (r#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}"#, "indexes"),
        (r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#, "vector 0 is empty"),
        (r#"{"data":[{"index":1,"embedding":[1e39]},{"index":0,"embedding":[1]}]}"#, "vector 1"),
        (
            r#"{"data":[{"index":1,"embedding":[NaN]},{"index":0,"embedding":[1]}]}"#,
            "NaN at byte 33 is no JSON",
        ),
        (r#"{"data":[{"index":1,"embedding":[null]},{"index":0,"embedding":[1]}]}"#, "other JSON"),
        (
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#,
            "vectors of 2 numbers where 1",
        ),
    ] {
        let service = scripted(vec![json(200, body)]).await;
        let error = remote(&service).embed(&texts(&["a", "b"]), soon()).await.expect_err("refused");
        assert!(error.to_string().contains(desired) && !error.is_retryable(), "{body}: {error}");
        assert_eq!(service.seen().len(), 1);
    }
}

// Gemini leaves out an index of 0, others leave out all.
#[tokio::test]
async fn vectors_without_an_index_are_in_the_order_of_the_texts() {
    for body in [
        r#"{"data":[{"embedding":[1]},{"index":1,"embedding":[2]}]}"#,
        r#"{"data":[{"index":null,"embedding":[1]},{"index":null,"embedding":[2]}]}"#,
        "\u{feff}{\"data\":[{\"index\":1,\"embedding\":[2]},{\"index\":0,\"embedding\":[1]}]}",
    ] {
        let service = scripted(vec![json(200, body)]).await;
        let vectors = remote(&service).embed(&texts(&["a", "b"]), soon()).await.expect("vectors");
        assert_eq!(vectors, [[1.0], [2.0]], "{body}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    drop(listener);
    let remote = client(&options(&url));
    let error = remote.embed(&texts(&["a"]), soon()).await.expect_err("gone");
    assert!(error.to_string().starts_with("the embedding provider `openai` (model `m`) failed: "), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn without_a_provider_or_a_key_it_says_what_to_set() {
    let server_context = crate::server_context(&Shutdown::new());
    let none = open(&Config::None, &server_context).await.expect("nothing to open");
    let error = none.embed(&texts(&["a"]), soon()).await.expect_err("none").to_string();
    assert!(error.contains("`embedding.provider`") && error.contains("`embedding.api_key`"), "{error}");
    let options = OpenAi { needs_key: true, api_key: None, ..options("https://api.openai.com/v1") };
    let keyless = open(&Config::OpenAi(options), &server_context).await.expect("nothing to open");
    let error = keyless.embed(&texts(&["a"]), soon()).await.expect_err("no key").to_string();
    assert!(error.contains("set `embedding.api_key`"), "{error}");
    assert_eq!((none.provider(), keyless.provider(), keyless.model()), ("none", "openai", "m"));
}

#[test]
fn a_request_is_bounded_in_texts_and_bytes() {
    let long = "x".repeat(MOST_BYTES / 2);
    let texts = texts(&["a", "b", "c", "d", &long, &long, &long, "e"]);
    let of = |from: usize| in_one_request(&texts[from..], 3);
    assert_eq!([of(0), of(3), of(5), of(7)], [3, 2, 2, 1]);
    assert_eq!(in_one_request(&["x".repeat(MOST_BYTES * 2), "y".into()], 9), 1);
}

#[test]
fn the_vectors_of_a_request_fit_one_answer() {
    assert_eq!([Some(384), Some(3_072), Some(65_536), None].map(in_one_answer), [1_365, 170, 8, 128]);
    assert_eq!(in_one_answer(Some(usize::MAX / NUMBER_BYTES)), 1);
}

#[tokio::test]
async fn many_long_vectors_are_asked_for_in_parts() {
    let dimension = 65_536;
    let service = scripted(vec![Answer::Vectors(dimension)]).await;
    let options = OpenAi { dimensions: Some(dimension), batch: 2_048, ..of(&service) };
    let remote = client(&options);
    let requested = texts(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert_eq!(remote.embed(&requested, soon()).await.expect("vectors").len(), 9);
    assert_eq!(service.seen().iter().map(inputs).collect::<Vec<_>>(), [8, 1]);
}

/// By hand: where the variable `SWITCHYARD_EMBEDDINGS` has the URL of a service with all-MiniLM-L6-v2.
#[tokio::test]
async fn a_real_service_gives_the_vectors_that_others_get_from_it() {
    let Ok(url) = std::env::var("SWITCHYARD_EMBEDDINGS") else { return };
    let options = OpenAi { model: "all-MiniLM-L6-v2".into(), batch: 2, ..options(&url) };
    let remote = client(&options);
    let requested = texts(&["The cat sits outside", "A cat is sitting outdoors", "hello world"]);
    let vectors = remote.embed(&requested, soon()).await.expect("vectors");
    for (found, desired) in vectors[2].iter().zip([-0.034_477, 0.031_023, 0.006_735, 0.026_109, -0.039_362]) {
        assert!((found - desired).abs() < 1e-5, "{found} {desired}");
    }
    let alike: f32 = vectors[0].iter().zip(&vectors[1]).map(|(one, two)| one * two).sum();
    assert!(alike > 0.7 && remote.dimension() == Some(384), "{alike}");
}
