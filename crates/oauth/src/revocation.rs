//! Revokes the tokens of a login.
//!
//! Source: RFC 7009.

use crate::dial::later;
use crate::error::Error;
use crate::token::{Fields, TokenClient};
use crate::token_response::Tokens;

/// Revokes the refresh token and the access token, if the authorization server can. Both are tried, whatever the first
/// attempt gives.
pub async fn revoke(client: &TokenClient<'_>, tokens: &Tokens) -> Result<(), Error> {
    let Some(endpoint) = &client.discovered.server.revocation_endpoint else { return Ok(()) };
    let mut outcome = Ok(());
    let refresh = tokens.refresh_token.iter().map(|token| (token, "refresh_token"));
    for (token, hint) in refresh.chain([(&tokens.access_token, "access_token")]) {
        let mut fields = Fields::default();
        fields.secret("token", token);
        fields.plain("token_type_hint", hint);
        let request = client.request(endpoint, &mut fields)?;
        let answered = client.services.send(endpoint, request).await.and_then(|response| {
            // Some servers revoke refresh tokens only (RFC 7009, section 2.2.1), and access tokens then end by themselves.
            let is_done = response.status.is_success() || hint == "access_token" && response.status == 400;
            let refused =
                || Error::refused(format!("the token was not revoked: status {}", response.status.as_u16()));
            if is_done { Ok(()) } else { Err(later(&response).unwrap_or_else(refused)) }
        });
        outcome = outcome.and(answered);
    }
    outcome
}
