//! Tests that every path which the tools return leads to its document or section, whatever the files are
//! called.

use serde_json::{Value, json};

use super::super::fixture::Fixture;

/// Each file contains its own name, and has a section that does too.
const ODD: &[&str] = &[
    "eng/C.md",
    "eng/C#.md",
    "eng/C#.markdown",
    "eng/C##.md",
    "eng/C%23.md",
    "eng/C#own.md",
    "twin.md",
    "twin.markdown",
    "a.md.md",
    "a.md",
    "~x.md",
    "~y/README.md",
    "q:a.md",
    "back\\slash.md",
    " space .md",
    "new\nline.md",
    "F#/README.md",
    "F#/in.md",
    "F.md",
    "Upper.MD",
    "upper.md",
    "topic.md",
    "topic/one.md",
];

async fn odd() -> Fixture {
    let text = |name: &str| format!("# Title {{#top}}\nzebra of {name:?}\n\n## Own\ngiraffe of {name:?}\n");
    let texts: Vec<String> = ODD.iter().map(|name| text(name)).collect();
    let files: Vec<(&str, &str)> = ODD.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    Fixture::with(&files).await
}

/// Returns path and file of all hits.
async fn hits(fixture: &Fixture, arguments: Value) -> Vec<(String, String)> {
    let answer = fixture.ask("search_handbook", arguments).await;
    let text = |hit: &Value, member: &str| hit["metadata"][member].as_str().expect("text").to_owned();
    let hits = answer["hits"].as_array().expect("hits").iter();
    hits.map(|hit| (text(hit, "path"), text(hit, "file_path"))).collect()
}

/// Collects the paths of all topics except folders.
fn paths(topics: &Value, into: &mut Vec<String>) {
    for topic in topics.as_array().into_iter().flatten() {
        if topic["kind"] != "folder" {
            into.push(topic["path"].as_str().expect("a path").to_owned());
        }
        paths(&topic["subtopics"], into);
    }
}

#[tokio::test(start_paused = true)]
async fn every_path_that_is_given_leads_to_what_it_was_given_for() {
    let fixture = odd().await;
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in ODD.iter().enumerate() {
        for (word, is_section) in [("zebra", false), ("giraffe", true)] {
            // One document at a time, because no search shows all of them.
            let found = hits(&fixture, json!({"query": word, "section": name})).await;
            let [(path, file)] = found.as_slice() else { panic!("{name:?}, {word}: {found:?}") };
            assert_eq!(file, name);
            let read = fixture.ask("get_handbook_section", json!({"path": path})).await;
            assert_eq!(read["metadata"]["file_path"], *name, "{path:?}");
            assert_eq!(read["metadata"]["path"], *path);
            let content = read["content"].as_str().expect("text");
            assert_eq!(content.contains("zebra"), !is_section, "{path:?}: {content}");
            let within = hits(&fixture, json!({"query": word, "section": path})).await;
            let is_shared = *name == "topic.md" && !is_section;
            assert!(is_shared || within == found, "{path:?}: {within:?}");
            assert!(seen.insert(path.clone()), "{index}: {path:?} is given twice");
        }
        let read = fixture.ask("get_handbook_section", json!({"path": name})).await;
        assert_eq!(read["metadata"]["file_path"], *name, "a file's own name means the file");
    }
    let mut topics = Vec::new();
    paths(&fixture.ask("list_handbook_topics", json!({})).await["topics"], &mut topics);
    assert_eq!(topics.iter().cloned().collect::<std::collections::BTreeSet<_>>(), seen);
    assert_eq!(topics.len(), seen.len());
    let updates = fixture.ask("get_recent_updates", json!({})).await;
    for update in updates["updates"].as_array().expect("updates") {
        let path = update["path"].as_str().expect("a path");
        let read = fixture.ask("get_handbook_section", json!({"path": path})).await;
        assert_eq!(read["metadata"]["file_path"], update["file_path"], "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_gave_means_what_is_like_it() {
    let fixture = odd().await;
    for (path, file) in [
        ("eng/C", "eng/C.md"),
        ("eng/c", "eng/C.md"),
        ("eng/C#", "eng/C#.md"),
        ("eng/c##own", "eng/C#.markdown"),
        ("eng/C#own", "eng/C.md"),
        ("twin", "twin.md"),
        ("~y", "~y/README.md"),
        ("F#", "F#/README.md"),
        ("topic", "topic.md"),
    ] {
        let read = fixture.ask("get_handbook_section", json!({"path": path})).await;
        assert_eq!(read["metadata"]["file_path"], file, "{path}");
    }
    for path in ["~z", "q:b", "back\\lash", "a\nb", "../twin", "/twin"] {
        assert_eq!(
            fixture.refused("get_handbook_section", json!({"path": path})).await["error"],
            "invalid_path"
        );
    }
    let folder = hits(&fixture, json!({"query": "zebra", "section": "topic"})).await;
    assert_eq!(folder.len(), 2, "the folder, and the page that has its name");
}
