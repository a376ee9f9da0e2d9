//! The program `switchyard`, and the parts of it that its own tests, benchmarks and fuzz targets drive.
//!
//! A host program needs none of it, and semantic versioning does not hold for it.

pub use crate::app::{Error, Load, Renewal, WatchedFile, router, serve, serve_on, stdio};
pub use crate::cli::{Check, ConfigFile, check, run};
pub use crate::config::Config;
pub use crate::config::import::Folder;
pub use crate::connect::import;
