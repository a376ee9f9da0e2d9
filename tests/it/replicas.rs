//! Several gateways with one authorization server, from outside: on one machine by a shared folder, on several ones by Redis.

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::revoked::Open;
use crate::support::browser::Browser;
use crate::support::redis::Redis;
use crate::support::remote_client::{CALLBACK, Proof, RemoteClient, Tokens, free_address, refreshed_at_once};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";
const BOB: &str = "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210";
const VAULT_KEY: &str = "one key of the vault that all of these gateways share";

/// Gateways at two addresses with one public URL, which is that of the first one.
struct Replicas {
    addresses: [&'static str; 2],
    server: Server,
    /// Where their logins are, as settings.
    place: String,
}

impl Replicas {
    fn new(place: String) -> Self {
        let server = Scripted::modern().tool(Tool::named("one")).tool(Tool::named("slow").does(Act::Hang));
        Self { addresses: [free_address(), free_address()], server: server.start(), place }
    }

    fn in_redis(redis: &Redis) -> Self {
        Self::new(format!("redis_url: '{}'", redis.url()))
    }

    fn gateway(&self, at: usize, folder: &str, vault_key: &str) -> Gateway {
        let server = format!(
            "server: {{{}, public_url: 'http://{}', state_dir: '{folder}', vault_key: '${{VAULT_KEY}}', \
             authorization_server: {{keys: true, {}}}}}",
            api_keys(&[(ANN, "role: caller"), (BOB, "role: caller")]),
            self.addresses[0],
            self.place
        );
        let registry = Registry::new().http("one", &self.server.url()).setting(&server);
        Gateway::of(&registry).env("VAULT_KEY", vault_key).listening_on(self.addresses[at])
    }

    /// Starts both, each with the state folder `folder`, which is of its own if it is relative.
    async fn started(&self, folder: &str) -> [Running; 2] {
        let mut running = Vec::new();
        for at in 0..2 {
            let gateway = self.gateway(at, folder, VAULT_KEY).start().await;
            gateway.offers_to("one", &format!("Bearer {ANN}")).await;
            running.push(gateway);
        }
        running.try_into().unwrap_or_else(|_| panic!("two"))
    }

    async fn client(&self) -> RemoteClient {
        let endpoint = format!("http://{}/mcp", self.addresses[0]);
        RemoteClient::refused_at(&endpoint).await.registered(CALLBACK).await
    }

    /// `client` as it is seen by the second gateway: a balancer sends its requests there.
    fn at_the_other(&self, client: &RemoteClient) -> RemoteClient {
        let mut client = client.clone();
        let text = client.server.to_string().replace(self.addresses[0], self.addresses[1]);
        client.server = serde_json::from_str(&text).expect("JSON");
        client
    }

    fn mcp(&self, at: usize, tokens: &Tokens) -> Client {
        let url = format!("http://{}/mcp", self.addresses[at]);
        Client::at(&url).with_header("authorization", &tokens.bearer())
    }

    async fn status(&self, at: usize, tokens: &Tokens) -> u16 {
        self.mcp(at, tokens).call("one", json!({})).await.status
    }
}

#[tokio::test]
async fn login_at_one_gateway_is_one_at_the_other_and_its_end_there_ends_idle_streams_here() {
    let (shared, redis) = (tempfile::tempdir().expect("a folder"), Redis::start().await);
    let path = |folder: &Path| folder.to_str().expect("a path").to_owned();
    let in_folder = Replicas::new("registration: true".into());
    for (replicas, folder) in [(in_folder, path(shared.path())), (Replicas::in_redis(&redis), "state".into())]
    {
        let [_a, b] = replicas.started(&folder).await;
        let client = replicas.client().await;
        let other = replicas.at_the_other(&client);
        let tokens = client.logged_in(ANN, &[]).await;
        let bobs = other.refresh(&client.logged_in(BOB, &[]).await).await.tokens();
        assert_eq!([replicas.status(0, &tokens).await, replicas.status(1, &tokens).await], [200, 200]);
        let next = other.refresh(&tokens).await.tokens();
        assert_eq!(client.refresh(&tokens).await.tokens(), next, "the lost answer, from the other one");
        assert_eq!(replicas.status(0, &bobs).await, 200);

        let mut open = Open::of(&b, &next.access).await;
        let mut bobs_streams = Open::of(&b, &bobs.access).await;
        let ended = async {
            eventually("the call has reached the server", async || {
                (replicas.server.runs("slow") > 0).then_some(())
            })
            .await;
            let revoked = Instant::now();
            assert_eq!(client.revoke(next.refresh.as_deref().expect("a refresh token")).await, 200);
            open.ends().await;
            revoked
        };
        let mcp = replicas.mcp(1, &next);
        let (answer, revoked) = tokio::join!(mcp.call("slow", json!({})), ended);
        let took = revoked.elapsed();
        assert!(answer.status == 401 && took < Duration::from_secs(3), "{answer:?} after {took:?}");
        assert_eq!(open.next_requests().await, [401, 401]);
        assert_eq!(replicas.status(1, &next).await, 401);
        assert_eq!(other.refresh(&next).await.json["error"], "invalid_grant");
        assert_eq!(replicas.status(1, &bobs).await, 200, "others are not affected");
        assert_eq!(other.revoke(bobs.refresh.as_deref().expect("a refresh token")).await, 200);
        bobs_streams.ends().await;
    }
}

#[tokio::test]
async fn thousand_refreshes_at_once_at_two_machines_get_one_answer() {
    let redis = Redis::start().await;
    let replicas = Replicas::in_redis(&redis);
    let _running = replicas.started("state").await;
    let client = replicas.client().await;
    let other = replicas.at_the_other(&client);
    let tokens = client.logged_in(ANN, &[]).await;
    let next = refreshed_at_once([&client, &other], &tokens).await;
    assert_eq!([replicas.status(0, &next).await, replicas.status(1, &next).await], [200, 200]);
}

#[tokio::test]
async fn while_redis_is_away_known_tokens_are_accepted_and_nothing_else_opens() {
    let redis = Redis::start_durable().await;
    let replicas = Replicas::in_redis(&redis);
    let [a, b] = replicas.started("state").await;
    let client = replicas.client().await;
    let (known, unknown) = (client.logged_in(ANN, &[]).await, client.logged_in(BOB, &[]).await);
    assert_eq!(replicas.status(0, &known).await, 200);
    let mut open = Open::of(&a, &known.access).await;
    drop(b);
    let (port, data) = redis.kill_and_keep();

    // Its grant was looked up within the minute. The time after it is that of `token_check_tests` of `authorization`.
    assert_eq!(replicas.status(0, &known).await, 200);
    let refused = replicas.mcp(0, &unknown).call("one", json!({})).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"));
    let form = |fields: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
    };
    let at = |path: &str| Client::at(&format!("http://{}{path}", replicas.addresses[0]));
    let refresh = known.refresh.as_deref().expect("a refresh token");
    let fields =
        form(&[("grant_type", "refresh_token"), ("client_id", &client.id), ("refresh_token", refresh)]);
    let as_form = ("content-type", "application/x-www-form-urlencoded");
    let registration = json!({"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}).to_string();
    for (path, body, headers) in [
        ("/oauth/token", &fields, &[as_form][..]),
        ("/oauth/revoke", &form(&[("token", refresh), ("client_id", &client.id)]), &[as_form]),
        ("/oauth/register", &registration, &[]),
    ] {
        let answer = at(path).post(body, headers).await;
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert!(answer.headers.contains_key("retry-after"), "{path}");
        assert!(answer.body.contains("temporarily_unavailable"), "{path}: {answer:?}");
    }
    let page = client.ask(&Browser::new(), ANN, &Proof::new(), &[]).await;
    assert!(page.status == 503 && page.text.contains("temporarily_unavailable"), "{}", page.text);

    // A gateway that starts now, and does not know the keys.
    let b = replicas.gateway(1, "state", VAULT_KEY).start().await;
    b.offers_to("one", &format!("Bearer {ANN}")).await;
    assert_eq!(replicas.status(1, &known).await, 503);
    let keys = Client::at(&format!("http://{}/oauth/jwks.json", replicas.addresses[1]));
    assert_eq!(keys.bare(Method::GET, &[]).await.status, 503);

    let _redis = Redis::start_with(port, data).await;
    for (at, tokens) in [(0, &known), (0, &unknown), (1, &known), (1, &unknown)] {
        let accepted = async || (replicas.status(at, tokens).await == 200).then_some(());
        eventually("it is accepted", accepted).await;
    }
    let next = client.refresh(&known).await.tokens();
    assert_eq!(replicas.status(1, &next).await, 200);
    assert_eq!(client.revoke(next.refresh.as_deref().expect("a refresh token")).await, 200);
    open.ends().await;
}

#[tokio::test]
async fn gateway_with_another_key_of_the_vault_is_refused_and_changes_nothing() {
    let redis = Redis::start().await;
    let replicas = Replicas::in_redis(&redis);
    let _running = replicas.started("state").await;
    let client = replicas.client().await;
    let tokens = client.logged_in(ANN, &[]).await;
    let stranger = replicas.gateway(1, "state", "another key of the vault, as long as that of the others");
    let (status, text) = stranger.printed(&["serve", "--config", "mcp_servers.yaml"]);
    assert!(!status.success() && text.contains("sealed with another `vault_key`"), "{text}");
    assert!(!text.contains("another key of the vault, as"), "{text}");
    assert_eq!(client.refresh(&tokens).await.status, 200);

    let with = |more: &str| {
        let server = format!(
            "server: {{{}, public_url: 'https://gw.example', authorization_server: {{keys: true, {more}}}}}",
            api_keys(&[(ANN, "role: caller")])
        );
        let gateway = Gateway::of(&Registry::new().setting(&server));
        gateway.printed(&["check", "mcp_servers.yaml"]).1
    };
    let missing = with("redis_url: 'redis://:canary@localhost:1'");
    assert!(missing.contains("`redis_url` needs `vault_key`") && !missing.contains("canary"), "{missing}");
    let bad = with("redis_url: 'http://localhost:1'");
    assert!(bad.contains("is not the URL of a Redis") && bad.contains("redis://host:6379"), "{bad}");
}
