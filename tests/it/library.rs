//! The library inside this test as its host program: servers written in code, and calls of their tools.

use serde::Deserialize;
use serde_json::json;
use switchyard_mcp::{CallError, ServerConfig, StartError, Switchyard};

use crate::support::child;
use crate::support::scripted::{Act, Scripted, Tool};

#[derive(Debug, Deserialize, PartialEq)]
struct Weather {
    degrees: i32,
}

#[tokio::test]
async fn a_host_program_calls_tools_of_servers_that_it_wrote_in_code() {
    let typed = r#"{"content":[{"type":"text","text":"mild"},{"type":"image","data":"eA==","mimeType":"image/png"},{"type":"text","text":"dry"}],"structuredContent":{"degrees":12}}"#;
    let failed = r#"{"content":[{"type":"text","text":"no such town"}],"isError":true}"#;
    let server = Scripted::modern()
        .tool(Tool::named("weather").does(Act::Result(typed.to_owned())).does(Act::Result(failed.to_owned())))
        .start();
    let http =
        ServerConfig::http(&server.url()).header("x-town", "a $HOME ${secret:x} b").header("x-place", "~/a");
    let switchyard = Switchyard::builder().server("http", http).start().expect("it starts");

    let response = switchyard.call("weather", &json!({"town": "Bern"})).await.expect("a result");
    assert_eq!((response.is_error(), response.text().as_str()), (false, "mild\ndry"));
    assert_eq!(response.structured::<Weather>().expect("typed"), Weather { degrees: 12 });
    assert_eq!((response.content().len(), response.server()), (3, "http"));
    assert!(response.json().contains(r#""data":"eA==""#), "{response:?}");
    let sent = &server.seen_calling("tools/call")[0];
    assert_eq!(sent.header("x-town"), Some("a $HOME ${secret:x} b"), "a dollar sign refers to nothing");
    assert_eq!(sent.header("x-place"), Some("~/a"));

    let refused = switchyard.call_at("http", "weather", &json!({})).await.expect("a result");
    assert_eq!((refused.is_error(), refused.text().as_str()), (true, "no such town"));
    let missing = refused.structured::<Weather>().expect_err("there is none").to_string();
    assert!(missing.contains("no `structuredContent`"), "{missing}");

    let names: Vec<String> = switchyard.tools().await.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["weather"]);
    assert!(switchyard.shutdown().await);
}

#[tokio::test]
async fn a_host_program_starts_a_child_process_with_its_arguments() {
    let stdio = ServerConfig::stdio(&child::program()).args(["--era", "legacy", "--tools", "echo,read"]);
    let switchyard = Switchyard::builder().server("child", stdio).start().expect("it starts");
    let response = switchyard.call("echo", &json!({"a": 1})).await.expect("a result");
    assert_eq!(response.server(), "child");
    assert_eq!(switchyard.tools().await.len(), 2);
    assert!(switchyard.shutdown().await);
}

#[tokio::test]
async fn each_failure_of_the_library_says_what_it_is() {
    let server = Scripted::modern()
        .tool(Tool::named("refuses").does(Act::Error(r#"{"code":-32602,"message":"no town"}"#.to_owned())))
        .start();
    let wrong = ServerConfig::http("localhost").set("timout", 5);
    let error =
        Switchyard::builder().server("a", wrong).set("tool_nams", "auto").start().err().expect("invalid");
    assert!(matches!(error, StartError::Config(_)));
    let text = error.to_string();
    for part in ["timout", "timeout", "tool_nams", "url"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let switchyard =
        Switchyard::builder().server("a", ServerConfig::http(&server.url())).start().expect("it starts");
    match switchyard.call("refuses", &json!({})).await {
        Err(CallError::Refused { code, message, data }) => {
            assert_eq!((code, message.as_str(), data.is_none()), (-32602, "no town", true));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(switchyard.call("refuses", &json!([1])).await, Err(CallError::NotAnObject)));
    let unknown = switchyard.call("refuse", &json!({})).await.expect_err("unknown");
    let CallError::Failed(failure) = unknown else { panic!("{unknown:?}") };
    assert_eq!(
        (failure.code, failure.is_retryable, &failure.nearest[..]),
        ("tool_not_found", false, &["refuses".to_owned()][..])
    );
    assert!(failure.to_string().contains("refuse") && !failure.hint.is_empty(), "{failure:?}");
    assert_eq!(server.runs("refuses"), 1);
    assert!(switchyard.shutdown().await);
}
