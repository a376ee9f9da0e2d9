//! Settings of the authorization server of the gateway: `server.authorization_server`.
//!
//! Invariants: the server needs a public URL that only this gateway can have, a way to sign in, and a folder for what it
//! stores. Anything that is missing is a problem of the file, so a gateway that starts has a server that works.
//!
//! Not here: the server (`authorization`), its endpoints and pages.

use authorization::{Client, ClientAuthentication, ClientMetadata, ClientSource, RedirectUri, client_host};
use oauth::ProviderSettings;
use runtime::redis_link::{Address, read_address};
use url::Url;

use super::{Config, Transport};
use crate::authority::Authority;
use settings::{FromSetting, Setting, settings};

/// Limit of the length of the id of a client in bytes.
const MAX_ID: usize = 256;

settings! {
    /// Settings of `server.authorization_server`.
    #[derive(Debug, Clone)]
    pub struct AuthorizationSettings {
        /// people sign in with an API key of the gateway, which they enter on its page
        pub keys: bool;
        /// people sign in at a login service ([fields](#a-login-service))
        pub login: Option<ProviderSettings> => "none";
        /// clients may register themselves (RFC 7591). Those that send the URL of a document with their metadata need no
        /// registration
        pub registration: bool = true;
        /// the Redis or Valkey where logins are stored, for [several machines](#several-machines), such as
        /// `redis://:${REDIS_PASSWORD}@redis:6379`; written as [`cache.url`](../configuration.md#cache). It needs `vault_key`
        pub redis_url: Option<Address> => "none: in `state_dir`", with read_address;
        /// hosts of clients whose documents are trusted: the page does not warn of them, and they may be at a private
        /// address. A host means its port 443, and `HOST:PORT` another one
        pub trusted_hosts: Vec<String>, with read_hosts;
        /// [clients that you register](#clients-of-the-file) yourself
        pub clients: Vec<Client>, with read_clients;
    }
}

settings! {
    struct ConfiguredClient {
        /// its `client_id`
        id: String, required "the `client_id` that the client sends", with read_id;
        /// its name on the page that asks the person
        name: Option<String>;
        /// the URLs that its answers may go to, each compared as a whole; a loopback address matches with every port
        redirect_uris: Vec<RedirectUri>, required "where answers go, such as [https://app.example.org/callback]", with read_redirect_uris;
        /// where its public keys are, for a client that signs what it sends (`private_key_jwt`)
        jwks_uri: Option<Url> => "none: a public client", with read_https;
    }
}

impl AuthorizationSettings {
    /// Returns the configuration of the server at `issuer`.
    pub fn server(&self, issuer: String) -> authorization::Config {
        authorization::Config {
            issuer,
            registers: self.registration,
            clients: self.clients.clone(),
            trusted_hosts: self.trusted_hosts.clone(),
        }
    }

    /// Reports what the server needs of the other settings in `server`, whose value is `config`.
    pub(super) fn check(&self, server: &Setting<'_>, config: &Config) {
        let Some(own) = server.member("authorization_server") else { return };
        let problem = |message: String, hint: &str| own.key_problem(message, Some(hint.to_owned()));
        match config.public_url.as_deref().map(issuer) {
            None => problem(
                "`public_url` is missing, which clients and browsers have to reach".to_owned(),
                "add `public_url: https://gateway.example.org` under `server:`",
            ),
            Some(Err(reason)) => problem(format!("`public_url` {reason}"), "correct it, and reach it by TLS"),
            Some(Ok(())) => {}
        }
        if config.vault.folder().is_none() {
            problem("no folder for logins is known".to_owned(), "set `state_dir` under `server:`");
        }
        if self.redis_url.is_some() && config.vault.keys.is_empty() {
            let hint = "add `vault_key: ${VAULT_KEY}` under `server:`, the same one at each of them";
            problem("`redis_url` needs `vault_key`, which all gateways share that use it".to_owned(), hint);
        }
        if config.transport == Transport::Stdio {
            problem("it has no effect with `transport: stdio`".to_owned(), "remove one of the two");
        }
        self.check_people(&own, &config.auth);
    }

    /// Reports that nobody could sign in, or that nobody needs to.
    fn check_people(&self, own: &Setting<'_>, auth: &auth::Config) {
        let problem = |message: &str, hint: &str| own.key_problem(message, Some(hint.to_owned()));
        let has_keys = matches!(auth, auth::Config::ApiKey(_) | auth::Config::Any(..));
        if auth.is_open() {
            problem(
                "it has no effect while `auth_mode` asks for no credentials",
                "add `auth_mode: api_key`, `any` or `jwt` under `server:`",
            );
        } else if self.keys && !has_keys {
            problem(
                "`keys: true`, but `auth_mode` accepts no keys, so nobody could sign in",
                "write `auth_mode: api_key` or `any`",
            );
        } else if !self.keys && own.member("login").is_none() {
            let hint = "add `keys: true`, so that people sign in with their API key, or `login` with a login service";
            problem("nobody could sign in", hint);
        }
    }
}

/// Says why `url` cannot be the issuer of tokens.
fn issuer(url: &str) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|_| "is not a URL".to_owned())?;
    let host = parsed.host_str().and_then(Authority::parse);
    if parsed.scheme() != "https" && !host.is_some_and(|host| host.is_loopback()) {
        return Err("does not begin with https://, so others could read tokens on their way".to_owned());
    }
    // Clients compare it as a string, and some of them after they have parsed it.
    let normal = parsed.as_str().trim_end_matches('/');
    if normal == url { Ok(()) } else { Err(format!("is usually written `{normal}`")) }
}

/// Reads hosts in the form that [`authorization::client_host`] has. An address is none, as the id of a client has a name.
fn read_hosts(setting: &Setting<'_>) -> Option<Vec<String>> {
    let read = |item: &Setting<'_>| {
        let text = item.text()?;
        let named = Authority::parse(text).filter(Authority::has_name);
        // The port of HTTPS is not written in such a URL.
        let named = named.and_then(|authority| client_host(&format!("https://{authority}/")));
        if named.is_none() {
            let hint = "write app.example.org, or app.example.org:8443 for another port than 443";
            item.problem(format!("{} is not the name of a host", item.quoted()), Some(hint.to_owned()));
        }
        named
    };
    Some(setting.list()?.iter().filter_map(read).collect())
}

fn read_clients(setting: &Setting<'_>) -> Option<Vec<Client>> {
    let mut clients: Vec<Client> = Vec::new();
    for item in setting.list()? {
        let Some(read) = ConfiguredClient::from_setting(&item) else { continue };
        if clients.iter().any(|other| other.id == read.id) {
            item.key_problem("its id stands twice", None); // an id may come from the environment
        }
        let keys = read.jwks_uri.map(|url| ClientAuthentication::KeysAt(url.into()));
        let metadata = ClientMetadata {
            name: read.name,
            redirect_uris: read.redirect_uris,
            authentication: keys.unwrap_or(ClientAuthentication::None),
            refreshes: true,
        };
        clients.push(Client { id: read.id, source: ClientSource::Configured, metadata });
    }
    Some(clients)
}

fn read_id(setting: &Setting<'_>) -> Option<String> {
    let is_id = |id: &str| (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    let expected = "1 to 256 letters, digits and signs of ASCII without spaces";
    setting.parsed(expected, |id| is_id(id).then(|| id.to_owned()))
}

fn read_redirect_uris(setting: &Setting<'_>) -> Option<Vec<RedirectUri>> {
    let items = setting.list()?;
    if items.is_empty() {
        setting.key_problem("no URL is listed, so no answer could be sent", None);
    }
    let read = |item: &Setting<'_>| {
        RedirectUri::of_operator(item.text()?).inspect_err(|reason| item.problem(*reason, None)).ok()
    };
    Some(items.iter().filter_map(read).collect())
}

fn read_https(setting: &Setting<'_>) -> Option<Url> {
    let hint = "such as https://app.example.org/keys";
    setting.url_that("an https URL", hint, |url| url.scheme() == "https" && url.username().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use settings::{Node, Problems};

    fn read(mut server: Value, own: Value) -> (Config, Vec<String>) {
        server["authorization_server"] = own;
        let (node, problems) = (Node::from(server), Problems::default());
        let config = Config::from_setting(&Setting::root(&node, &problems)).expect("a mapping");
        (config, problems.sorted().iter().map(ToString::to_string).collect())
    }

    fn server() -> Value {
        json!({
            "public_url": "https://gw.example/tools", "auth_mode": "api_key", "state_dir": "/state",
            "api_keys": [{"id": "ci", "hash": format!("sha256:{}", "0".repeat(64)), "role": "caller"}],
        })
    }

    #[test]
    fn server_needs_a_public_url_and_people_who_can_sign_in() {
        let with = |name: &str, value: Value| {
            let mut server = server();
            server[name] = value;
            server
        };
        let without = |names: &[&str]| {
            let mut server = server();
            for name in names {
                server.as_object_mut().expect("a mapping").remove(*name);
            }
            server
        };
        let (keys, nobody) = (json!({"keys": true}), json!({}));
        assert_eq!(read(server(), keys.clone()).1, [""; 0]);
        for public in ["http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:1/a", "https://a.example"]
        {
            assert_eq!(read(with("public_url", public.into()), keys.clone()).1, [""; 0], "{public}");
        }
        for (server, own, expected) in [
            (without(&["public_url"]), &keys, "`public_url` is missing"),
            (with("public_url", json!("http://gw.example")), &keys, "does not begin with https://"),
            (
                with("public_url", json!("https://GW.example")),
                &keys,
                "is usually written `https://gw.example`",
            ),
            (with("public_url", json!("https://gw.example:443")), &keys, "is usually written"),
            (with("transport", json!("stdio")), &keys, "no effect with `transport: stdio`"),
            (
                without(&["auth_mode", "api_keys"]),
                &keys,
                "no effect while `auth_mode` asks for no credentials",
            ),
            (server(), &nobody, "nobody could sign in"),
            (server(), &json!({"keys": false, "registration": true}), "nobody could sign in"),
        ] {
            let problems = read(server, own.clone()).1;
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(
                problems[0].starts_with("authorization_server: ") && problems[0].contains(expected),
                "{problems:?}"
            );
            assert!(problems[0].contains("(hint: "), "{problems:?}");
        }
        let jwt = json!({"issuer": "https://login.example", "audience": "gw", "algorithm": "EdDSA"});
        let mut only_tokens = without(&["api_keys"]);
        (only_tokens["auth_mode"], only_tokens["jwt"]) = ("jwt".into(), jwt);
        let problems = read(only_tokens, keys).1;
        assert!(problems.len() == 1 && problems[0].contains("`auth_mode` accepts no keys"), "{problems:?}");
    }

    #[test]
    fn clients_and_hosts_of_the_file_are_read() {
        let own = json!({
            "keys": true, "registration": false, "trusted_hosts": ["App.example", "b.example:8443", "c.example:443"],
            "clients": [
                {"id": "app", "redirect_uris": ["https://app.example/cb", "http://127.0.0.1/cb"]},
                {"id": "signs", "name": "Signs", "redirect_uris": ["https://b.example/cb"], "jwks_uri": "https://b.example/keys"},
            ],
        });
        let (config, problems) = read(server(), own);
        assert_eq!(problems, [""; 0]);
        let own = config.authorization_server.expect("it is on").server("https://gw.example/tools".into());
        assert!(
            !own.registers
                && own.trusted_hosts == ["app.example", "b.example:8443", "c.example"]
                && own.clients.len() == 2
        );
        let methods: Vec<_> =
            own.clients.iter().map(|client| client.metadata.authentication.method()).collect();
        assert_eq!(methods, ["none", "private_key_jwt"]);
        assert!(
            read(json!({}), Value::Null).0.authorization_server.is_some(),
            "an empty section turns it on"
        );
        let bad = json!({
            "keys": true, "trusted_hosts": ["https://app.example", "10.0.0.1", "*.example", "a.example:0", "a.example:x", "a.example/b", "[::1]:1", "b\u{fc}cher.example", ""], "registrations": true,
            "clients": [
                {"id": "a b", "redirect_uris": ["http://app.example/cb"]},
                {"id": "c", "redirect_uris": []},
                {"id": "d", "redirect_uris": ["https://d.example/"], "jwks_uri": "http://d.example/", "secret": "x"},
                {"id": "d", "redirect_uris": ["https://d.example/"]},
                {"name": "x"},
            ],
        });
        let problems = read(server(), bad).1;
        for expected in [
            "trusted_hosts[0]: `https://app.example` is not the name of a host (hint: write app.example.org, or ",
            "trusted_hosts[1]: `10.0.0.1` is not",
            "trusted_hosts[2]: `*.example` is not",
            "trusted_hosts[3]: `a.example:0` is not",
            "trusted_hosts[4]: `a.example:x` is not",
            "trusted_hosts[5]: `a.example/b` is not",
            "trusted_hosts[6]: `[::1]:1` is not",
            "trusted_hosts[7]: ",
            "trusted_hosts[8]: ",
            "registrations: unknown key (hint: did you mean `registration`?)",
            "clients[0].id: `a b` is not 1 to 256",
            "clients[0].redirect_uris[0]: a redirect URI has to begin with https://",
            "clients[1].redirect_uris: no URL is listed",
            "clients[2].jwks_uri: `http://d.example/` is not an https URL",
            "clients[2].secret: unknown key",
            "clients[3]: its id stands twice",
            "clients[4]: `id` is missing",
            "clients[4]: `redirect_uris` is missing",
        ] {
            let starts = |problem: &String| problem.starts_with(&format!("authorization_server.{expected}"));
            assert!(problems.iter().any(starts), "{expected}: {problems:#?}");
        }
    }
}
