//! The name of a project of R2R, as an operator or a client writes it: a name, a path or a `file:` URI.
//!
//! Invariant: a name has 1 to 128 bytes and no control character, and the path of a project is absolute and
//! shown as it was written.

use std::path::Path;

use url::Url;

/// Longest name, in bytes.
const MAX_NAME: usize = 128;
/// Longest path in bytes, as operating systems accept it.
const MAX_PATH: usize = 4_096;

/// A project: its name, and its folder if that is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProjectName {
    /// The name, which is the last part of a path.
    pub name: String,
    /// The absolute path of its folder, as it was written.
    pub path: Option<String>,
}

impl ProjectName {
    /// Reads a name, an absolute path or a `file:` URI.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with("file:") {
            return Self::of_path(Url::parse(text).ok()?.to_file_path().ok()?.to_str()?);
        }
        if text.starts_with('/') {
            return Self::of_path(text);
        }
        is_shown(text, MAX_NAME).then(|| Self { name: text.to_owned(), path: None })
    }

    fn of_path(path: &str) -> Option<Self> {
        let name = Path::new(path).file_name()?.to_str()?;
        let is_good = is_shown(name, MAX_NAME) && is_shown(path, MAX_PATH);
        is_good.then(|| Self { name: name.to_owned(), path: Some(path.to_owned()) })
    }
}

fn is_shown(text: &str, most: usize) -> bool {
    !text.trim().is_empty() && text.len() <= most && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_or_found_by_its_path() {
        for (text, name, path) in [
            (" my-app ", "my-app", None),
            ("a/b", "a/b", None),
            ("/home/me/my app", "my app", Some("/home/me/my app")),
            ("/home/me/app/", "app", Some("/home/me/app/")),
            ("file:///home/me/my%20app", "my app", Some("/home/me/my app")),
        ] {
            let path = path.map(str::to_owned);
            assert_eq!(ProjectName::parse(text), Some(ProjectName { name: name.to_owned(), path }), "{text}");
        }
        let long = "x".repeat(129);
        for text in
            ["", " ", "/", "/..", "a\nb", "file://elsewhere/home/me", "file:", &long, &format!("/a/{long}")]
        {
            assert_eq!(ProjectName::parse(text), None, "{text:?}");
        }
    }
}
