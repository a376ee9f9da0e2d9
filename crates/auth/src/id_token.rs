//! ID tokens: what an OpenID provider says of a person who signed in there.
//!
//! Invariants: a token is accepted from its issuer only, for this client and for one login, and every check of other
//! tokens applies to it. A key is of the kind that the algorithm needs, and never a shared secret. The issuer decides
//! which of the algorithms it uses.
//!
//! Not here: fetching the key set, and what the claims allow.
//!
//! Source: `OpenID` Connect Core 1.0, section 3.1.3.7.

use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde_json::Value;
use url::Url;

use super::jwt::{Verifier, read_header};
use super::role_words::RoleWords;
use super::token_config::{Jwt, KeySetLocation, KeySource, RequiredClaims};
use super::{Error, Reason};
use json::Raw;
use net::http::Network;

/// The algorithms that are accepted, by the kind of key.
const FAMILIES: [&[Algorithm]; 3] = [
    &[
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
    ],
    &[Algorithm::ES256, Algorithm::ES384],
    &[Algorithm::EdDSA],
];
/// The difference of clocks that is tolerated.
const LEEWAY: Duration = Duration::from_mins(1);

/// Verifies the ID tokens that one issuer makes for one client.
#[derive(Debug)]
pub struct IdTokens {
    client: String,
    /// One for each kind of key in the key set.
    verifiers: Vec<Verifier>,
}

impl IdTokens {
    /// Verifies tokens with the keys of `key_set`, the key set of `issuer`, for the client with the id `client`.
    pub fn new(issuer: &Url, name: &str, client: &str, key_set: &[u8]) -> Result<Self, Error> {
        let mut verifiers = Vec::new();
        let mut last = Error::Key("the key set has no public key");
        for algorithms in FAMILIES {
            let verifier = Verifier::new(&Jwt {
                issuer: Some(name.to_owned()),
                audience: Some(client.to_owned()),
                required: RequiredClaims::default(),
                algorithms: algorithms.to_vec(),
                key: KeySource::Published(KeySetLocation::Issuer(issuer.clone())),
                leeway: LEEWAY,
                roles: RoleWords::default(),
                authorization_servers: Vec::new(),
                parties: Vec::new(),
                network: Network::default(),
            })?;
            match verifier.read_published(key_set) {
                Ok(keys) => {
                    verifier.replace(keys);
                    verifiers.push(verifier);
                }
                Err(error) => last = error,
            }
        }
        if verifiers.is_empty() { Err(last) } else { Ok(Self { client: client.to_owned(), verifiers }) }
    }

    /// Verifies `token` for the login that sent `nonce`, and returns its claims. [`Reason::UnknownKid`] says that a newer
    /// key set may have its key.
    pub fn verify(&self, token: &str, nonce: &str) -> Result<Raw, Reason> {
        let algorithm = read_header(token)?.algorithm;
        if !FAMILIES.iter().any(|family| family.contains(&algorithm)) {
            return Err(Reason::Header);
        }
        let fits = |verifier: &&Verifier| verifier.validation.algorithms.contains(&algorithm);
        let claims = self.verifiers.iter().find(fits).ok_or(Reason::UnknownKid)?.verified(token)?;
        if claims.get_as::<String>("nonce").as_deref() != Some(nonce) {
            return Err(Reason::Nonce);
        }
        if self.is_for_client(&claims) { Ok(claims) } else { Err(Reason::Party) }
    }

    /// Whether the token was made for this client: `azp` names it, and is there if others may use the token too.
    fn is_for_client(&self, claims: &Raw) -> bool {
        let has_others = || {
            let audience = claims.get_as::<Value>("aud");
            audience.is_some_and(|audience| audience.as_array().is_some_and(|all| all.len() > 1))
        };
        match claims.get("azp") {
            Some(party) => party.read::<String>().is_ok_and(|party| party == self.client),
            None => !has_others(),
        }
    }
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
