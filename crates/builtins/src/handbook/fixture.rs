//! Test fixture: a handbook with its own folder, and calls of its tools.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Handbook;
use super::follow;
use crate::handbook::config;
pub(super) use crate::server_context;
use crate::{Builtin, Report, embedding};
use json::Raw;
use protocol::Reply;
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Events};

/// A handbook with its own folder.
pub(super) struct Fixture {
    pub folder: TempDir,
    pub handbook: Handbook,
}

impl Fixture {
    pub(super) async fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            write(folder.path(), name, text);
        }
        let handbook = open(folder.path(), 100).await.expect("it opens");
        Self { folder, handbook }
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        write(self.folder.path(), name, text);
    }

    /// Waits under paused time until the folder was walked again.
    pub(super) async fn walked(&self) {
        tokio::time::sleep(follow::PAUSE * 2).await;
    }

    /// Returns the structured result of a call that succeeds.
    pub(super) async fn ask(&self, tool: &str, arguments: Value) -> Value {
        let answer = call(&self.handbook, tool, &arguments).await;
        assert_eq!(answer["isError"], json!(false), "{answer}");
        let text: Value =
            serde_json::from_str(answer["content"][0]["text"].as_str().expect("text")).expect("JSON");
        assert_eq!(text, answer["structuredContent"]);
        text
    }

    /// Returns the explanation of a call that is refused.
    pub(super) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let answer = call(&self.handbook, tool, &arguments).await;
        assert_eq!(answer["isError"], json!(true), "{arguments} {answer}");
        assert!(answer.get("structuredContent").is_none(), "it would have to fit the output schema");
        let text: Value =
            serde_json::from_str(answer["content"][0]["text"].as_str().expect("text")).expect("JSON");
        for member in ["error", "type", "message", "field", "suggestion"] {
            assert!(text[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {text}");
        }
        assert!(text.get("rejected_value").is_some() && !text["valid_range"].is_null());
        text
    }

    pub(super) async fn paths(&self, query: &str) -> Vec<String> {
        let answer = self.ask("search_handbook", json!({"query": query})).await;
        let hits = answer["hits"].as_array().expect("hits").iter();
        hits.map(|hit| hit["metadata"]["path"].as_str().expect("a path").to_owned()).collect()
    }
}

pub(super) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// Makes the settings of a handbook over `path` that writes nothing to disk and searches by words.
pub(super) fn config(path: &Path, cache_size: usize) -> config::HandbookOptions {
    config::HandbookOptions {
        documents: config::Documents::Folder(path.to_owned()),
        exclude: Vec::new(),
        cache_size,
        embedding: embedding::Config::None,
        keeping: config::VectorLocation::Memory,
        index_dir: None,
    }
}

pub(super) async fn open(path: &Path, cache_size: usize) -> Result<Handbook, Error> {
    open_with(&config(path, cache_size)).await
}

pub(super) async fn open_with(config: &config::HandbookOptions) -> Result<Handbook, Error> {
    Handbook::open("docs", config, &server_context(&Shutdown::new()), Events::channel().0).await
}

pub(super) async fn reply(handbook: &Handbook, tool: &str, arguments: &Value) -> Result<Reply, Error> {
    handbook.call(tool, Raw::of(arguments), &Report::none()).await
}

pub(super) async fn call(handbook: &Handbook, tool: &str, arguments: &Value) -> Value {
    let answer = reply(handbook, tool, arguments).await.expect("reached").expect("a result");
    answer.read().expect("JSON")
}

pub(super) const COMPANY: &[(&str, &str)] = &[
    ("README.md", "# Our handbook\nHow we work. See [engineering](engineering/README.md).\n"),
    (
        "engineering/onboarding.md",
        "---\ntitle: Onboarding\n---\n\n# Welcome\nNew colleagues start here.\n\n## First week\nGet a \
         laptop, ask for access to `deploy_keys` and read the rules.\n\n### Accounts\nAsk the help desk.\n\n## \
         Second week\nShip something small.\n",
    ),
    ("engineering/README.md", "# Engineering\nHow we build. Incidents go to the [on-call](on-call.md).\n"),
    (
        "engineering/on-call.md",
        "# On call\nWho answers at night.\n\n## Escalation\nCall the lead when a server is down for ten \
         minutes.\n\n```sh\nkubectl rollout restart deploy/gateway\n```\n",
    ),
    ("people/holidays.md", "# Holidays\nThirty days a year.\n\n## Request leave\nTell your team first.\n"),
];
