//! Limits of what an authorization server may make Switchyard keep and send, in bytes.
//!
//! Invariant: what one login leaves in the vault is smaller than the longest value of the vault. The whole answer has a
//! limit too (`dial`).

use url::Url;

use crate::error::Error;

/// Limit of an access token. It becomes a header, and few servers read a longer one.
pub(crate) const MAX_ACCESS_TOKEN: usize = 16 << 10;
/// Limit of a refresh token.
pub(crate) const MAX_REFRESH_TOKEN: usize = 8 << 10;
/// Limit of an authorization code.
pub(crate) const MAX_CODE: usize = 8 << 10;
/// Limit of an ID token. Only its name of the account is read.
pub(crate) const MAX_ID_TOKEN: usize = 16 << 10;
/// Limit of the id of a client. It becomes a part of URLs and forms, which have limits of their own.
pub(crate) const MAX_CLIENT_ID: usize = 4 << 10;
/// Limit of the secret of a registered client.
pub(crate) const MAX_CLIENT_SECRET: usize = 4 << 10;
/// Limit of a URL or identifier in metadata.
const MAX_URL: usize = 2 << 10;
/// Limit of the number of scopes.
const MAX_SCOPES: usize = 100;
/// Limit of one scope.
const MAX_SCOPE: usize = 256;
/// Limit of all scopes of a login.
const MAX_ALL_SCOPES: usize = 4 << 10;

/// Fails if `value`, which is described as `what`, is longer than `limit`.
pub(crate) fn check(what: &str, value: &str, limit: usize) -> Result<(), Error> {
    let length = value.len();
    if length <= limit {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the authorization server gave {what} of {length} bytes, and {limit} are the limit"
    )))
}

/// Fails if one of the URLs `name` in metadata is too long.
pub(crate) fn check_urls<'a>(urls: impl IntoIterator<Item = (&'static str, &'a str)>) -> Result<(), Error> {
    urls.into_iter().try_for_each(|(name, url)| check(&format!("a `{name}`"), url, MAX_URL))
}

/// Returns the text of a URL that may be absent.
pub(crate) fn text(url: Option<&Url>) -> &str {
    url.map(Url::as_str).unwrap_or_default()
}

/// Returns the scopes within the limits. Those that are too long, and those after the limit of all, are left out.
pub(crate) fn bounded_scopes(scopes: Vec<String>) -> Vec<String> {
    let mut rest = MAX_ALL_SCOPES;
    let fits = |scope: &String| {
        let is_fitting = scope.len() <= MAX_SCOPE && scope.len() < rest;
        rest -= if is_fitting { scope.len() + 1 } else { 0 };
        is_fitting
    };
    scopes.into_iter().filter(fits).take(MAX_SCOPES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_have_a_limit_each_in_number_and_in_sum() {
        let scopes = |count: usize, length: usize| -> Vec<String> { vec!["x".repeat(length); count] };
        for (count, length, left) in [(200, 1, 100), (3, 257, 0), (100, 256, 15), (100, 39, 100)] {
            assert_eq!(bounded_scopes(scopes(count, length)).len(), left, "{count} of {length}");
        }
        let mixed = ["a".to_owned(), "y".repeat(300), "b".to_owned()];
        assert_eq!(bounded_scopes(mixed.to_vec()), ["a", "b"]);
    }
}
