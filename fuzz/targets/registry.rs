//! Configuration files: any content is loaded, or refused with reasons that can be printed.

#![no_main]

use std::env::VarError;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use switchyard_mcp::program::Config;

// RULES G1
fuzz_target!(|data: &[u8]| {
    let environment =
        |name: &str| if name.len() < 4 { Ok("7".to_owned()) } else { Err(VarError::NotPresent) };
    if let Err(error) = Config::parse(Path::new("fuzzed.yaml"), data, &environment) {
        assert!(!error.to_string().is_empty());
    }
});
