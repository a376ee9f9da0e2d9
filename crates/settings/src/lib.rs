//! A configuration document as located values, and the readers of its parts.
//!
//! Pure: no files, no environment. [`document`] makes a tree of [`Node`]s of the file. Every part of the program turns
//! its own sub-tree into its own `Config`.
//!
//! The convention for such a part:
//!
//! ```
//! use std::time::Duration;
//! use switchyard_mcp_settings::{FromSetting, settings};
//!
//! settings! {
//!     /// The settings of sessions.
//!     #[derive(Debug, PartialEq)]
//!     pub struct Config {
//!         /// How long a session may be idle.
//!         pub idle: Duration = Duration::from_secs(600), in 1.0..=86_400.0;
//!         /// The most sessions.
//!         pub limit: usize = 1_000, in 1..=100_000;
//!     }
//! }
//!
//! // In a test, without any YAML:
//! use switchyard_mcp_settings::{Node, Problems, Setting};
//! let (node, problems) = (Node::from(serde_json::json!({"idle": 0.5, "limits": 7})), Problems::default());
//! Config::from_setting(&Setting::root(&node, &problems));
//! let found: Vec<String> = problems.sorted().iter().map(ToString::to_string).collect();
//! assert_eq!(found, [
//!     "idle: 0.5 is out of range, expected 1 to 86400 seconds",
//!     "limits: unknown key (hint: did you mean `limit`?)",
//! ]);
//! ```
//!
//! Invariants:
//! - A reader never stops at the first problem: it reports the problem and continues, so an operator sees all problems
//!   of a file at once. A value made next to a problem is never used, because the entry with the problem is refused as
//!   a whole. This is why a reader may put the default in the place of an invalid value.
//! - Every read takes *all* the names its mapping knows before [`Fields::finish`].
//! - A problem quotes a string as it is written in the file. The value of an environment reference is in no problem and
//!   in no `Debug` text. A value that may be secret is read with [`Setting::secret`] and is not quoted at all.

mod declare;
pub mod document;
pub mod expand;
mod fields;
mod nearest;
mod node;
mod places;
pub mod problem;
mod setting;

pub use declare::{DefaultText, FromSetting, InRange};
pub use document::parse_duration;
pub use fields::Fields;
pub use nearest::{nearest, nearest_few};
pub use node::{Entry, Fingerprint, Mark, Node, Text, Value, read_sha256};
pub use places::{Description, Expected, Recorded};
pub use problem::{Problem, Problems, Shown, one_line};
pub use setting::{Setting, member_path};

#[cfg(test)]
mod tests;
