//! The authorization server of the gateway, from outside: remote clients log people in, and their tokens end with what they
//! come from.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::revoked::Open;
use crate::support::browser::Browser;
use crate::support::remote_client::{CALLBACK, Proof, RemoteClient, Tokens, free_address, refreshed_at_once};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, api_keys, eventually};

const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";
const BOB: &str = "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210";
/// Another key with the name of the first one.
const OTHER_ANN: &str = "swy_ann_00000000000000000000000000000000000000000000beef";

/// A gateway whose public URL is its own address.
struct Site {
    address: &'static str,
    one: Server,
    two: Server,
}

impl Site {
    fn new() -> Self {
        let server = |tool: &str| {
            Scripted::modern().tool(Tool::named(tool)).tool(Tool::named("slow").does(Act::Hang)).start()
        };
        Self { address: free_address(), one: server("one"), two: server("two") }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The configuration with `keys`, and with `more` in `server`.
    fn registry(&self, keys: &[(&str, &str)], more: &str) -> Registry {
        let server = format!(
            "server: {{{}, public_url: 'http://{}', state_dir: state, authorization_server: {{keys: true}}{more}}}",
            api_keys(keys),
            self.address
        );
        let servers = Registry::new().http("one", &self.one.url()).http("two", &self.two.url());
        servers.setting(&server).setting("views: {help: {servers: [two]}}").setting("tool_names: prefixed")
    }

    async fn started(&self, keys: &[(&str, &str)]) -> Running {
        let gateway = Gateway::of(&self.registry(keys, "")).listening_on(self.address).start().await;
        gateway.offers_to("one__one", &format!("Bearer {}", keys[0].0)).await;
        gateway.offers_to("two__two", &format!("Bearer {}", keys[0].0)).await;
        gateway
    }

    /// A client that has registered itself, for the endpoint at `path`.
    async fn client(&self, path: &str) -> RemoteClient {
        RemoteClient::refused_at(&self.url(path)).await.registered(CALLBACK).await
    }

    /// An MCP client with `tokens` at `path`.
    fn mcp(&self, path: &str, tokens: &Tokens) -> Client {
        Client::at(&self.url(path)).with_header("authorization", &tokens.bearer())
    }

    /// The status of a REST request with `tokens`.
    async fn rest(&self, route: &str, tokens: &Tokens) -> u16 {
        self.mcp(&format!("/api/v1/mcp{route}"), tokens).bare(Method::GET, &[]).await.status
    }
}

const CALLER: &str = "role: caller";

async fn tools_of(client: &Client) -> Vec<String> {
    let mut names = client.modern("tools/list", json!({})).await.tool_names();
    names.sort();
    names
}

/// The texts of all files below `folder`.
fn texts_below(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts_below(&path, texts);
        } else {
            texts.push(String::from_utf8_lossy(&std::fs::read(&path).expect("a file")).into_owned());
        }
    }
}

/// The records of grants in the state folder of `gateway`.
fn grants(gateway: &Path) -> Vec<PathBuf> {
    let of_issuer = std::fs::read_dir(gateway.join("state/authorization")).expect("a folder");
    let folders = of_issuer.map(|entry| entry.expect("an entry").path().join("grants"));
    let files = folders
        .filter(|folder| folder.exists())
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let files = files.map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().contains("records")))
        .collect()
}

#[tokio::test]
async fn remote_client_gets_from_a_refusal_to_calls_and_its_revocation_ends_them() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, "role: superuser")]).await;
    let client = site.client("/mcp").await;
    assert_eq!(client.resource["authorization_servers"], json!([site.url("")]));
    assert_eq!(client.resource["scopes_supported"], json!(["mcp:read", "mcp:call"]));
    assert_eq!(client.scope.as_deref(), Some("mcp:call"));
    let tokens = client.logged_in(ANN, &[]).await;
    assert_eq!(tokens.scope, "mcp:read mcp:call", "as requested, though the key may do more");

    let mcp = site.mcp("/mcp", &tokens);
    assert_eq!(mcp.call("one__one", json!({})).await.status, 200);
    let session = mcp.legacy().await;
    let called = session.request("tools/call", json!({"name": "two__two", "arguments": {}})).await;
    assert_eq!((called.status, called.text().as_str()), (200, "{}"), "{called:?}");
    assert_eq!(site.rest("/servers", &tokens).await, 200);
    let call = json!({"server": "one", "tool": "one", "arguments": {}}).to_string();
    assert_eq!(site.mcp("/api/v1/mcp/call", &tokens).post(&call, &[]).await.status, 200);

    let next = client.refresh(&tokens).await.tokens();
    assert!(next.access != tokens.access && next.refresh != tokens.refresh);
    let mut open = Open::of(&gateway, &next.access).await;
    let ended = async {
        let began = || site.one.runs("slow") > 0;
        eventually("the call has reached the server", async || began().then_some(())).await;
        let revoked = Instant::now();
        assert_eq!(client.revoke(next.refresh.as_deref().expect("a refresh token")).await, 200);
        open.ends().await;
        revoked
    };
    let mcp = site.mcp("/mcp", &next);
    let (answer, revoked) = tokio::join!(mcp.call("one__slow", json!({})), ended);
    let took = revoked.elapsed();
    assert!(answer.status == 401 && took < Duration::from_secs(1), "{answer:?} after {took:?}");
    assert_eq!(open.next_requests().await, [401, 401]);
    for gone in [&tokens, &next] {
        assert_eq!(site.rest("/servers", gone).await, 401);
        assert_eq!(client.refresh(gone).await.json["error"], "invalid_grant");
    }
    assert_eq!(grants(gateway.folder()), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn token_is_accepted_at_its_endpoint_and_in_its_view_alone() {
    let (site, other) = (Site::new(), Site::new());
    let gateway = site.started(&[(ANN, CALLER)]).await;
    let _other_gateway = other.started(&[(ANN, CALLER)]).await;

    let of_view = site.client("/mcp/help").await;
    let tokens = of_view.logged_in(ANN, &[]).await;
    assert_eq!(tokens.scope, "mcp:read mcp:call view:help");
    for path in ["/mcp/help", "/mcp"] {
        assert_eq!(tools_of(&site.mcp(path, &tokens)).await, ["two__slow", "two__two"], "{path}");
    }
    assert!(site.mcp("/mcp", &tokens).call("one__one", json!({})).await.error().is_object());
    let in_scope = site.client("/mcp").await.logged_in(ANN, &[("scope", "mcp:call view:help")]).await;
    assert_eq!(tools_of(&site.mcp("/mcp", &in_scope)).await, ["two__slow", "two__two"]);

    let of_server = site.client("/mcp/one").await.logged_in(ANN, &[]).await;
    assert_eq!(tools_of(&site.mcp("/mcp/one", &of_server)).await.len(), 2);
    for path in ["/mcp", "/mcp/two", "/mcp/help", "/sse", "/sse/one"] {
        assert_eq!(site.mcp(path, &of_server).modern("tools/list", json!({})).await.status, 401, "{path}");
    }
    assert_eq!(site.rest("/servers", &of_server).await, 401);

    // The old transport posts to one path for all servers.
    let whole = site.client("/mcp").await.logged_in(ANN, &[]).await;
    let of_old = site.client("/sse/one").await.logged_in(ANN, &[]).await;
    for (path, opener, expected) in [("/sse", &whole, 404), ("/sse/one", &of_old, 202)] {
        let mut stream = site.mcp(path, opener).listen().await;
        let messages = stream.event().await.expect("the first event").data;
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(site.mcp(&messages, &of_old).post(ping, &[]).await.status, expected, "{path}");
        assert_eq!(site.mcp(&messages, &whole).post(ping, &[]).await.status, 202, "{path}");
    }

    let foreign = other.client("/mcp").await.logged_in(ANN, &[]).await;
    assert_eq!(other.rest("/servers", &foreign).await, 200);
    assert_eq!(site.rest("/servers", &foreign).await, 401);
    drop(gateway);
}

#[tokio::test]
async fn grants_end_with_the_key_of_their_owner_and_follow_its_rights() {
    let site = Site::new();
    let gateway = site.started(&[(BOB, "role: superuser"), (ANN, CALLER)]).await;
    let client = site.client("/mcp").await;
    let (anns, bobs) = (client.logged_in(ANN, &[]).await, client.logged_in(BOB, &[]).await);
    let bobs_streams = Open::of(&gateway, &bobs.access).await;

    let mut open = Open::of(&gateway, &anns.access).await;
    gateway.reload_with(&site.registry(&[(BOB, "role: superuser"), (ANN, "role: reader")], "")).await;
    open.ends().await;
    let mcp = site.mcp("/mcp", &anns);
    assert_eq!(tools_of(&mcp).await.len(), 4, "the token is still good for reading");
    assert_ne!(mcp.call("one__one", json!({})).await.status, 200, "and no more for calls");
    let anns = client.refresh(&anns).await.tokens();
    assert_eq!(anns.scope, "mcp:read");
    gateway
        .reload_with(&site.registry(&[(BOB, "role: superuser"), (ANN, "role: caller, view: help")], ""))
        .await;
    assert_eq!(tools_of(&site.mcp("/mcp", &anns)).await, ["two__slow", "two__two"]);

    // Another key of the same name: the tokens of the first one are no good for it.
    let mut open = Open::of(&gateway, &anns.access).await;
    gateway.reload_with(&site.registry(&[(BOB, "role: superuser"), (OTHER_ANN, CALLER)], "")).await;
    open.ends().await;
    assert_eq!(site.rest("/servers", &anns).await, 401);
    assert_eq!(client.refresh(&anns).await.json["error"], "invalid_grant");
    eventually("its grant is removed", async || (grants(gateway.folder()).len() == 1).then_some(())).await;

    let other = client.logged_in(OTHER_ANN, &[]).await;
    let mut open = Open::of(&gateway, &other.access).await;
    gateway.reload_with(&site.registry(&[(BOB, "role: superuser")], "")).await;
    open.ends().await;
    assert_eq!(open.next_requests().await, [401, 401]);
    assert_eq!(site.rest("/servers", &other).await, 401);
    eventually("its grant is removed", async || (grants(gateway.folder()).len() == 1).then_some(())).await;
    assert_eq!(bobs_streams.next_requests().await, [200, 202], "others notice nothing");
    assert_eq!(client.refresh(&bobs).await.status, 200);
}

#[tokio::test]
async fn key_of_the_key_file_ends_its_grants_without_a_reload() {
    let site = Site::new();
    let settings = format!(
        "server: {{auth_mode: api_key, keys_file: keys.json, public_url: 'http://{}', state_dir: state, \
         authorization_server: {{keys: true}}}}",
        site.address
    );
    let gateway = Gateway::of(&Registry::new().http("one", &site.one.url()).setting(&settings));
    let key = |arguments: &[&str]| {
        let output = gateway.output(&[&["key"], arguments].concat());
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let made = key(&["add", "goes"]);
    let gateway = gateway.listening_on(site.address).start().await;
    let client = site.client("/mcp").await;
    let tokens = client.logged_in(&made, &[]).await;
    let mut open = Open::of(&gateway, &tokens.access).await;
    gateway.gateway().output(&["key", "revoke", "goes"]);
    open.ends().await;
    assert_eq!(site.rest("/servers", &tokens).await, 401);
    eventually("its grant is removed", async || grants(gateway.folder()).is_empty().then_some(())).await;
}

#[tokio::test]
async fn grants_and_tokens_outlive_a_restart_and_keys_that_went_meanwhile_do_not() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, CALLER), (BOB, CALLER)]).await;
    let client = site.client("/mcp").await;
    let (anns, bobs) = (client.logged_in(ANN, &[]).await, client.logged_in(BOB, &[]).await);
    let gateway = gateway.end().await;
    std::fs::write(gateway.folder().join("mcp_servers.yaml"), site.registry(&[(ANN, CALLER)], "").yaml())
        .expect("written");
    let gateway = gateway.start().await;
    assert_eq!(site.rest("/servers", &anns).await, 200);
    assert_eq!(site.rest("/servers", &bobs).await, 401);
    eventually("the grant of the revoked key is removed", async || {
        (grants(gateway.folder()).len() == 1).then_some(())
    })
    .await;
    let next = client.refresh(&anns).await.tokens();
    assert_eq!(site.rest("/servers", &next).await, 200);
    assert_eq!(client.refresh(&bobs).await.json["error"], "invalid_grant");
}

/// A link that somebody else began reaches a person whose consent is remembered: it gives no code without a click.
#[tokio::test]
async fn link_of_a_stranger_gives_no_code_before_a_remembered_person_continues() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, CALLER), (BOB, CALLER)]).await;
    let client = site.client("/mcp").await;
    let (anns, own) = (Browser::new(), Proof::new());
    let target = client.allowed(&anns, ANN, &own, &[]).await;
    client.redeem(&client.code(&target), &own, None).await.tokens();
    let stranger = Proof::new();
    let page = anns.get(&client.authorization_url(&stranger, &[])).await;
    assert!(page.status == 200 && page.target.is_none(), "{page:?}");
    for text in ["Continue to claude.ai?", ">Continue</button>", ">Deny</button>", "key:ann", "Test client"] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("class=\"alert\""), "the warnings were shown before: {}", page.text);
    // Another browser cannot send the form.
    let bobs = Browser::new();
    client.ask(&bobs, BOB, &Proof::new(), &[]).await;
    for other in [&bobs, &Browser::new()] {
        let forged = other.send(&page, &[("decision", "allow")]).await;
        assert!(forged.status >= 400 && forged.target.is_none(), "{forged:?}");
    }
    let silent = anns.get(&client.authorization_url(&stranger, &[("prompt", "none")])).await;
    let answer = silent.target.expect("the client gets the error").query().unwrap_or_default().to_owned();
    assert!(answer.contains("error=interaction_required") && !answer.contains("code="), "{answer}");
    assert_eq!(grants(gateway.folder()).len(), 1, "no other grant was made");
    for prompt in ["consent", "login", "select_account", "login consent"] {
        let page = anns.get(&client.authorization_url(&stranger, &[("prompt", prompt)])).await;
        assert!(page.text.contains("Allow a client to use this gateway?"), "{prompt}: {}", page.text);
    }
    let done = anns.send(&page, &[("decision", "allow")]).await;
    let code = client.code(&done.target.expect("a redirect"));
    client.redeem(&code, &stranger, None).await.tokens();
}

/// Over REST as over MCP, a client whose token is too weak reads which scope it needs.
#[tokio::test]
async fn rest_names_the_scope_that_a_client_needs() {
    let site = Site::new();
    let reader = "swy_rita_0123456789abcdef0123456789abcdef0123456789abcdef";
    let keys = [(ANN, "role: superuser"), (BOB, CALLER), (reader, "role: reader")];
    let _gateway = site.started(&keys).await;
    let client = site.client("/mcp").await;
    let reads = client.logged_in(ANN, &[("scope", "mcp:read")]).await;
    let calls = client.logged_in(ANN, &[("scope", "mcp:call")]).await;
    let of_caller = client.logged_in(BOB, &[("scope", "mcp:call")]).await;
    let of_reader = client.logged_in(reader, &[("scope", "mcp:read")]).await;
    let call = json!({"server": "one", "tool": "one", "arguments": {}}).to_string();
    let read = json!({"server": "one", "uri": "a:b"}).to_string();
    let (caller, operator) = ("mcp:read mcp:call", "mcp:read mcp:call mcp:admin");
    for (route, body, accept, tokens, scope) in [
        ("/call", &*call, "application/json", &reads, Some(caller)),
        ("/call", &call, "text/event-stream", &reads, Some(caller)),
        ("/call/unknown/answer", "{}", "application/json", &reads, Some(caller)),
        ("/resources/read", &read, "application/json", &reads, Some(caller)),
        ("/prompts/unknown", "{}", "application/json", &reads, Some(caller)),
        ("/servers/one/reconnect", "", "application/json", &reads, Some(operator)),
        ("/servers/one/reconnect", "", "application/json", &calls, Some(operator)),
        // Another login would give no more.
        ("/servers/one/reconnect", "", "application/json", &of_caller, None),
        ("/call", &call, "application/json", &of_reader, None),
    ] {
        let rest = site.mcp(&format!("/api/v1/mcp{route}"), tokens);
        let answer = rest.post(body, &[("accept", accept)]).await;
        let url = site.url("/.well-known/oauth-protected-resource");
        let challenge = scope.map(|scope| {
            format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{url}\"")
        });
        assert_eq!(answer.status, 403, "{route}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), challenge.as_deref(), "{route} {accept}");
    }
    let of_key = Client::at(&site.url("/api/v1/mcp/call"));
    let of_key = of_key.with_header("authorization", &format!("Bearer {reader}")).post(&call, &[]).await;
    assert_eq!((of_key.status, of_key.header("www-authenticate")), (403, None), "a key has no scopes");
    let of_others = site.mcp("/api/v1/mcp/grants?principal=key:bob", &calls).bare(Method::DELETE, &[]).await;
    let challenge = of_others.header("www-authenticate").unwrap_or_default();
    assert!(of_others.status == 403 && challenge.contains(operator), "{of_others:?}");
}

/// Sign-ins, the end of a login by its client, and tokens that were used twice have audit lines, without a token.
#[tokio::test]
async fn sign_ins_and_ends_of_logins_have_audit_lines() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, CALLER)]).await;
    let client = site.client("/mcp").await;
    let first = client.logged_in(ANN, &[]).await;
    let audited = async |action: &str| {
        let is = |line: &Value| line["target"] == "switchyard::audit" && line["action"] == action;
        gateway.logs(action, is).await.pop().expect("a line")
    };
    let line = audited("sign_in").await;
    assert_eq!(
        (&line["principal"], &line["role"], &line["outcome"]),
        (&json!("key:ann"), &json!("caller"), &json!("done"))
    );
    assert!(line["request_id"].is_string(), "{line}");
    assert_eq!(client.revoke(first.refresh.as_deref().expect("a refresh token")).await, 200);
    let line = audited("revoke_token").await;
    assert_eq!(
        (&line["client"], &line["of"], &line["outcome"]),
        (&json!(client.id), &json!("key:ann"), &json!("done"))
    );
    assert!(line["grant"].as_str().is_some_and(|id| id.len() > 20), "{line}");
    // A token that is not known ends nothing, so there is no line.
    assert_eq!(client.revoke("swyr_unknown").await, 200);

    let stolen = client.logged_in(ANN, &[]).await;
    let next = client.refresh(&stolen).await.tokens();
    client.refresh(&next).await.tokens();
    assert_eq!(client.refresh(&stolen).await.json["error"], "invalid_grant");
    let line = audited("end_grant").await;
    assert_eq!((&line["level"], &line["outcome"]), (&json!("WARN"), &json!("token_reused")));
    assert_eq!((&line["client"], &line["of"]), (&json!(client.id), &json!("key:ann")));
    let (browser, proof) = (Browser::new(), Proof::new());
    let code = client.code(&client.allowed(&browser, ANN, &proof, &[("prompt", "consent")]).await);
    client.redeem(&code, &proof, None).await.tokens();
    assert_eq!(client.redeem(&code, &proof, None).await.json["error"], "invalid_grant");
    let is = |line: &Value| line["target"] == "switchyard::audit" && line["outcome"] == "code_reused";
    gateway.logs("the code that was used twice", is).await;
    let revoked = gateway.log().into_iter().filter(|line| line["action"] == "revoke_token").count();
    assert_eq!(revoked, 1);
    let metrics = site.mcp("/metrics", &client.logged_in(ANN, &[]).await).bare(Method::GET, &[]).await.body;
    assert!(metrics.contains("switchyard_authorization_reuses_total 2\n"), "{metrics}");
}

/// 1,000 refreshes at once of one family: one write, one answer, and nobody is logged out.
#[tokio::test]
async fn thousand_refreshes_at_once_get_one_answer_and_nobody_is_logged_out() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, CALLER)]).await;
    let client = site.client("/mcp").await;
    let tokens = client.logged_in(ANN, &[]).await;
    let next = refreshed_at_once([&client, &client], &tokens).await;
    assert_eq!(site.rest("/servers", &next).await, 200);
    assert_eq!(client.refresh(&next).await.status, 200);
    drop(gateway);
}

#[tokio::test]
async fn no_secret_of_a_login_is_in_the_log_or_in_the_store() {
    let site = Site::new();
    let gateway = site.started(&[(ANN, CALLER)]).await;
    let client = site.client("/mcp").await;
    let (browser, proof) = (Browser::new(), Proof::new());
    let target = client.allowed(&browser, ANN, &proof, &[]).await;
    let code = client.code(&target);
    let wrong = client.redeem(&code, &Proof::new(), None).await;
    assert_eq!(wrong.json["error"], "invalid_grant");
    let first = client.redeem(&code, &proof, None).await.tokens();
    let second = client.refresh(&first).await.tokens();
    assert_eq!(site.rest("/servers", &second).await, 200);
    let wrong_key = format!("{}0", &ANN[..ANN.len() - 1]);
    client.ask(&Browser::new(), &wrong_key, &proof, &[]).await;
    let replayed = client.redeem(&code, &proof, None).await;
    assert_eq!(replayed.json["error"], "invalid_grant", "and the login ends");
    assert_eq!(site.rest("/servers", &second).await, 401);
    let third = client.logged_in(ANN, &[]).await;
    assert_eq!(client.revoke(&third.access).await, 200);
    let fourth = client.logged_in(ANN, &[]).await;

    let mut secrets = vec![ANN.to_owned(), wrong_key, code, proof.verifier];
    for tokens in [first, second, third, fourth] {
        secrets.extend([tokens.access, tokens.refresh.expect("a refresh token")]);
    }
    secrets.extend(browser.cookies().split("; ").filter_map(|pair| Some(pair.split_once('=')?.1.to_owned())));
    let mut texts: Vec<String> = gateway.log().iter().map(Value::to_string).collect();
    assert!(texts.len() > 5);
    texts_below(&gateway.folder().join("state"), &mut texts);
    for secret in secrets.iter().filter(|secret| secret.len() > 8) {
        assert!(!texts.iter().any(|text| text.contains(secret.as_str())), "{secret}");
    }
}

#[tokio::test]
async fn client_of_the_file_needs_no_registration_and_others_get_none_where_it_is_off() {
    let site = Site::new();
    let mut settings = site.registry(&[(ANN, CALLER)], "").yaml();
    let clients =
        "registration: false, clients: [{id: app, name: Our app, redirect_uris: ['https://app.example/cb']}]";
    settings = settings.replace("{keys: true}", &format!("{{keys: true, {clients}}}"));
    let gateway = Gateway::with_config(&settings).listening_on(site.address).start().await;
    let mut client = RemoteClient::refused_at(&site.url("/mcp")).await;
    assert!(client.server["registration_endpoint"].is_null());
    (client.id, client.redirect_uri) = ("app".to_owned(), "https://app.example/cb".to_owned());
    let page = client.ask(&Browser::new(), ANN, &Proof::new(), &[]).await;
    assert!(page.text.contains("Our app"), "{}", page.text);
    let tokens = client.logged_in(ANN, &[]).await;
    assert_eq!(site.rest("/servers", &tokens).await, 200);
    client.redirect_uri = "https://app.example/other".to_owned();
    let page = client.ask(&Browser::new(), ANN, &Proof::new(), &[]).await;
    assert!(page.target.is_none() && page.status == 400, "{page:?}");
    // A token of a client signs nobody in: it could agree to more than it got.
    client.redirect_uri = "https://app.example/cb".to_owned();
    let page = client.ask(&Browser::new(), &tokens.access, &Proof::new(), &[]).await;
    assert!(page.text.contains("name=\"credential\""), "{}", page.text);
    drop(gateway);
}

/// The tokens of another issuer stay accepted beside those of the gateway.
#[tokio::test]
async fn foreign_issuer_stays_possible_beside_the_own_server() {
    let site = Site::new();
    let settings = site.registry(&[(ANN, CALLER)], "").yaml().replace(
        "auth_mode: api_key,",
        "auth_mode: any, jwt: {issuer: 'https://login.example', audience: gw, algorithm: HS256, \
         secret: a-secret-of-this-test-and-of-nobody-else},",
    );
    let gateway = Gateway::with_config(&settings).listening_on(site.address).start().await;
    let client = site.client("/mcp").await;
    assert_eq!(client.resource["authorization_servers"], json!([site.url(""), "https://login.example"]));
    let own = client.logged_in(ANN, &[]).await;
    assert_eq!(site.rest("/servers", &own).await, 200);
    let arguments = ["token", "--config", "mcp_servers.yaml", "--sub", "carol", "--role", "reader"];
    let output = gateway.gateway().output(&arguments);
    let foreign = String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned();
    let foreign = Tokens { access: foreign, refresh: None, scope: String::new() };
    assert_eq!(site.rest("/servers", &foreign).await, 200, "{}", String::from_utf8_lossy(&output.stderr));
    // A person who signs in with such a token has nothing that the gateway could grant for long.
    let page = client.ask(&Browser::new(), &foreign.access, &Proof::new(), &[]).await;
    let refused = match &page.target {
        Some(target) => target.query().unwrap_or_default().contains("error=access_denied"),
        None => page.status != 200,
    };
    assert!(refused, "{page:?}");
}

#[tokio::test]
async fn missing_settings_of_the_server_are_named_before_it_starts() {
    for (settings, expected) in [
        ("authorization_server: {keys: true}", "`public_url` is missing"),
        (
            "public_url: 'http://gw.example', authorization_server: {keys: true}",
            "does not begin with https://",
        ),
        (
            "public_url: 'https://gw.example', authorization_server: {registration: false}",
            "nobody could sign in",
        ),
    ] {
        let server = format!("server: {{{}, {settings}}}", api_keys(&[(ANN, CALLER)]));
        let gateway = Gateway::of(&Registry::new().setting(&server));
        for command in ["check", "serve"] {
            let (status, text) = gateway.printed(&[command, "--config", "mcp_servers.yaml"]);
            assert!(!status.success() && text.contains(expected), "{command}: {text}");
        }
    }
    let open = Gateway::with_config(
        "server: {public_url: 'https://gw.example', authorization_server: {keys: true}}\nmcp_servers: {}\n",
    );
    let (_, text) = open.printed(&["check"]);
    assert!(text.contains("no effect while `auth_mode` asks for no credentials"), "{text}");
}

#[tokio::test]
async fn gateway_without_the_setting_has_no_endpoint_of_it() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let settings = format!("server: {{{}, public_url: 'http://127.0.0.1:1'}}", api_keys(&[(ANN, CALLER)]));
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(&settings)).start().await;
    for path in [
        "/oauth/authorize",
        "/oauth/token",
        "/oauth/register",
        "/oauth/jwks.json",
        "/.well-known/oauth-authorization-server",
    ] {
        let answer: Answer = Client::at(&gateway.url(path)).bare(Method::GET, &[]).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    let refused = gateway.mcp().modern("tools/list", json!({})).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
}
