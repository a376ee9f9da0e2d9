//! Files of other clients: the imported configuration file can be loaded, unless one of its strings is
//! not valid here, such as a bad URL.

#![no_main]

use std::env::VarError;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use switchyard_mcp::program::{Config, Folder, import};

// RULES G1
fuzz_target!(|data: &[u8]| {
    let folder = Folder { path: Path::new("/a"), is_asked_for: false };
    let Ok(gateway) = "http://127.0.0.1:8080/mcp".parse() else { return };
    let Ok(imported) = import("fuzzed.json", data, folder, &gateway, &[]) else { return };
    let environment = |_: &str| Err(VarError::NotPresent);
    let _ = imported.notes.len();
    if let Err(error) = Config::parse(Path::new("fuzzed.yaml"), imported.yaml.as_bytes(), &environment) {
        let error = error.to_string();
        assert!(!error.contains("YAML"), "{error}\n{}", imported.yaml);
    }
});
