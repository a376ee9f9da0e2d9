//! Opens a page in the browser of the user.
//!
//! Invariants: only web addresses are opened, without a shell. The browser does not inherit the credential of this
//! command, and stays open when the command is interrupted.
//!
//! Not here: which page. The crate `open` knows the programs of each system.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use url::Url;

/// The variable with the credential of a command.
const KEY: &str = "SWITCHYARD_KEY";
/// Variables of which one is set where a browser can show a window.
const DISPLAYS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];

/// Opens `url`. False if there is no browser that can show it.
pub(super) fn open(url: &Url) -> bool {
    let has_window =
        cfg!(target_os = "macos") || DISPLAYS.iter().any(|name| std::env::var_os(name).is_some());
    if !has_window || !matches!(url.scheme(), "http" | "https") {
        return false;
    }
    let started = |mut program: std::process::Command| {
        program.env_remove(KEY).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        program.process_group(0).spawn().is_ok()
    };
    open::commands(url.as_str()).into_iter().any(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_opened() {
        for url in ["file:///etc/passwd", "javascript:alert(1)", "mailto:a@example.org"] {
            assert!(!open(&Url::parse(url).expect("a URL")), "{url}");
        }
    }
}
