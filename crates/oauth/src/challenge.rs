//! The challenge of a 401 or 403 response: `WWW-Authenticate: Bearer …`.
//!
//! Invariant: a malformed header is no challenge, and never a panic. A header that begins well and then breaks the
//! grammar is ignored as a whole, because what it meant is unknown.
//!
//! Source: RFC 9110, section 11.6.1; RFC 6750, section 3; RFC 9728, section 5.1.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use url::Url;

/// Longest header that is read.
const MAX_LENGTH: usize = 8 * 1024;

/// The demands of a server in a response with status 401 or 403.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The error code, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
    /// The scopes that the request needs, separated by spaces.
    pub scope: Option<String>,
    /// Where the metadata of the protected resource is.
    pub resource_metadata: Option<Url>,
}

impl Challenge {
    /// Returns the first challenge of the scheme `Bearer` in `headers`.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        headers.get_all(WWW_AUTHENTICATE).iter().find_map(|value| {
            let text = value.to_str().ok().filter(|text| text.len() <= MAX_LENGTH)?;
            let challenges = Reader { rest: text }.challenges()?;
            let bearer = challenges.into_iter().find(|one| one.scheme.eq_ignore_ascii_case("bearer"))?;
            Some(Self::from_parameters(bearer.parameters))
        })
    }

    /// Whether the server asks for more scopes than the token has.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn from_parameters(parameters: Vec<(&str, String)>) -> Self {
        let mut challenge = Self::default();
        for (name, value) in parameters {
            match name.to_ascii_lowercase().as_str() {
                "error" => challenge.error = Some(value),
                "scope" => challenge.scope = Some(value).filter(|scope| !scope.trim().is_empty()),
                "resource_metadata" => challenge.resource_metadata = Url::parse(&value).ok(),
                _ => {}
            }
        }
        challenge
    }
}

/// One scheme with its parameters.
struct Read<'a> {
    scheme: &'a str,
    parameters: Vec<(&'a str, String)>,
}

/// Reads the list of challenges in one header.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads all challenges, or `None` if one breaks the grammar.
    fn challenges(mut self) -> Option<Vec<Read<'a>>> {
        let mut challenges: Vec<Read<'a>> = Vec::new();
        loop {
            self.skip(|c| c == ',' || is_space(c));
            if self.rest.is_empty() {
                return Some(challenges);
            }
            let name = self.token()?;
            let is_spaced = self.skip(is_space);
            if let Some(value) = self.value()? {
                // A parameter belongs to the scheme before it.
                challenges.last_mut()?.parameters.push((name, value));
                self.separator()?;
                continue;
            }
            let mut read = Read { scheme: name, parameters: Vec::new() };
            if is_spaced {
                self.first_parameter(&mut read)?;
            }
            challenges.push(read);
            self.separator()?;
        }
    }

    /// Reads what follows a scheme: nothing, a parameter, or the one value that other schemes have (`token68`).
    fn first_parameter(&mut self, read: &mut Read<'a>) -> Option<()> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Some(());
        }
        let before = self.rest;
        if let Some(name) = self.token() {
            self.skip(is_space);
            if let Some(Some(value)) = self.value() {
                read.parameters.push((name, value));
                return Some(());
            }
        }
        self.rest = before;
        self.skip(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c)).then_some(())?;
        self.skip(|c| c == '=');
        Some(())
    }

    /// Reads `=` and a value. `Some(None)` means that the name before it is no parameter.
    #[allow(clippy::option_option)] // broken, absent and present are three cases
    fn value(&mut self) -> Option<Option<String>> {
        let Some(rest) = self.rest.strip_prefix('=') else { return Some(None) };
        self.rest = rest;
        self.skip(is_space);
        if self.rest.starts_with('"') {
            self.quoted().map(Some)
        } else {
            Some(Some(self.token()?.to_owned()))
        }
    }

    fn quoted(&mut self) -> Option<String> {
        let (mut text, mut is_escaped) = (String::new(), false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if is_escaped => {
                    text.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                _ => text.push(c),
            }
        }
        None
    }

    /// Checks that a challenge or parameter ends here.
    fn separator(&mut self) -> Option<()> {
        self.skip(is_space);
        (self.rest.is_empty() || self.rest.starts_with(',')).then_some(())
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c: char| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches(is_skipped);
        self.rest.len() < before
    }
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Option<Challenge> {
        let pairs =
            values.iter().filter_map(|value| Some((WWW_AUTHENTICATE, HeaderValue::from_str(value).ok()?)));
        Challenge::of(&pairs.collect())
    }

    #[test]
    fn a_bearer_challenge_is_found_among_others() {
        let metadata = "https://h/.well-known/oauth-protected-resource";
        let expected = Challenge {
            error: Some("invalid_token".into()),
            scope: Some("a b".into()),
            resource_metadata: Url::parse(metadata).ok(),
        };
        for text in [
            format!(r#"Bearer error="invalid_token", scope="a b", resource_metadata="{metadata}""#),
            format!(r#"bEARER resource_metadata = "{metadata}",scope="a b" , ERROR=invalid_token"#),
            format!(
                r#"Basic realm="a, Bearer error=\"x\"", Bearer error=invalid_token, scope="a b", resource_metadata="{metadata}""#
            ),
            format!(
                r#"Negotiate dG9rZW4=, , Bearer realm="r", scope="a b", resource_metadata="{metadata}", error="invalid_token", Digest nonce="n", scope="other""#
            ),
        ] {
            assert_eq!(read(&[&text]).as_ref(), Some(&expected), "{text}");
            assert_eq!(read(&["Basic realm=x", &text]).as_ref(), Some(&expected), "{text}");
        }
        assert_eq!(read(&["Bearer"]), Some(Challenge::default()));
        assert_eq!(read(&["Basic, Bearer scope=\"\""]), Some(Challenge::default()));
        assert!(
            read(&["Bearer error=\"insufficient_scope\""]).is_some_and(|one| one.is_insufficient_scope())
        );
    }

    #[test]
    fn a_malformed_header_is_no_challenge() {
        for text in [
            "",
            ",",
            "error=\"invalid_token\"",
            "Bearer error=\"invalid_token",
            "Bearer error=\"x\\",
            "Bearer error==x",
            "Bearer error=\"a\" scope=\"b\"",
            "Bearer error=\"a\", =b",
            "Basic realm=x",
            "Bearerx error=a",
            "Bearer {}",
        ] {
            assert_eq!(read(&[text]), None, "{text}");
        }
        assert_eq!(read(&[&format!("Bearer scope=\"{}\"", "x".repeat(9_000))]), None);
        assert_eq!(read(&["Bearer resource_metadata=\"no url\""]), Some(Challenge::default()));
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic(text in "[\\PC\t]{0,80}") {
            let _ = read(&[&text, &format!("Bearer {text}"), &format!("Bearer scope=\"{text}\"")]);
        }

        #[test]
        fn a_quoted_value_is_read_as_it_was_meant(scope in "[ -~]{0,40}[!-~]") {
            let quoted = scope.replace('\\', "\\\\").replace('"', "\\\"");
            let found = read(&[&format!("Basic realm=\"{quoted}\", Bearer error=a, scope=\"{quoted}\"")]);
            prop_assert_eq!(found.expect("a challenge").scope, Some(scope));
        }
    }
}
