//! The checks of a token that a login service described: the same as those of a signed token, without a signature.
//!
//! Not here: the question to the service (`introspection`), the claims themselves (`jwt`).

use std::time::Duration;

use super::introspection::Introspector;
use super::jwt::Verifier;
use super::principal::Principal;
use super::{Denied, Reason};
use json::Raw;

impl Verifier {
    /// Whether a login service is asked about each token.
    pub(super) const fn is_introspecting(&self) -> bool {
        self.introspector.is_some()
    }

    /// Asks the login service about `token`; `None` if tokens are signed.
    pub(super) async fn introspect(&self, token: &str) -> Option<Result<Principal, Denied>> {
        let introspector = self.introspector.as_ref()?;
        Some(introspector.ask(token, |claims| self.active(claims, introspector)).await)
    }

    /// Returns the principal of a token that the login service described.
    fn active(&self, claims: &Raw, introspector: &Introspector) -> Result<Principal, Denied> {
        let refused = |reason| Err(Denied::Credential(reason));
        if claims.get_as::<bool>("active") != Some(true) {
            return refused(Reason::Inactive);
        }
        let (now, leeway) = (jsonwebtoken::get_current_timestamp(), self.validation.leeway);
        let time = |name| claims.get(name).map(|time| time.read::<f64>());
        let seconds = |time: u64| Duration::from_secs(time).as_secs_f64();
        match (time("exp"), time("nbf")) {
            (Some(Err(_)), _) | (_, Some(Err(_))) => return refused(Reason::Claims),
            (Some(Ok(exp)), _) if exp <= seconds(now) => return refused(Reason::Expired),
            (_, Some(Ok(nbf))) if nbf > seconds(now + leeway) => return refused(Reason::NotYet),
            _ => {}
        }
        if !self.is_of_issuer(claims) {
            return refused(Reason::Issuer);
        }
        if !self.is_for_audience(claims) {
            return refused(Reason::Audience);
        }
        if !self.is_for_known_party(claims) {
            return refused(Reason::Party);
        }
        self.principal(claims, introspector.revocation_state())
    }

    /// Whether `aud`, a text or a list, has the configured audience.
    fn is_for_audience(&self, claims: &Raw) -> bool {
        let Some(expected) = &self.source.audience else { return true };
        let Some(audience) = claims.get("aud") else { return !self.required.audience };
        audience.read::<String>().is_ok_and(|one| one == *expected)
            || audience.read::<Vec<String>>().is_ok_and(|all| all.contains(expected))
    }
}
