//! Access tokens: signed, short-lived, and for one resource.
//!
//! Invariants: a token is a function of its grant and step, so a repeated answer has the same one. Its `jti` names both.
//!
//! Not here: the check of tokens in requests (`auth`).
//!
//! Source: RFC 9068, sections 2.1 and 2.2.

use auth::EVERYTHING;
use auth::token_format::{SEPARATOR, TYPE};
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::grant::Grant;
use crate::keys::KeyRing;

/// Seconds after its end in which a token still names its grant: clocks differ.
const LEEWAY: u64 = 60;

#[derive(Serialize, Deserialize)]
struct AccessClaims {
    iss: String,
    sub: String,
    aud: String,
    client_id: String,
    iat: u64,
    exp: u64,
    jti: String,
    scope: String,
    /// The view that the token is bound to.
    view: String,
}

/// Returns the token of the present step of the grant `id`, and when it expires. `None` before the code was redeemed.
pub(crate) fn sign(
    keys: &KeyRing,
    issuer: &str,
    id: &str,
    grant: &Grant,
    access: &Access,
) -> Option<(SecretString, u64)> {
    let (generation, since) = grant.step()?;
    let claims = AccessClaims {
        iss: issuer.to_owned(),
        sub: grant.owner.clone(),
        aud: grant.resource.clone(),
        client_id: grant.client.clone(),
        iat: since,
        exp: grant.access_end(),
        jti: format!("{id}{SEPARATOR}{generation}"),
        scope: access.scope(),
        view: access.view.clone().unwrap_or_else(|| EVERYTHING.to_owned()),
    };
    let header =
        Header { typ: Some(TYPE.to_owned()), kid: Some(keys.kid.clone()), ..Header::new(Algorithm::EdDSA) };
    let token = encode(&header, &claims, &keys.signing).ok()?;
    Some((token.into(), claims.exp))
}

/// Returns the grant of an access token of this server. One that has expired is as good as unknown: it may be in an old log.
pub(crate) fn grant_of(keys: &KeyRing, issuer: &str, token: &str, now: u64) -> Option<String> {
    let key = keys.verifying.get(&decode_header(token).ok()?.kid?)?;
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.set_issuer(&[issuer]);
    validation.validate_aud = false;
    validation.validate_exp = false; // compared below
    let claims = decode::<AccessClaims>(token, key, &validation).ok()?.claims;
    if claims.exp.saturating_add(LEEWAY) <= now {
        return None;
    }
    claims.jti.split_once(SEPARATOR).map(|(grant, _)| grant.to_owned())
}
