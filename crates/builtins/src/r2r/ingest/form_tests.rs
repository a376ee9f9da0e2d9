//! Tests of document names and metadata.

use super::*;

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

#[test]
fn a_document_has_one_id_and_another_wherever_it_is_another() {
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    assert_eq!(id("me", one, "a/b.md"), id("me", one, "a/b.md"));
    for other in [id("you", one, "a/b.md"), id("me", two, "a/b.md"), id("me", one, "b.md")] {
        assert_ne!(id("me", one, "a/b.md"), other);
    }
}

#[test]
fn file_type_that_r2r_does_not_know_is_sent_as_text() {
    let names = [
        ("a/b.md", "a/b.md"),
        ("x.PDF", "x.PDF"),
        ("main.rs", "main.rs.txt"),
        ("a.b/Makefile", "a.b/Makefile.txt"),
    ];
    for (name, sent) in names {
        assert_eq!(file_name(name), sent);
    }
    assert_eq!(file_name(".env"), ".env.txt");
    assert_eq!(file_name("x."), "x..txt");
}

#[test]
fn metadata_of_others_is_refused_by_name() {
    for name in OURS {
        let refusal = metadata(Some(object(&json!({ name: "x" })))).expect_err(name);
        assert_eq!(refusal.field(), format!("metadata.{name}"));
    }
    let long = "x".repeat(MOST_METADATA);
    let wrong = [
        (json!({"title": ""}), "metadata.title"),
        (json!({"title": "a\nb"}), "metadata.title"),
        (json!({"title": 3}), "metadata.title"),
        (json!({"note": long}), "metadata"),
        (json!({"note": ["a\0"]}), "metadata"),
    ];
    for (given, field) in wrong {
        assert_eq!(metadata(Some(object(&given))).expect_err("wrong").field(), field, "{given}");
    }
    let fine = object(&json!({"title": "A", "tags": ["x", {"y": null}], "n": 1.5, "\\u0000": "spelled out"}));
    assert_eq!(metadata(Some(fine.clone())).expect("fine"), fine);
    assert_eq!(metadata(None).expect("fine"), Map::new());
}

#[test]
fn a_title_ends_as_the_file_does_because_r2r_takes_the_type_from_it() {
    let title = |title: &str, name: &str| {
        let metadata = object(&json!({ "title": title }));
        let form = DocumentForm::new(Uuid::nil(), Uuid::nil(), IngestMode::Fast, name, "d", &metadata);
        form.lasting["title"].as_str().expect("a text").to_owned()
    };
    assert_eq!(title("User guide", "docs/guide.md"), "User guide.md");
    assert_eq!(title("Guide.MD", "docs/guide.md"), "Guide.MD");
    assert_eq!(title("v1.2", "main.rs"), "v1.2.txt");
}

#[test]
fn the_same_is_what_has_the_same_content_wishes_and_place() {
    let told = object(&json!({"tag": "x"}));
    let form = |mode, digest, metadata: &Map<String, Value>| {
        DocumentForm::new(Uuid::nil(), Uuid::nil(), mode, "a.md", digest, metadata)
    };
    let mut there = form(IngestMode::Fast, "d", &told).lasting;
    there.extend(object(&json!({"version": "v0", "ingested_at": "then"})));
    assert!(form(IngestMode::Fast, "d", &told).is_same(&there));
    assert!(!form(IngestMode::HiRes, "d", &told).is_same(&there));
    assert!(!form(IngestMode::Fast, "e", &told).is_same(&there));
    assert!(!form(IngestMode::Fast, "d", &object(&json!({"tag": "y"}))).is_same(&there));
    assert!(!form(IngestMode::Fast, "d", &told).is_same(&Map::new()), "not ours");
}
