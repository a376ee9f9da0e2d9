//! The stdio server of the tests, `tests/it/stdio_peer.rs`.

use std::path::Path;

/// The path of its program, which cargo builds with the tests.
pub fn program() -> String {
    let beside = Path::new(env!("CARGO_BIN_EXE_switchyard")).with_file_name("examples").join("stdio_peer");
    assert!(beside.exists(), "it is not built: `cargo build --example stdio_peer`");
    beside.to_str().expect("UTF-8").to_owned()
}
