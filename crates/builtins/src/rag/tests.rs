//! Tests of the requests to the bridge, its results and its failures.

use serde_json::{Value, json};

use super::double::{Fault, HEALTH, INVOKE, LIST, SIX};
use super::fixture::{Fixture, KEY, open, options};
use super::health;
use crate::Builtin;
use protocol::error::code;
use upstream::api::{Delivery, Error, Events};

fn question() -> Value {
    json!({"query": "when do tokens expire"})
}

#[tokio::test]
async fn each_of_the_six_is_asked_under_its_own_name_and_answers_whole() {
    let fixture = Fixture::new().await;
    let mut expected: Vec<String> = SIX.iter().map(|name| format!("rag_{name}")).collect();
    expected.sort();
    expected.push("rag_health".into());
    assert_eq!(fixture.names(), expected);
    for name in SIX {
        let arguments =
            json!({"query": "how?", "top_k": 3, "params": {"temperature": 0.25, "deep": {"a": [1]}}});
        let answer = fixture.ask(&format!("rag_{name}"), arguments).await;
        assert_eq!(answer["answer"], format!("{name} says of \"how?\": it depends."));
        assert_eq!(answer["retrieved_documents"].as_array().map(Vec::len), Some(3));
        let params = json!({"temperature": 0.25, "deep": {"a": [1]}, "top_k": 3});
        assert_eq!(answer["metadata"]["params"], params);
    }
    let requested = fixture.bridge.seen().into_iter().rfind(|seen| seen.route == INVOKE);
    let body: Value = serde_json::from_str(&requested.expect("asked").body).expect("JSON");
    let members: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(members, ["params", "query", "technique"]);
}

#[tokio::test]
async fn unset_option_is_left_to_the_technique() {
    let fixture = Fixture::new().await;
    let answer = fixture.ask("rag_basic", json!({"query": "q", "top_k": null})).await;
    assert_eq!(answer["metadata"]["params"], json!({}));
}

#[tokio::test]
async fn a_result_reaches_the_caller_byte_for_byte() {
    let fixture = Fixture::new().await;
    let result = r#"{"answer":"a","confidence":1.0000000000000000001,"performance":{"execution_time_ms":1e0,"gpu":"x"},"sources":null,"metadata":{"z":1,"a":[{}]}}"#;
    fixture
        .bridge
        .fail(INVOKE, Some(Fault::body(&format!(r#"{{"success":true,"result": {result} ,"v":2}}"#))));
    let shown = fixture.result("rag_crag", question()).await;
    assert_eq!(shown.get("structuredContent").expect("structure").as_str(), result);
}

#[tokio::test]
async fn only_the_answer_has_to_be_there() {
    let fixture = Fixture::new().await;
    for result in [r#"{"answer":"a"}"#, r#"{"answer":null,"retrieved_documents":[1]}"#] {
        fixture.bridge.fail(INVOKE, Some(Fault::body(&format!(r#"{{"success":true,"result":{result}}}"#))));
        let answer = fixture.ask("rag_basic", question()).await;
        assert_eq!(answer.to_string(), result);
    }
}

#[tokio::test]
async fn a_technique_that_fails_says_which_one_and_why_and_is_no_fault_of_the_bridge() {
    let fixture = Fixture::with(|_, options| options.api_key = Some(KEY.to_owned().into())).await;
    let trace = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3\nKeyError: 'x'\n";
    for (error, cause) in [
        (json!("the model is\naway"), "the model is away"),
        (json!({"message": "no index"}), "no index"),
        (json!(null), "it did not say why"),
        (json!(7), "it did not say why"),
        (json!(" \n"), "it did not say why"),
        (json!(trace), "KeyError: 'x'"),
        (json!(format!("bad key {KEY}")), "bad key …"),
    ] {
        fixture.bridge.fail(INVOKE, Some(Fault::body(&json!({"success": false, "error": error}))));
        let said = fixture.refused("rag_graphrag", question()).await;
        assert_eq!(said["message"], format!("the technique graphrag gave no answer: {cause}"));
        assert_eq!(
            (&said["error"], &said["type"], &said["technique"], &said["retryable"]),
            (&json!("technique_failed"), &json!("service_unavailable"), &json!("graphrag"), &json!(false))
        );
        assert!(said["guidance"].as_str().is_some_and(|text| text.contains("rag_health")));
    }
    let long = json!({"success": false, "error": "x".repeat(100_000)});
    fixture.bridge.fail(INVOKE, Some(Fault::body(&long)));
    assert!(fixture.refused("rag_graphrag", question()).await.to_string().len() < 1_000);
}

#[tokio::test]
async fn a_question_that_the_bridge_does_not_take_is_the_askers_to_mend() {
    let fixture = Fixture::new().await;
    let fault =
        json!({"detail": [{"loc": ["body", "params", "depth"], "msg": "must be small", "input": "secret"}]});
    for (status, kind) in [(400, "invalid_params"), (422, "invalid_params"), (404, "not_found")] {
        fixture.bridge.fail(INVOKE, Some(Fault::status(status, &fault)));
        let said = fixture.refused("rag_crag", question()).await;
        assert_eq!(said["type"], kind, "{said}");
        assert!(
            said["message"].as_str().is_some_and(|text| text.contains("body.params.depth: must be small"))
        );
        assert!(!said.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn no_trace_of_the_bridge_is_shown_however_it_fails() {
    let fixture = Fixture::new().await;
    let trace = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\nKeyError: 'x'\n";
    for body in [
        json!({"detail": trace}),
        json!({"error": trace}),
        json!({"message": trace}),
        json!({"error": {"message": trace}}),
        json!({"detail": [{"loc": [], "msg": trace}]}),
    ] {
        for status in [500, 503] {
            fixture.bridge.fail(INVOKE, Some(Fault::status(status, &body)));
            let said = fixture.failure("rag_basic", question()).await.to_string();
            assert!(said.contains("KeyError: 'x'"), "{said}");
            assert!(!said.contains("Traceback") && !said.contains("app.py"), "{said}");
        }
        fixture.bridge.fail(INVOKE, Some(Fault::status(400, &body)));
        let said = fixture.refused("rag_basic", question()).await.to_string();
        assert!(said.contains("KeyError: 'x'") && !said.contains("Traceback"), "{said}");
        fixture.bridge.fail(HEALTH, Some(Fault::status(500, &body)));
        let told = fixture.ask("rag_health", json!({})).await.to_string();
        assert!(told.contains("KeyError: 'x'") && !told.contains("Traceback"), "{told}");
    }
    let only = trace.trim_end().trim_end_matches("KeyError: 'x'");
    fixture.bridge.fail(INVOKE, Some(Fault::status(500, &json!({"detail": only}))));
    let error = fixture.failure("rag_basic", question()).await;
    assert!(
        matches!(&error, Error::Backend { detail, .. } if detail == "HTTP 500 Internal Server Error"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_bridge_that_fails_counts_against_it() {
    let mut fixture = Fixture::new().await;
    for status in [500, 502, 503] {
        fixture.bridge.fail(INVOKE, Some(Fault::status(status, r#"{"detail":"broken"}"#)));
        let error = fixture.failure("rag_basic", question()).await;
        assert!(
            matches!(&error, Error::Backend { status: s, detail, .. } if *s == status && detail == "broken")
        );
        assert_eq!((error.trips_breaker(), error.is_server_error()), (true, true), "{status}");
    }
    for garbage in [
        "<html>",
        "[]",
        "{}",
        r#"{"success":"yes"}"#,
        r#"{"success":true}"#,
        r#"{"success":true,"result":null}"#,
        r#"{"success":true,"result":[]}"#,
        r#"{"success":true,"result":{}}"#,
        r#"{"success":true,"result":{"answer":{}}}"#,
        r#"{"success":true,"result":{"answer":"a","sources":{}}}"#,
        r#"{"success":true,"result":{"answer":"a","metadata":[]}}"#,
        r#"{"success":true,"result":{"answer":"a","performance":[1,2]}}"#,
        r#"{"success":true,"result":{"answer":"a","answer":"b"}}"#,
        r#"{"success":true,"result":{"answer":"a","performance":{"tokens_used":"many"}}}"#,
        r#"{"success":false,"success":true,"result":{"answer":"a"}}"#,
    ] {
        fixture.bridge.fail(INVOKE, Some(Fault::body(garbage)));
        let error = fixture.failure("rag_basic", question()).await;
        assert!(matches!(error, Error::Malformed { .. }) && error.trips_breaker(), "{garbage}: {error:?}");
    }
    fixture.bridge.kill();
    let error = fixture.failure("rag_basic", question()).await;
    assert!(error.trips_breaker() && error.delivery() != Delivery::Answered, "{error:?}");
}

#[tokio::test]
async fn arguments_are_judged_before_the_bridge_hears_of_them() {
    let fixture = Fixture::new().await;
    for (arguments, field) in [
        (json!({}), "query"),
        (json!({"query": " \n"}), "query"),
        (json!({"query": "q", "top_k": 0}), "top_k"),
        (json!({"query": "q", "top_k": 51}), "top_k"),
        (json!({"query": "q", "top_k": 1.5}), "top_k"),
        (json!({"query": "q", "params": []}), "params"),
        (json!({"query": "q", "params": {"top_k": 500}}), "params.top_k"),
        (json!({"query": "q", "technique": "crag"}), "technique"),
        (json!({"query": "q".repeat(20_001)}), "query"),
    ] {
        let said = fixture.refused("rag_basic", arguments).await;
        assert_eq!((&said["error"], &said["field"]), (&json!("invalid_argument"), &json!(field)), "{said}");
        assert_eq!(said["type"], "invalid_params");
        assert!(!said["valid_range"].is_null() && said["suggestion"].is_string());
    }
    assert_eq!(fixture.bridge.count(INVOKE), 0);
    for unknown in ["rag_", "basic", "rag_nothing"] {
        let error = fixture.reply(unknown, &question()).await.expect("ours").expect_err("no such tool");
        assert_eq!(error.code(), code::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_is_given_up_at_the_bridge() {
    let fixture = Fixture::new().await;
    fixture.bridge.fail(INVOKE, Some(Fault::Hang));
    let arguments = question();
    let (basic, requested) =
        (fixture.reply("rag_basic", &arguments), fixture.after(|| fixture.bridge.count(INVOKE) == 1));
    tokio::select! {
        _ = basic => panic!("it hangs"),
        () = requested => {}
    }
    // It does not delay other calls.
    fixture.bridge.fail(INVOKE, None);
    fixture.ask("rag_crag", question()).await;
}

#[tokio::test]
async fn the_key_goes_with_every_request_and_nowhere_else() {
    let fixture = Fixture::with(|bridge, options| {
        bridge.wants(KEY);
        options.api_key = Some(KEY.to_owned().into());
    })
    .await;
    fixture.ask("rag_basic", question()).await;
    fixture.ask(health::ABOUT.name, json!({})).await;
    let seen = fixture.bridge.seen();
    assert!([LIST, HEALTH, INVOKE].iter().all(|route| seen.iter().any(|one| one.route == *route)));
    let bearer = format!("Bearer {KEY}");
    assert!(seen.iter().all(|one| one.authorization.as_deref() == Some(&bearer) && !one.body.contains(KEY)));
    let without = Fixture::new().await;
    assert!(without.bridge.seen().iter().all(|one| one.authorization.is_none()));
}

#[tokio::test]
async fn client_with_refused_credentials_is_told_what_to_fix() {
    let fixture = Fixture::new().await;
    fixture.bridge.wants(KEY);
    for (key, word) in [(None, "wants a key"), (Some("other"), "does not take the key")] {
        let mut options = options(&fixture.bridge);
        options.api_key = key.map(|key| key.to_owned().into());
        let error = open(&options, Events::channel().0).await.err().expect("refused");
        let Error::AuthFailed { reason } = &error else { panic!("{error:?}") };
        assert!(
            reason.contains(word) && reason.contains("rag.api_key") && !reason.contains("other"),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_key_that_is_withdrawn_ends_the_connection() {
    let fixture = Fixture::new().await;
    fixture.bridge.wants(KEY);
    let error = fixture.failure("rag_basic", question()).await;
    assert!(matches!(error, Error::Backend { status: 401, .. }) && !error.trips_breaker(), "{error:?}");
    let reason = tokio::time::timeout(super::fixture::WAIT, fixture.ours.closed()).await.expect("it closes");
    assert!(reason.contains("wants a key"), "{reason}");
}

#[tokio::test]
async fn a_bridge_that_is_not_well_is_not_there() {
    let fixture = Fixture::new().await;
    fixture.ours.health().await.expect("well");
    for (fault, trips) in
        [(Fault::status(503, "{}"), true), (Fault::body("<html>"), true), (Fault::body("[]"), true)]
    {
        fixture.bridge.fail(HEALTH, Some(fault));
        let error = fixture.ours.health().await.expect_err("not well");
        assert_eq!(error.trips_breaker(), trips, "{error:?}");
        assert!(open(&options(&fixture.bridge), Events::channel().0).await.is_err());
    }
    // The bridge answers, so it is available. `rag_health` reports the state of its pipelines.
    fixture.bridge.fail(HEALTH, Some(Fault::body(r#"{"status":"degraded"}"#)));
    fixture.ours.health().await.expect("there");
}

#[tokio::test]
async fn its_health_is_told_as_it_says_it_and_also_when_it_says_nothing() {
    let mut fixture = Fixture::new().await;
    let told = fixture.ask("rag_health", json!({})).await;
    assert_eq!((&told["status"], &told["reachable"]), (&json!("healthy"), &json!(true)));
    assert_eq!(told["service"]["database"]["connected"], true);
    assert_eq!(told["techniques"].as_array().map(Vec::len), Some(6));
    fixture
        .bridge
        .fail(HEALTH, Some(Fault::body(r#"{"status":"degraded","pipelines":{"crag":"down"},"more":1e400}"#)));
    let shown = fixture.result("rag_health", json!({})).await;
    assert!(
        shown
            .as_str()
            .contains(r#""service":{"status":"degraded","pipelines":{"crag":"down"},"more":1e400}"#)
    );
    for (fault, word) in [
        (Fault::status(503, r#"{"detail":"no database"}"#), "no database"),
        (Fault::body("nothing"), "it is not JSON"),
        (Fault::body("[]"), "not what a RAG bridge answers"),
        (Fault::body(&format!(r#"{{"status":"{}"}}"#, "x".repeat(70_000))), "larger than"),
    ] {
        fixture.bridge.fail(HEALTH, Some(fault));
        let told = fixture.ask("rag_health", json!({})).await;
        assert_eq!((&told["status"], &told["reachable"]), (&json!("failing"), &json!(true)), "{told}");
        assert!(told["detail"].as_str().is_some_and(|text| text.contains(word)), "{told}");
    }
    fixture.bridge.kill();
    let told = fixture.ask("rag_health", json!({})).await;
    assert_eq!((&told["status"], &told["reachable"]), (&json!("unreachable"), &json!(false)));
    assert_eq!(told["techniques"].as_array().map(Vec::len), Some(6), "the last known ones");
    assert_eq!(fixture.refused("rag_health", json!({"x": 1})).await["field"], "x");
}
