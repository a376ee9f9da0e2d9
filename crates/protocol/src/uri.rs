//! URIs of resources as text: their owners, and the templates that match them.
//!
//! A URI passes unchanged; nothing here normalizes. If several servers have the same URI, [`with_owner`] puts the name
//! of the owner behind its scheme. [`split_owner`] removes it before the request goes to the server. Both work on URI
//! templates too.
//!
//! Not here: which server has which URI (`manager`), and fetching anything.

mod template;

pub use template::{Template, Work};

/// The longest URI that is listed, read or matched, in bytes (RFC 9110, 4.1, asks for 8000 at least).
pub const MAX_URI: usize = 8 * 1024;

/// `uri` with the name of its server behind the scheme: `test://x` of `alpha` is `test://alpha/x`,
/// `memo:x` is `memo:alpha/x`, and text without a scheme, `x`, is `alpha/x`.
///
/// [`split_owner`] removes it again if `owner` is not empty and has no `/` and no `:`. Names of servers always meet
/// that.
pub fn with_owner(uri: &str, owner: &str) -> String {
    let (head, rest) = uri.split_at(head_of(uri));
    format!("{head}{owner}/{rest}")
}

/// Returns the owner that [`with_owner`] put into `uri`, and the URI without it. For any other URI it returns the first
/// part of the path or the authority, so the caller must check that a server has this name.
pub fn split_owner(uri: &str) -> Option<(&str, String)> {
    let (head, rest) = uri.split_at(head_of(uri));
    let (owner, rest) = rest.split_once('/')?;
    (!owner.is_empty()).then(|| (owner, format!("{head}{rest}")))
}

/// The scheme of `uri`, or of a template of URIs, if it begins with one.
pub fn scheme(uri: &str) -> Option<&str> {
    uri[..head_of(uri)].split_once(':').map(|(scheme, _)| scheme)
}

/// The length of scheme, colon and, if they follow, two slashes (RFC 3986 section 3.1).
fn head_of(uri: &str) -> usize {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let scheme = uri.bytes().take_while(|byte| is_part(*byte)).count();
    if !uri.starts_with(|first: char| first.is_ascii_alphabetic()) || !uri[scheme..].starts_with(':') {
        return 0;
    }
    if uri[scheme..].starts_with("://") { scheme + 3 } else { scheme + 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_owner_stands_behind_the_scheme() {
        for (bare, owned) in [
            ("test://x", "test://alpha/x"),
            ("memo:x", "memo:alpha/x"),
            ("x", "alpha/x"),
            ("", "alpha/"),
            ("file:///etc/hosts", "file://alpha//etc/hosts"),
            ("test://t/{id}", "test://alpha/t/{id}"),
            ("test://{+path}", "test://alpha/{+path}"),
            ("{scheme}://x", "alpha/{scheme}://x"),
            ("ui://widget/a.html", "ui://alpha/widget/a.html"),
            ("svn+ssh://h/x?y=a/b#c", "svn+ssh://alpha/h/x?y=a/b#c"),
            ("1x://y", "alpha/1x://y"),
            ("memo:/x", "memo:alpha//x"),
            ("://x", "alpha/://x"),
            ("a b://ü", "alpha/a b://ü"),
            ("ü:x", "alpha/ü:x"),
        ] {
            assert_eq!(with_owner(bare, "alpha"), owned);
            assert_eq!(split_owner(owned), Some(("alpha", bare.to_owned())), "{owned}");
        }
    }

    #[test]
    fn a_scheme_is_what_stands_before_the_colon() {
        for (uri, expected) in [
            ("test://x", Some("test")),
            ("memo:", Some("memo")),
            ("svn+ssh://{host}", Some("svn+ssh")),
            ("{scheme}://x", None),
            ("x", None),
            ("1x:y", None),
        ] {
            assert_eq!(scheme(uri), expected, "{uri}");
        }
    }

    #[test]
    fn without_a_slash_there_is_no_owner() {
        for uri in ["", "x", "memo:", "memo:x", "test://x", "test://", "test:///x", "/x", "://x"] {
            let split = split_owner(uri);
            // `://x` has no scheme, so the text before its first slash is read as a name.
            assert!(split.is_none() || uri == "://x", "{uri}: {split:?}");
        }
    }

    proptest! {
        #[test]
        fn uri_parts_survive_a_round_trip(
            uri in prop_oneof![any::<String>(), "[a-z+.1-]{0,6}:?/{0,3}[a-z:/{}?#%+]{0,12}"],
            owner in "[A-Za-z0-9._-]{1,12}",
        ) {
            let owned = with_owner(&uri, &owner);
            prop_assert_eq!(split_owner(&owned), Some((owner.as_str(), uri)));
        }
    }
}
