//! Clients behind a reverse proxy, from outside: each has limits of its own, by the address that the proxy names, and none can
//! choose that address.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use http::HeaderValue;
use serde_json::json;

use crate::support::remote_client::{CALLBACK, RemoteClient, free_address};
use crate::support::{Gateway, Registry, Running, WAIT, api_keys, forwarded};

const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";

/// A reverse proxy that appends the address of each client to `X-Forwarded-For`, and passes on everything else.
#[derive(Clone)]
struct Proxy {
    http: reqwest::Client,
    gateway: &'static str,
}

impl Proxy {
    /// Serves requests at `address`.
    #[allow(clippy::disallowed_methods)] // a test's own task, which ends with its runtime
    async fn start(address: &str, gateway: &'static str) {
        let proxy = Self { http: client_at([127, 0, 0, 1]), gateway };
        let routes = Router::new().fallback(pass_on).with_state(proxy);
        let listener = tokio::net::TcpListener::bind(address).await.expect("a port");
        let service = routes.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
    }
}

async fn pass_on(
    State(proxy): State<Proxy>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Response {
    let headers = request.headers_mut();
    let sent = headers.get("x-forwarded-for").map(|sent| sent.to_str().expect("ASCII").to_owned());
    let named = sent.into_iter().chain([client.ip().to_string()]).collect::<Vec<_>>().join(", ");
    headers.insert("x-forwarded-for", HeaderValue::from_str(&named).expect("a header"));
    forwarded(&proxy.http, &format!("http://{}", proxy.gateway), request).await
}

/// An HTTP client whose connections come from `address`.
fn client_at(address: [u8; 4]) -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().timeout(WAIT).local_address(IpAddr::from(address));
    client.redirect(reqwest::redirect::Policy::none()).build().expect("a client")
}

/// A gateway behind a proxy at `proxy`, with `more` in `server`.
struct Site {
    proxy: &'static str,
    gateway: Running,
}

impl Site {
    async fn start(more: &str) -> Self {
        let (proxy, address) = (free_address(), free_address());
        let server = format!(
            "server: {{{}, public_url: 'http://{proxy}', state_dir: state, authorization_server: {{keys: true}}, {more}}}",
            api_keys(&[(ANN, "role: caller")])
        );
        let gateway = Gateway::of(&Registry::new().setting(&server)).listening_on(address).start().await;
        Proxy::start(proxy, address).await;
        Self { proxy, gateway }
    }

    /// Sends `count` registrations from `client` to `target` with `headers`, and returns how many were accepted and how many
    /// refused.
    async fn register(
        client: &reqwest::Client,
        target: &str,
        count: usize,
        headers: impl Fn(usize) -> Vec<(&'static str, String)>,
    ) -> [usize; 2] {
        let body = json!({"redirect_uris": [CALLBACK]}).to_string();
        let mut counts = [0; 2];
        for at in 0..count {
            let mut request = client.post(format!("http://{target}/oauth/register")).body(body.clone());
            request = request.header("content-type", "application/json");
            for (name, value) in headers(at) {
                request = request.header(name, value);
            }
            match request.send().await.expect("an answer").status().as_u16() {
                201 => counts[0] += 1,
                429 => counts[1] += 1,
                status => panic!("{status}"),
            }
        }
        counts
    }
}

fn nothing(_: usize) -> Vec<(&'static str, String)> {
    Vec::new()
}

/// Whether the limit of one address (15 at once) was met, with some room for slow machines.
#[track_caller]
fn assert_limited([accepted, refused]: [usize; 2]) {
    assert!((15..25).contains(&accepted) && refused >= 15, "{accepted} accepted, {refused} refused");
}

#[tokio::test]
async fn flood_of_one_client_behind_a_proxy_shuts_out_no_other_one() {
    let site = Site::start("trusted_proxies: [127.0.0.1]").await;
    let flood = client_at([127, 0, 0, 2]);
    assert_limited(Site::register(&flood, site.proxy, 40, nothing).await);
    let other = client_at([127, 0, 0, 3]);
    assert_eq!(Site::register(&other, site.proxy, 10, nothing).await, [10, 0]);
    // A client on the machine of the proxy logs in and refreshes meanwhile.
    let url = format!("http://{}/mcp", site.proxy);
    let client = RemoteClient::refused_at(&url).await.registered(CALLBACK).await;
    let tokens = client.logged_in(ANN, &[]).await;
    assert_eq!(client.refresh(&tokens).await.status, 200);
    let [accepted, refused] = Site::register(&flood, site.proxy, 40, nothing).await;
    assert!(refused >= 15, "{accepted} accepted, {refused} refused");
}

#[tokio::test]
async fn client_cannot_choose_its_address_by_what_it_sends_through_the_proxy() {
    let site = Site::start("trusted_proxies: [127.0.0.0/31]").await;
    let invented = |at: usize| {
        let address = format!("198.51.100.{at}");
        let of_victim = ["127.0.0.3", "unknown", "\"", "127.0.0.1"][at % 4];
        vec![
            ("x-forwarded-for", format!("{address}, {of_victim}")),
            ("forwarded", format!("for={address}")),
            ("x-real-ip", address),
        ]
    };
    assert_limited(Site::register(&client_at([127, 0, 0, 2]), site.proxy, 40, invented).await);
    let victim = client_at([127, 0, 0, 3]);
    assert_eq!(Site::register(&victim, site.proxy, 10, nothing).await, [10, 0]);
}

#[tokio::test]
async fn header_of_a_peer_that_is_not_trusted_changes_nothing() {
    let named = |at: usize| vec![("x-forwarded-for", format!("198.51.100.{at}"))];
    // A client that bypasses the proxy.
    let site = Site::start("trusted_proxies: [127.0.0.1]").await;
    let direct = client_at([127, 0, 0, 2]);
    assert_limited(Site::register(&direct, &site.gateway.address, 40, named).await);
    assert_eq!(Site::register(&client_at([127, 0, 0, 3]), &site.gateway.address, 5, nothing).await, [5, 0]);
    // No proxy is trusted: all of its clients are one.
    let site = Site::start("trusted_proxies: []").await;
    assert_limited(Site::register(&client_at([127, 0, 0, 2]), site.proxy, 40, named).await);
    let [_, refused] = Site::register(&client_at([127, 0, 0, 3]), site.proxy, 20, nothing).await;
    assert!(refused >= 10, "{refused}");
}

#[tokio::test]
async fn check_names_a_proxy_that_is_not_trusted_and_a_list_that_trusts_everybody() {
    let checked = |more: &str| {
        let server = format!(
            "server: {{{}, public_url: 'https://gw.example', state_dir: state, authorization_server: {{keys: true}}, {more}}}",
            api_keys(&[(ANN, "role: caller")])
        );
        let output = Gateway::of(&Registry::new().setting(&server)).output(&["check"]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let warning = "all clients of the authorization server share one limit";
    assert!(checked("max_sockets: 64").contains(warning));
    assert!(!checked("trusted_proxies: [127.0.0.1]").contains(warning));
    for (entry, expected) in [
        ("0.0.0.0/0", "every client could invent its address"),
        ("::/0", "every client could invent its address"),
        ("proxy.example", "is not an address or a network"),
        ("10.0.0.0/33", "is not an address or a network"),
        ("\"::ffff:10.0.0.1\"", "is not an address or a network"),
    ] {
        let text = checked(&format!("trusted_proxies: [{entry}]"));
        assert!(text.contains("server.trusted_proxies[0]") && text.contains(expected), "{entry}: {text}");
    }
    let text = checked("trusted_proxies: [10.0.0.0/8], client_address_header: X-Real-IP");
    assert!(text.contains("client_address_header") && text.contains("X-Forwarded-For"), "{text}");
}
