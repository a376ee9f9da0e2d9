//! `switchyard schema`: the JSON Schema of the configuration file, for editors.
//!
//! The schema is made from the readers of the file by a test (`docs_tests::schema`), and is part of the program.

use std::io::{self, Write};
use std::process::ExitCode;

/// The schema.
pub(super) const TEXT: &str = include_str!("../../docs/reference/mcp_servers.schema.json");
/// The name of its file beside a configuration file.
pub(super) const FILE: &str = "mcp_servers.schema.json";

pub(super) const HELP: &str = "\
Examples:
  switchyard schema > mcp_servers.schema.json

Editors with the YAML language server use it if this is the first line of the configuration file:
  # yaml-language-server: $schema=mcp_servers.schema.json
`switchyard init` writes both.";

/// Prints the schema.
pub(super) fn print(out: &mut dyn Write) -> ExitCode {
    let printed: io::Result<()> = out.write_all(TEXT.as_bytes()).and_then(|()| out.flush());
    printed.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}
