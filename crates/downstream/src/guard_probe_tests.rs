//! Tests of health checks from a supervisor that knows only an address: they are answered, other
//! requests are not.

use super::*;

#[tokio::test]
async fn probes_are_answered_whatever_the_host_is_and_nothing_else_is() {
    let (config, key) = with_key();
    let (door, bearer) = (door(&config), format!("Bearer {key}"));
    let pod = ("host", "10.1.2.3:8080");
    let page = ("origin", "http://evil.example");
    for (method, path, headers, expected) in [
        ("GET", "/health/live", &[pod][..], 200),
        ("HEAD", "/health/ready", &[pod], 200),
        ("GET", "/health/ready?x", &[pod], 200),
        ("GET", "/health/ready", &[("host", "evil.example")], 200),
        ("GET", "/health/ready", &[("host", "no host at all")], 200),
        ("GET", "/health/ready", &[], 400),
        ("GET", "/health/ready", &[pod, pod], 400),
        ("POST", "/health/live", &[pod], 403),
        ("OPTIONS", "/health/live", &[pod], 403),
        ("GET", "/health/live", &[pod, page], 403),
        ("GET", "/health/live", &[("host", "localhost"), page], 403),
        ("GET", "/health/live/", &[pod], 403),
        ("GET", "/health/live/../../mcp", &[pod], 403),
        ("GET", "/health", &[pod], 200),
        ("GET", "/health", &[("host", "[fd00::1]:8080")], 200),
        ("GET", "/health", &[("host", "evil.example")], 403),
        ("GET", "/health", &[pod, page], 403),
        ("POST", "/health", &[pod], 403),
        ("GET", "/", &[pod], 403),
        ("GET", "/mcp", &[pod, ("authorization", &bearer)], 403),
        ("GET", "/metrics", &[pod, ("authorization", &bearer)], 403),
    ] {
        let request_to_send = request(method, path, headers).body(Body::empty()).expect("a request");
        let answer = ask(&door, request_to_send).await;
        assert_eq!(answer.status().as_u16(), expected, "{method} {path} {headers:?}");
        assert!(!answer.headers().contains_key("access-control-allow-origin"), "{method} {path}");
    }
    // The host of a health check does not become an accepted one.
    assert_eq!(get_from(&door, "/", &[pod]).await.status(), StatusCode::FORBIDDEN);
}
