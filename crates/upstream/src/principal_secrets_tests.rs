//! Tests of the secrets of principals: values that change while connections with them are made and end.

use std::time::Duration;

use http::HeaderName;
use secrecy::ExposeSecret;
use settings::expand::CallerPart;
use tempfile::TempDir;

use super::*;
use auth::vault::VaultConfig;

const NAME: &str = "CRM_KEY";

struct Place {
    _folder: TempDir,
    vault: Arc<Vault>,
    secrets: Arc<PrincipalSecrets>,
    ended: Mutex<Vec<Arc<str>>>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = Vault::new(VaultConfig { path: folder.path().join("vault.json"), keys: Vec::new() });
        let part = CallerPart::Value(NAME.to_owned());
        let header = PrincipalHeader::new(HeaderName::from_static("x-key"), vec![part]);
        let secrets = PrincipalSecrets::in_headers(&[header], Some(Arc::clone(&vault))).expect("a header");
        Self { _folder: folder, vault, secrets, ended: Mutex::default() }
    }

    fn set(&self, value: &str) {
        self.vault.put_blocking(&Entry::secret_of("ann", NAME), value.as_bytes()).expect("written");
    }

    async fn opens(&self) -> Arc<OwnSecrets> {
        self.secrets.of(Some(&"ann".into())).await.expect("a secret")
    }

    /// Whether the connections of the principal end before its next call.
    async fn ends(&self) -> bool {
        let ended = |principal: &Arc<str>| self.ended.lock().expect("whole").push(Arc::clone(principal));
        let deadline = Instant::now() + Duration::from_mins(1);
        self.secrets.check(Some(&"ann".into()), deadline, ended).await.expect("a secret");
        !std::mem::take(&mut *self.ended.lock().expect("whole")).is_empty()
    }

    fn redacts(&self, value: &str) -> bool {
        self.secrets.values().iter().any(|known| known.expose_secret() == value)
    }
}

#[tokio::test]
async fn same_value_is_shared_and_another_one_ends_the_connections_with_the_one_before() {
    let place = Place::new();
    place.set("first");
    let first = place.opens().await;
    assert!(!place.ends().await && Arc::ptr_eq(&first, &place.opens().await));
    place.set("second");
    let second = place.opens().await;
    assert!(Arc::ptr_eq(&second, &place.opens().await), "new connections have the new value");
    assert!(place.ends().await, "the first connection has the old value");
    assert!(!place.ends().await && place.redacts("first") && place.redacts("second"));
}

#[tokio::test]
async fn value_that_was_read_before_a_change_is_not_kept_after_it() {
    let place = Place::new();
    place.set("first");
    let read = Arc::new(place.secrets.read(&place.vault, &"ann".into()).expect("a secret"));
    place.set("second");
    assert!(!place.ends().await, "nothing is known of the connection that is being opened");
    drop(place.secrets.used(&"ann".into(), read));
    assert!(place.ends().await, "its value is an old one");
    assert!(!place.ends().await);
}

#[tokio::test]
async fn value_of_a_connect_that_failed_is_redacted_after_it_changed() {
    let place = Place::new();
    for value in ["first", "second", "third", "fourth"] {
        place.set(value);
        drop(place.opens().await);
    }
    assert!(["second", "third", "fourth"].iter().all(|value| place.redacts(value)));
    assert!(!place.redacts("first"), "the last ones are enough");
}

#[tokio::test]
async fn vault_that_is_not_read_in_time_ends_the_call_at_its_deadline() {
    let place = Place::new();
    place.set("first");
    // Another call reads the vault, and does not end.
    let _turn = place.secrets.turn.lock().await;
    let (deadline, ann) = (Instant::now() + Duration::from_millis(50), "ann".into());
    let checked = place.secrets.check(Some(&ann), deadline, |_| ());
    let checked = tokio::time::timeout(Duration::from_secs(20), checked).await.expect("at its deadline");
    assert!(checked.expect_err("not read").to_string().contains("in time"));
}

#[tokio::test]
async fn error_of_the_vault_names_no_file() {
    let place = Place::new();
    place.set("first");
    std::fs::write(place.vault.path(), "no vault").expect("written");
    let error = place.secrets.of(Some(&"ann".into())).await.err().expect("not readable").to_string();
    assert!(error.contains("an operator finds the reason") && !error.contains("vault.json"), "{error}");
}
