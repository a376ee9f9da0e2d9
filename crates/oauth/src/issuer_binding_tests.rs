//! Tests of the issuer that credentials belong to: every way to another one, in memory and in the vault.

use std::path::Path;

use auth::vault::{Vault, VaultConfig};

use super::*;
use crate::ClientAuthentication;

const HONEST: &str = "https://login.example.org";
const OTHER: &str = "https://other.example.org";

fn server(issuer: &str) -> AuthorizationServer {
    AuthorizationServer::with_default_endpoints(&Url::parse(issuer).expect("a URL"))
}

fn with_endpoint(issuer: &str, origin: &str) -> AuthorizationServer {
    let endpoint = Url::parse(&format!("{origin}/token")).ok();
    AuthorizationServer { token_endpoint: endpoint, ..server(issuer) }
}

fn registration(client_id: &str) -> Registration {
    Registration {
        issuer: HONEST.into(),
        client_id: client_id.into(),
        client_secret: Some("canary".into()),
        authentication: ClientAuthentication::Basic,
        redirect_uri: "http://127.0.0.1:1/oauth/callback".into(),
        scopes: Vec::new(),
        expires_at: None,
    }
}

fn settings() -> Settings {
    Settings { client_id: Some("id".into()), client_secret: Some("canary".into()), ..Settings::default() }
}

fn store(vault: Option<Arc<Vault>>) -> LoginStore {
    let url = Url::parse("https://mcp.example.com/mcp").expect("a URL");
    LoginStore { vault, server: "notes".into(), url }
}

fn vault(folder: &Path) -> Arc<Vault> {
    Vault::new(VaultConfig { path: folder.join("vault.json"), keys: Vec::new() })
}

async fn bound(
    known: &KnownIssuers,
    store: &LoginStore,
    settings: &Settings,
    server: &AuthorizationServer,
) -> Result<Option<IssuerBinding>, Error> {
    let bound = known.bind(store, settings, (server, &registration("id"))).await;
    // The check before a login agrees.
    assert_eq!(known.compare(store, settings, server).is_ok(), bound.is_ok());
    bound
}

#[tokio::test]
async fn credentials_stay_with_their_first_issuer_in_memory_and_in_the_vault() {
    let folder = tempfile::tempdir().expect("a folder");
    for has_vault in [false, true] {
        let known = KnownIssuers::default();
        let open = || store(has_vault.then(|| vault(folder.path())));
        let settings = settings();
        assert!(bound(&known, &open(), &settings, &server(HONEST)).await.expect("the first").is_some());
        // A reload makes new logins, and a restart has the vault only.
        let known = if has_vault { KnownIssuers::default() } else { known };
        let slash = AuthorizationServer { issuer: format!("{HONEST}/"), ..server(HONEST) };
        assert!(bound(&known, &open(), &settings, &slash).await.is_ok(), "the same one");
        for other in [
            server(OTHER),
            with_endpoint(HONEST, OTHER),
            with_endpoint(HONEST, "https://login.example.org:8443"),
            with_endpoint(HONEST, "http://login.example.org"),
            with_endpoint(OTHER, HONEST),
        ] {
            let error = bound(&known, &open(), &settings, &other).await.expect_err("another").to_string();
            assert!(error.contains("`issuer") && error.contains("nothing was sent"), "{error}");
        }
        // The file decides, and what it said is remembered.
        let pinned = Settings { issuer: Some(OTHER.into()), ..self::settings() };
        assert!(bound(&known, &open(), &pinned, &server(OTHER)).await.is_ok());
        assert!(bound(&known, &open(), &settings, &server(HONEST)).await.is_err());
        assert!(bound(&known, &open(), &settings, &server(OTHER)).await.is_ok());
    }
}

#[tokio::test]
async fn another_url_or_client_id_of_the_file_begins_anew_and_the_first_is_remembered() {
    let (known, first) = (KnownIssuers::default(), store(None));
    let moved = LoginStore { url: Url::parse("https://mcp.example.com/v2").expect("a URL"), ..first.clone() };
    let renamed = Settings { client_id: Some("new".into()), grant: Grant::ClientCredentials, ..settings() };
    assert!(bound(&known, &first, &settings(), &server(HONEST)).await.is_ok());
    assert!(bound(&known, &moved, &settings(), &server(OTHER)).await.is_ok());
    assert!(bound(&known, &first, &renamed, &server(OTHER)).await.is_ok());
    assert!(bound(&known, &first, &settings(), &server(OTHER)).await.is_err());
    assert!(bound(&known, &moved, &settings(), &server(HONEST)).await.is_err());
}

#[tokio::test]
async fn every_kind_of_credential_is_bound_and_a_client_that_registered_itself_is_not() {
    let machine = Settings { grant: Grant::JwtBearer, ..Settings::default() };
    let url = Url::parse("https://sw.example/client.json").ok();
    for settings in [
        Settings { assertion: Some("a".into()), ..machine.clone() },
        Settings { private_key: Some("k".into()), client_metadata_url: url.clone(), ..machine.clone() },
        Settings { client_id: Some("id".into()), ..Settings::default() },
    ] {
        let known = KnownIssuers::default();
        assert!(bound(&known, &store(None), &settings, &server(HONEST)).await.expect("bound").is_some());
        assert!(bound(&known, &store(None), &settings, &server(OTHER)).await.is_err());
    }
    for settings in [Settings::default(), Settings { client_metadata_url: url, ..Settings::default() }] {
        let known = KnownIssuers::default();
        assert_eq!(bound(&known, &store(None), &settings, &server(HONEST)).await, Ok(None));
    }
    // A login from before the client was in the file.
    let (known, own) = (KnownIssuers::default(), registration("registered"));
    let own = known.bind(&store(None), &settings(), (&server(HONEST), &own)).await;
    assert_eq!(own, Ok(None));
}

#[tokio::test]
async fn other_endpoints_than_that_for_tokens_get_no_credential_at_a_new_origin() {
    let (known, store) = (KnownIssuers::default(), store(None));
    let binding = bound(&known, &store, &settings(), &with_endpoint(HONEST, OTHER)).await.expect("the first");
    let binding = binding.expect("a binding");
    for (url, is_known) in [
        ("https://other.example.org/revoke", true),
        ("https://login.example.org/introspect", true),
        ("https://third.example.org/revoke", false),
    ] {
        let checked = binding.check_endpoint(&Url::parse(url).expect("a URL"));
        assert_eq!(checked.is_ok(), is_known, "{url}");
    }
}

#[tokio::test]
async fn a_vault_that_cannot_be_read_lets_no_credential_out_unless_the_file_names_the_issuer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (known, store) = (KnownIssuers::default(), store(Some(vault(folder.path()))));
    assert!(bound(&known, &store, &settings(), &server(HONEST)).await.is_ok());
    std::fs::write(folder.path().join("vault.json"), "{").expect("it can be written");
    let known = KnownIssuers::default();
    let error = bound(&known, &store, &settings(), &server(OTHER)).await.expect_err("unknown").to_string();
    assert!(error.contains("Write it as `issuer`"), "{error}");
    let pinned = Settings { issuer: Some(OTHER.into()), ..settings() };
    assert!(bound(&known, &store, &pinned, &server(OTHER)).await.is_ok());
}

#[tokio::test]
async fn processes_that_begin_at_once_agree_on_one_issuer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, settings) = (store(Some(vault(folder.path()))), settings());
    let (one, other) = (server(HONEST), server(OTHER));
    let known = [KnownIssuers::default(), KnownIssuers::default()];
    let client = registration("id");
    let (one, other) = tokio::join!(
        known[0].bind(&store, &settings, (&one, &client)),
        known[1].bind(&store, &settings, (&other, &client)),
    );
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
}

#[test]
fn bindings_are_bounded_and_the_oldest_goes() {
    let mut bindings = Vec::new();
    for at in 0..=MAX_BINDINGS {
        add(&mut bindings, &IssuerBinding::new(at.to_string(), &server(HONEST)), false);
    }
    add(&mut bindings, &IssuerBinding::new("3".to_owned(), &server(OTHER)), true);
    assert_eq!((bindings.len(), bindings[0].client.as_str()), (MAX_BINDINGS, "1"));
}
