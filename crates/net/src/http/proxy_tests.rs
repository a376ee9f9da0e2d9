//! The client behind a proxy: which form a request has, what a refusal is, and which hosts are named to the proxy. And
//! redirects, which the client follows within one origin.

use http::Method;
use runtime::shutdown::Shutdown;
use testkit::scripted::{ReceivedRequest, Step, TestServer, full, json};
use url::Url;

use super::*;

const LIMITS: ResponseLimits = ResponseLimits { bytes: 1024, time: Duration::from_secs(20) };

fn network(proxy: &Url, credentials: bool) -> Network {
    let proxy = Proxy::parse(proxy.origin().ascii_serialization().as_str(), "proxy").expect("a proxy");
    let proxy = if credentials { proxy.with_credentials("us", &"s3cret".into()) } else { proxy };
    Network::new(Some(Arc::new(Proxies::of(proxy, NoProxy::default()))), None)
}

async fn fetched(url: &str, dial_policy: DialPolicy, network: &Network) -> Result<WholeResponse, Error> {
    let url = Url::parse(url).expect(url);
    let client = Client::new(&url, (dial_policy, network), 1, &Shutdown::new())?;
    client.fetch(RequestBuilder::new(Method::POST, url).json(&["a"]), LIMITS).await
}

async fn through(
    url: &str,
    script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static,
) -> (TestServer, Error) {
    let proxy = TestServer::new(script).await;
    let error = fetched(url, DialPolicy::Anywhere, &network(&proxy.url, false)).await;
    (proxy, error.expect_err("it is refused"))
}

#[tokio::test]
async fn a_request_without_tls_is_passed_on_by_the_proxy() {
    let proxy = TestServer::new(|_| vec![json(200, "{}")]).await;
    let network = network(&proxy.url, true);
    for _ in 0..2 {
        fetched("http://u:p@mcp.invalid:81/a?b=c", DialPolicy::Anywhere, &network).await.expect("a response");
    }
    for seen in proxy.seen() {
        assert_eq!(seen.line, "POST http://mcp.invalid:81/a?b=c");
        assert_eq!(seen.header("host"), Some("mcp.invalid:81"));
        assert_eq!(seen.header("proxy-authorization"), Some("Basic dXM6czNjcmV0"));
        assert_eq!(seen.header("authorization"), Some("Basic dTpw"));
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
    }
}

#[tokio::test]
async fn a_refused_tunnel_is_told_as_the_proxys_and_sends_nothing() {
    let basic = "proxy-authenticate: Basic realm=\"x\"\r\n";
    for (status, headers, expected) in [
        (407, basic, "needs credentials (HTTP 407): set its `username` and `password"),
        (
            407,
            "proxy-authenticate: Negotiate\r\nproxy-authenticate: NTLM\r\n",
            "accepts only Negotiate, NTLM",
        ),
        (403, "", "does not allow mcp.invalid:443 (HTTP 403)"),
        (502, "", "cannot reach mcp.invalid:443 (HTTP 502)"),
        (405, "", "opens no tunnels (HTTP 405)"),
        (500, "", "refused a tunnel to mcp.invalid:443 (HTTP 500)"),
    ] {
        let (proxy, error) =
            through("https://mcp.invalid/a", move |_| vec![full(status, headers, "no")]).await;
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the proxy http://127.0.0.1:") && text.contains(expected), "{text}");
        let lines: Vec<_> = proxy.seen().into_iter().map(|seen| seen.line).collect();
        assert_eq!(lines, ["CONNECT mcp.invalid:443"]);
    }
}

#[tokio::test]
async fn a_proxy_that_closes_hangs_or_is_not_there_is_named() {
    let (_proxy, closed) = through("https://mcp.invalid/", |_| vec![Step::Close]).await;
    let (_proxy, hangs) = through("https://mcp.invalid/", |_| vec![Step::Hang]).await;
    let proxy = TestServer::new(|_| vec![Step::Close]).await;
    let url = proxy.url.clone();
    drop(proxy);
    let absent = fetched("http://mcp.invalid/", DialPolicy::Anywhere, &network(&url, false)).await;
    for (error, expected) in [
        (closed, "did not open a tunnel"),
        (hangs, "gave no connection within 5 s"),
        (absent.expect_err("nobody listens"), "cannot be reached"),
    ] {
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the proxy http://127.0.0.1:") && text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_proxy_that_asks_for_credentials_is_named_without_tls_too() {
    let (_proxy, error) = through("http://mcp.invalid/", |_| vec![full(407, "", "")]).await;
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("needs credentials (HTTP 407)"), "{error}");
}

#[tokio::test]
async fn an_address_that_may_not_be_reached_is_not_named_to_the_proxy() {
    let proxy = TestServer::new(|_| vec![full(502, "", "")]).await;
    let network = network(&proxy.url, false);
    for url in [
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://169.254.169.254/",
        "http://h.invalid/",
    ] {
        let error = fetched(url, DialPolicy::Public, &network).await.expect_err(url);
        assert!(matches!(error, Error::Connect { .. }), "{url}: {error:?}");
    }
    let unknown = fetched("https://h.invalid/", DialPolicy::Public, &network).await.expect_err("no address");
    assert!(unknown.to_string().contains("`allowed_hosts`"), "{unknown}");
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_once_and_no_other() {
    let server = TestServer::new(|seen| match seen.line.split(' ').nth(1) {
        Some("/a") => vec![full(307, "location: /a/\r\n", "")],
        Some("/b") => vec![full(308, "location: /a\r\n", "")],
        Some("/far") => vec![full(307, "location: http://127.0.0.2:1/\r\n", "")],
        Some("/same") => vec![full(307, "location: /same\r\n", "")],
        Some("/seen") => vec![full(303, "location: /a/\r\n", "")],
        _ => vec![json(200, "{}")],
    })
    .await;
    for (from, status, requests) in
        [("/a", 200, 2), ("/b", 307, 2), ("/far", 307, 1), ("/same", 307, 1), ("/seen", 303, 1)]
    {
        let before = server.seen().len();
        let url = server.url.join(from).expect("a URL");
        let response = fetched(url.as_str(), DialPolicy::Anywhere, &Network::default()).await;
        assert_eq!(response.expect("a response").status, status, "{from}");
        let seen = server.seen().split_off(before);
        assert_eq!(seen.len(), requests, "{from}");
        assert!(seen.iter().all(|seen| seen.line.starts_with("POST ") && seen.has("[\"a\"]")), "{from}");
    }
}

#[tokio::test]
async fn a_body_with_an_unknown_coding_is_named_and_its_status_stays() {
    let server = TestServer::new(|_| vec![full(503, "content-encoding: zstd\r\n", "x")]).await;
    let client = Client::new(&server.url, (DialPolicy::Anywhere, &Network::default()), 1, &Shutdown::new());
    let client = client.expect("a client");
    let response = client.request(RequestBuilder::new(Method::GET, server.url.clone())).await;
    let response = response.expect("a head");
    assert_eq!(response.status(), 503);
    let error = whole(response.into_body(), 100, client.origin()).await.expect_err("it cannot be read");
    assert!(error.to_string().contains("`zstd`"), "{error}");
}
