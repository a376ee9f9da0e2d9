//! Settings of the history. They are read before there is one.

use std::path::{Path, PathBuf};

use super::remembered;
use settings::settings;

/// The folder below the state folder.
const NAME: &str = "history";

settings! {
    /// The calls that are kept, and for how long.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Config {
        /// the most calls that are kept; 0 keeps none. In memory are as many of the last ones as fit into 4 MiB
        pub calls: usize = 100_000, in 0..=1_000_000;
        /// how many days calls are kept in the [state folder](configuration.md#listener-limits-and-log); 0 keeps them in memory only
        pub days: u32 = 7, in 0..=365;
        /// whether calls are kept with their arguments, with the secrets of the server blanked
        pub arguments: bool;
    }
}

/// The folder in `state` for the calls of the gateway of the file `configuration`.
pub fn folder(state: &Path, configuration: &Path) -> PathBuf {
    remembered::folder_of(state, NAME, configuration).0
}
