//! The metadata of the authorization server.
//!
//! Source: RFC 8414, section 2; RFC 9207, section 3; `OpenID` Connect Discovery 1.0, section 3;
//! draft-ietf-oauth-client-id-metadata-document-02, section 6.

use auth::Role;
use serde_json::{Value, json};

use crate::access::role_scopes;
use crate::client;

/// The path of the authorization endpoint, below the public URL.
pub const AUTHORIZE: &str = "/oauth/authorize";
/// The path of the token endpoint.
pub const TOKEN: &str = "/oauth/token";
/// The path of the revocation endpoint.
pub const REVOKE: &str = "/oauth/revoke";
/// The path where clients register. Each registration has an address below it.
pub const REGISTER: &str = "/oauth/register";
/// The path of the public keys.
pub const KEY_SET: &str = "/oauth/jwks.json";

/// Returns the metadata of the server at `issuer`. `registers` says that clients may register themselves.
pub(crate) fn metadata(issuer: &str, registers: bool) -> Value {
    let at = |path: &str| format!("{issuer}{path}");
    let scopes: Vec<&str> = role_scopes(Role::Superuser).chain(["offline_access"]).collect();
    let methods = ["none", "private_key_jwt"];
    let algorithms = client::ALGORITHMS;
    let mut metadata = json!({
        "issuer": issuer,
        "authorization_endpoint": at(AUTHORIZE),
        "token_endpoint": at(TOKEN),
        "revocation_endpoint": at(REVOKE),
        "jwks_uri": at(KEY_SET),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
    });
    if registers {
        metadata["registration_endpoint"] = at(REGISTER).into();
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_what_clients_look_for() {
        let metadata = metadata("https://gw.example", true);
        assert_eq!(metadata["issuer"], "https://gw.example");
        assert_eq!(metadata["registration_endpoint"], "https://gw.example/oauth/register");
        assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(metadata["client_id_metadata_document_supported"], true);
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
        assert_eq!(metadata["token_endpoint_auth_methods_supported"][0], "none");
    }
}
