//! Pages and files for operators that are made from tables of the code, and checks of the examples of all pages.
//!
//! Invariant: a page below `docs/reference/` is what the code says. `UPDATE_GOLDEN=1` renews these pages.
//!
//! Not here: the page of error codes (`admin`), the pages of clients (`connect`), links (`builtins`, handbook).

mod command_line;
mod config_blocks;
mod invisible;
mod limits;
mod metrics;
mod monitoring;
mod pages;
mod rest;
mod schema;
mod settings_tables;
mod shell_blocks;

use std::path::{Path, PathBuf};

use crate::config::{Config, Error};

/// Returns the path of a file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares a committed page with `page`, which the code made.
fn compare(path: &str, page: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file(path), page).expect("it can be written");
    }
    let committed = std::fs::read_to_string(file(path)).unwrap_or_default();
    assert!(committed == page, "{path} is not what the code says: run with UPDATE_GOLDEN=1");
}

/// Parses a configuration file in which every variable without a default has a value.
fn parse(yaml: &str) -> Result<Config, Error> {
    Config::parse(&file("docs/mcp_servers.yaml"), yaml.as_bytes(), &environment_of(yaml))
}

/// Returns an environment in which every variable of `yaml` without a default has a value.
fn environment_of(yaml: &str) -> impl Fn(&str) -> Result<String, std::env::VarError> {
    move |name: &str| {
        let has_default = yaml.contains(&format!("${{{name}:-"));
        if has_default { Err(std::env::VarError::NotPresent) } else { Ok(value_of(name).to_owned()) }
    }
}

/// A value that fits the use of a variable, as its name tells it.
fn value_of(name: &str) -> &'static str {
    let is = |end: &str| name.ends_with(end) || name.ends_with(&format!("{end}_BEFORE"));
    match name {
        _ if is("_HASH") => "sha256:0000000000000000000000000000000000000000000000000000000000000001",
        _ if is("_URL") || is("_ENDPOINT") => "https://service.example.org/mcp",
        _ if is("PORT") => "8001",
        _ if is("HOST") => "service.example.org",
        "HOME" => "/home/user",
        _ => "a-value-of-more-than-thirty-two-bytes",
    }
}
