//! The vault on a real folder: sealing, rotation, damage, permissions and several writers.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

const CANARY: &str = "canary-5e1f";

fn secret(name: &str) -> SecretString {
    SecretString::from(format!("{name} key of the tests, 32 bytes or more"))
}

/// A folder that does not exist yet, below one that is removed with the test.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state/deep/vault.json")
    }

    fn key_file(&self) -> PathBuf {
        self.path().with_file_name(KEY_FILE_NAME)
    }

    fn vault(&self, keys: &[&str]) -> Arc<Vault> {
        Vault::new(VaultConfig { path: self.path(), keys: keys.iter().map(|key| secret(key)).collect() })
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("there")
    }

    /// The entries in the file, in the order of their ids.
    fn entries(&self) -> Vec<(String, String)> {
        let content: serde_json::Value = serde_json::from_str(&self.text()).expect("JSON");
        let entries = content["entries"].as_object().expect("entries").iter();
        entries.map(|(id, sealed)| (id.clone(), sealed.as_str().expect("text").to_owned())).collect()
    }

    fn replace(&self, from: &str, to: &str) {
        assert!(self.text().contains(from));
        fs::write(self.path(), self.text().replace(from, to)).expect("written");
    }
}

fn token(name: &str, principal: Option<&str>) -> Entry {
    Entry { kind: EntryKind::Token, name: name.to_owned(), principal: principal.map(str::to_owned) }
}

fn value(vault: &Vault, entry: &Entry) -> Option<String> {
    let value = vault.get(entry).expect("readable");
    value.map(|value| String::from_utf8(value.to_vec()).expect("UTF-8"))
}

fn refused(vault: &Vault) -> String {
    let read = vault.get(&Entry::secret("A")).expect_err("not readable");
    let written = vault.put_blocking(&Entry::secret("A"), b"new").expect_err("not written");
    assert_eq!(read.to_string(), written.to_string());
    read.to_string()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[tokio::test]
async fn a_value_is_kept_under_its_kind_name_and_principal() {
    let place = Place::new();
    let vault = place.vault(&[]);
    let entries = [
        token("one", None),
        token("one", Some("ann")),
        token("one", Some("")),
        token("on", Some("eann")),
        Entry { kind: EntryKind::Client, ..token("one", None) },
        Entry::secret("one"),
    ];
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(value(&vault, entry), None);
        vault.put(entry, format!("{at}").as_bytes()).await.expect("set");
    }
    assert!(vault.remove(&entries[1]).await.expect("removed"));
    assert!(!vault.remove(&entries[1]).await.expect("removed before"));
    for vault in [vault, place.vault(&[])] {
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(value(&vault, entry), (at != 1).then(|| at.to_string()), "{entry:?}");
        }
        let (listed, damaged) = vault.list().expect("readable");
        assert_eq!((listed.len(), damaged), (5, 0));
        assert!(listed.iter().all(|(entry, set_at)| {
            entries.contains(entry) && set_at.elapsed().is_ok_and(|age| age < Duration::from_mins(5))
        }));
    }
}

#[test]
fn reading_makes_no_file_and_the_first_value_makes_private_ones() {
    let place = Place::new();
    let vault = place.vault(&[]);
    assert_eq!(value(&vault, &Entry::secret("A")), None);
    assert!(!vault.remove_blocking(&Entry::secret("A")).expect("nothing to remove"));
    assert!(vault.list().expect("empty").0.is_empty());
    assert!(!place.0.path().join("state").exists());
    vault.put_blocking(&Entry::secret("A"), b"1").expect("set");
    assert_eq!((mode(&place.path()), mode(&place.key_file())), (0o600, 0o600));
    assert_eq!(mode(place.path().parent().expect("a folder")), 0o700);
}

#[test]
fn the_file_and_the_texts_show_neither_values_nor_names() {
    let place = Place::new();
    let vault = place.vault(&["new"]);
    let entry = token(&format!("{CANARY}-name"), Some(&format!("{CANARY}-principal")));
    vault.put_blocking(&entry, format!("{CANARY}-value").as_bytes()).expect("set");
    vault.put_blocking(&Entry::secret(&format!("{CANARY}-name")), CANARY.as_bytes()).expect("set");
    for file in fs::read_dir(place.path().parent().expect("a folder")).expect("readable") {
        let bytes = fs::read(file.expect("readable").path()).expect("readable");
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"));
    }
    assert!(
        !format!("{vault:?} {:?}", VaultConfig { path: place.path(), keys: vec![secret(CANARY)] })
            .contains(CANARY)
    );
    let before = place.entries();
    vault.put_blocking(&entry, format!("{CANARY}-value").as_bytes()).expect("set");
    assert_ne!(before, place.entries(), "equal values are not sealed alike");
}

#[test]
fn entries_that_were_swapped_are_refused_and_all_others_stay() {
    let place = Place::new();
    let vault = place.vault(&["new"]);
    let [a, b, c] = ["A", "B", "C"].map(Entry::secret);
    for entry in [&a, &b, &c] {
        vault.put_blocking(entry, entry.name.as_bytes()).expect("set");
    }
    // The order of the ids is that of the key, so find which one is of C.
    let sealed = place.entries();
    let is_of_c = |id: &String| *id == vault.configured[0].id(&c.encoded());
    let [one, two]: [&(String, String); 2] =
        sealed.iter().filter(|(id, _)| !is_of_c(id)).collect::<Vec<_>>().try_into().expect("two");
    let (label_one, value_one) = one.1.split_once('.').expect("two parts");
    let (label_two, value_two) = two.1.split_once('.').expect("two parts");
    let good = place.text();
    for (first, second) in [
        (two.1.clone(), one.1.clone()),
        (format!("{label_one}.{value_two}"), format!("{label_two}.{value_one}")),
        (format!("{value_one}.{label_one}"), format!("{value_two}.{label_two}")),
    ] {
        let swapped = good.replace(&one.1, "first").replace(&two.1, "second");
        fs::write(place.path(), swapped.replace("first", &first).replace("second", &second))
            .expect("written");
        for entry in [&a, &b] {
            let error = vault.get(entry).expect_err("swapped").to_string();
            assert!(
                error.contains("is damaged") && error.contains(&format!("the secret `{}`", entry.name)),
                "{error}"
            );
        }
        assert_eq!(value(&vault, &c).as_deref(), Some("C"));
    }
}

#[test]
fn a_damaged_entry_stays_until_it_is_set_again() {
    let place = Place::new();
    let [a, b, c] = ["A", "B", "C"].map(Entry::secret);
    let vault = place.vault(&["old"]);
    vault.put_blocking(&a, b"1").expect("set");
    let (_, sealed) = place.entries().remove(0);
    let flipped = if sealed.ends_with('A') { "Q" } else { "A" };
    place.replace(&sealed, &format!("{}{flipped}", &sealed[..sealed.len() - 1]));
    let damaged = place.entries();
    vault.put_blocking(&b, b"2").expect("set");
    assert!(place.entries().contains(&damaged[0]), "kept as it is");
    let rotated = place.vault(&["new", "old"]);
    rotated.put_blocking(&c, b"3").expect("set");
    assert!(matches!(rotated.get(&a), Err(Error::DamagedEntry { .. })));
    assert_eq!((value(&rotated, &b).as_deref(), value(&rotated, &c).as_deref()), (Some("2"), Some("3")));
    rotated.put_blocking(&a, b"4").expect("set");
    assert_eq!(value(&rotated, &a).as_deref(), Some("4"));
    assert_eq!(rotated.list().expect("readable").1, 0, "nothing damaged is left");
}

#[test]
fn entries_of_an_older_key_open_and_are_resealed_by_the_next_write() {
    let place = Place::new();
    let [a, b] = ["A", "B"].map(Entry::secret);
    place.vault(&["old"]).put_blocking(&a, b"1").expect("set");
    let rotated = place.vault(&["new", "old"]);
    assert_eq!(value(&rotated, &a).as_deref(), Some("1"));
    assert_eq!(value(&place.vault(&["old"]), &a).as_deref(), Some("1"), "a read reseals nothing");
    rotated.put_blocking(&b, b"2").expect("set");
    let new = place.vault(&["new"]);
    assert_eq!((value(&new, &a).as_deref(), value(&new, &b).as_deref()), (Some("1"), Some("2")));
    assert!(matches!(place.vault(&["old"]).get(&a), Err(Error::WrongKey { .. })));
}

#[test]
fn a_key_file_still_opens_the_vault_when_a_key_is_configured_later() {
    let place = Place::new();
    let a = Entry::secret("A");
    place.vault(&[]).put_blocking(&a, b"1").expect("set");
    let configured = place.vault(&["new"]);
    assert_eq!(value(&configured, &a).as_deref(), Some("1"));
    configured.put_blocking(&Entry::secret("B"), b"2").expect("set");
    fs::remove_file(place.key_file()).expect("removed");
    assert_eq!(value(&place.vault(&["new"]), &a).as_deref(), Some("1"));
}

#[test]
fn a_vault_that_cannot_be_read_is_never_overwritten() {
    let place = Place::new();
    place.vault(&["old"]).put_blocking(&Entry::secret("A"), b"1").expect("set");
    let good = place.text();
    assert!(refused(&place.vault(&["new"])).contains("was sealed with another key"));
    assert!(refused(&place.vault(&[])).contains("vault.key is missing"));
    assert!(Vault::open(VaultConfig { path: place.path(), keys: vec![secret("new")] }).is_err());
    assert_eq!(place.text(), good);
    for bad in ["", "{", "[]", &good[..good.len() / 2], &good.replace("\"version\": 1", "\"version\": 2")] {
        fs::write(place.path(), bad).expect("written");
        let error = refused(&place.vault(&["old"]));
        assert!(
            error.contains("is not a vault, or it is damaged") && error.contains("vault.json"),
            "{error}"
        );
        assert_eq!(place.text(), bad);
    }
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let place = Place::new();
    let vault = place.vault(&[]);
    vault.put_blocking(&Entry::secret("A"), b"1").expect("set");
    for mode in [0o640, 0o604, 0o666, 0o610] {
        fs::set_permissions(place.key_file(), fs::Permissions::from_mode(mode)).expect("changed");
        let error = refused(&place.vault(&[]));
        assert!(error.contains(&format!("mode {mode:o}")) && error.contains("chmod 600"), "{error}");
    }
    fs::set_permissions(place.key_file(), fs::Permissions::from_mode(0o400)).expect("changed");
    assert_eq!(value(&place.vault(&[]), &Entry::secret("A")).as_deref(), Some("1"));
}

#[test]
fn a_key_file_without_a_key_is_refused() {
    let place = Place::new();
    place.vault(&[]).put_blocking(&Entry::secret("A"), b"1").expect("set");
    for (text, reason) in [("", "too short"), ("c2hvcnQ=\n", "too short"), ("canary!", "not Base64")] {
        fs::write(place.key_file(), text).expect("written");
        let error = refused(&place.vault(&[]));
        assert!(error.contains(reason) && !error.contains("canary"), "{error}");
    }
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_content() {
    let place = Place::new();
    let (vault, a) = (place.vault(&["new"]), Entry::secret("A"));
    vault.put_blocking(&a, b"1").expect("set");
    let good = place.text();
    // A crash leaves a new file that is not complete, and a lock file that nobody holds.
    fs::write(private_file::beside(&place.path(), "new"), &good[..good.len() / 2]).expect("written");
    assert_eq!(value(&place.vault(&["new"]), &a).as_deref(), Some("1"));
    vault.put_blocking(&a, b"2").expect("set");
    assert_eq!(value(&place.vault(&["new"]), &a).as_deref(), Some("2"));
    assert!(!private_file::beside(&place.path(), "new").exists());
    // A write that fails changes nothing: the new file cannot be made.
    let good = place.text();
    fs::create_dir(private_file::beside(&place.path(), "new")).expect("made");
    let error = vault.put_blocking(&a, b"3").expect_err("not written").to_string();
    assert!(error.contains("vault.json cannot be written"), "{error}");
    assert_eq!((place.text(), value(&vault, &a).as_deref()), (good, Some("2")));
}

#[test]
fn two_writers_lose_no_change_of_each_other() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            // Each has a vault of its own, as processes have.
            let vault = place.vault(&[]);
            scope.spawn(move || {
                for at in 0..10 {
                    let name = format!("W{writer}-{at}");
                    vault.put_blocking(&Entry::secret(&name), name.as_bytes()).expect("set");
                }
            });
        }
    });
    let vault = place.vault(&[]);
    for writer in 0..4 {
        for at in 0..10 {
            let name = format!("W{writer}-{at}");
            assert_eq!(value(&vault, &Entry::secret(&name)), Some(name));
        }
    }
}

#[test]
fn a_reader_sees_the_change_of_another_process() {
    let place = Place::new();
    let (reader, writer, a) = (place.vault(&["new"]), place.vault(&["new"]), Entry::secret("A"));
    for text in ["1", "2", "3"] {
        writer.put_blocking(&a, text.as_bytes()).expect("set");
        assert_eq!(value(&reader, &a).as_deref(), Some(text));
    }
    writer.remove_blocking(&a).expect("removed");
    assert_eq!(value(&reader, &a), None);
}

#[test]
fn a_writer_that_does_not_finish_is_named() {
    let place = Place::new();
    let vault =
        Vault { patience: Duration::from_millis(50), ..Arc::into_inner(place.vault(&[])).expect("one") };
    let lock = lock::take(&place.path(), Duration::ZERO).expect("free");
    let error = vault.put_blocking(&Entry::secret("A"), b"1").expect_err("locked").to_string();
    assert!(
        error.contains(&format!("vault.json.lock is in use by the process {}", std::process::id())),
        "{error}"
    );
    drop(lock);
    vault.put_blocking(&Entry::secret("A"), b"1").expect("free again");
}

#[test]
fn sizes_and_numbers_are_limited() {
    let place = Place::new();
    let (vault, a) = (place.vault(&["new"]), Entry::secret("A"));
    assert!(matches!(vault.put_blocking(&a, &vec![0; MAX_VALUE_BYTES + 1]), Err(Error::LongValue { .. })));
    let long = token(&"x".repeat(MAX_NAME_BYTES), Some("y"));
    assert!(matches!(vault.put_blocking(&long, b"1"), Err(Error::LongName)));
    vault.put_blocking(&a, &vec![7; MAX_VALUE_BYTES]).expect("as long as allowed");
    let mut full = Container::parse(place.text().as_bytes()).expect("parsed");
    for at in 1..MAX_ENTRIES {
        full.set(&vault.configured[0], &Entry::secret(&format!("E{at}")), b"1").expect("sealed");
    }
    fs::write(place.path(), full.text().expect("text")).expect("written");
    assert!(matches!(vault.put_blocking(&Entry::secret("B"), b"1"), Err(Error::Full { .. })));
    vault.put_blocking(&a, b"replaced").expect("no new entry");
    assert!(vault.remove_blocking(&Entry::secret("E1")).expect("removed"));
    vault.put_blocking(&Entry::secret("B"), b"1").expect("room");
}

#[test]
fn names_of_secrets_fit_into_references() {
    for good in ["A", "_a", "github_token", "a.b-c9", &"x".repeat(64)] {
        assert!(is_secret_name(good), "{good}");
    }
    for bad in ["", "9a", "-a", ".a", "a b", "a:b", "a}", "ä", "a\n", &"x".repeat(65)] {
        assert!(!is_secret_name(bad), "{bad}");
    }
}

#[test]
fn the_logins_of_one_principal_leave_room_for_others_and_for_secrets() {
    let place = Place::new();
    let vault = place.vault(&["new"]);
    let value = vec![b'x'; MAX_VALUE_BYTES];
    let of = |principal: &str, at: usize| token(&format!("server-{at}"), Some(principal));
    let refused = (0..64).find_map(|at| vault.put_blocking(&of("ann", at), &value).err());
    let Some(error @ Error::Share { share: Share::Principal, .. }) = refused else { panic!("{refused:?}") };
    let text = error.to_string();
    assert!(text.contains("at most an eighth") && text.contains("`switchyard logout`"), "{text}");
    vault.put_blocking(&of("ann", 0), &value).expect("a renewal");
    vault.put_blocking(&of("bob", 0), &value).expect("another principal");
    vault.put_blocking(&token("shared", None), &value).expect("a login of all");
    vault.put_blocking(&Entry::secret("A"), &value).expect("a secret");
    vault.remove_blocking(&of("ann", 0)).expect("a logout");
    vault.put_blocking(&of("ann", 63), &value).expect("room again");
}
