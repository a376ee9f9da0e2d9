//! The configuration where there is no file: a handbook over the documentation that is part of the program.
//!
//! It is read like a file, so that defaults, names and what operators see are those of a file with a handbook. A program
//! without the handbook has no such configuration.

use std::path::Path;
use std::sync::Arc;

use builtins::{EmbeddedFiles, HandbookOptions};
use upstream::api::{BuiltinKind, BuiltinOptions, Kinds};

use super::{Config, Error, Lookup, whole};
use settings::Setting;

/// The pages, without those that the build script leaves out.
const PAGES: EmbeddedFiles = include!(concat!(env!("OUT_DIR"), "/documentation.rs"));

const KINDS: Kinds = &[BuiltinKind { name: "handbook", fields: &[], read }];

const FILE: &str = "\
mcp_servers:
  handbook:
    transport: builtin
    builtin: handbook
    description: How to use Switchyard
";

impl Config {
    /// The configuration that serves the documentation of Switchyard from inside the program.
    pub fn documentation(environment: &Lookup<'_>) -> Result<Self, Error> {
        let path = Path::new("(the documentation inside the program)");
        whole(Self::parse_with(path, FILE.as_bytes(), environment, None, KINDS))
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the form of a reader")]
fn read(_: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
    Some(Arc::new(HandbookOptions::embedded(PAGES)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_pages_of_the_program_are_those_that_the_file_of_the_repository_serves() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let config = Config::documentation(&|_| Err(std::env::VarError::NotPresent)).expect("valid");
        assert_eq!(config.manager.servers.len(), 1);
        for page in ["getting-started.md", "servers/github.md", "reference/command-line.md"] {
            let (_, compressed) = PAGES.iter().find(|(path, _)| *path == page).expect(page);
            let mut text = String::new();
            flate2::read::GzDecoder::new(*compressed)
                .read_to_string(&mut text)
                .expect("the build compressed it");
            assert_eq!(text, fs::read_to_string(docs.join(page)).expect("committed"));
        }
        let left_out = |path: &str| path.starts_with("contributing/") || path.starts_with("clients/");
        assert!(!PAGES.iter().any(|(path, _)| left_out(path)));
        let repository = fs::read_to_string(docs.join("../mcp_servers.yaml")).expect("committed");
        assert!(
            repository.contains("exclude: [contributing, clients]"),
            "the build script leaves out the same"
        );
    }
}
