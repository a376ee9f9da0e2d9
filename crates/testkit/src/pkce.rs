//! The query of an authorization request, with its proof (PKCE).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::form_urlencoded::Serializer;

/// A secret of a client, for tests that need no other one.
pub const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";

/// Returns the challenge of `verifier` (`S256`).
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// Returns the query of a valid authorization request at `https://gw.example` with the challenge of [`VERIFIER`], and with
/// `more` in the place of its own fields.
pub fn query(client: &str, redirect_uri: &str, more: &[(&str, &str)]) -> String {
    let own = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", redirect_uri),
        ("state", "a state+&"),
        ("code_challenge", &challenge(VERIFIER)),
        ("code_challenge_method", "S256"),
        ("resource", "https://gw.example/mcp"),
        ("scope", "mcp:read mcp:call"),
    ];
    merged(&own, more)
}

/// Returns the query of the fields `own`, with `more` in the place of those of the same names.
pub fn merged(own: &[(&str, &str)], more: &[(&str, &str)]) -> String {
    let own = own.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    Serializer::new(String::new()).extend_pairs(own.chain(more)).finish()
}
