//! The people who may sign in.
//!
//! Invariants: without a list, everybody with a role may sign in, and the settings then have a `role_map`. An address counts
//! only if it is verified. A domain is compared as a whole.

use super::identity::Identity;
use super::rules::Allow;
use crate::discovery::is_same_issuer;

/// The issuer of Google, which also signs in accounts with addresses of other providers.
const GOOGLE: &str = "https://accounts.google.com";
/// The reason for an account that has too many groups.
pub(super) const TOO_MANY_GROUPS: &str =
    "it has more groups than its login service writes into a token; the operator can use roles instead";

impl Allow {
    /// Whether nobody is listed.
    pub(super) const fn is_empty(&self) -> bool {
        self.emails.is_empty() && self.domains.is_empty() && self.groups.is_empty()
    }

    /// Checks that `identity` of `issuer` is listed. The error says what is missing.
    pub(super) fn check(&self, issuer: &str, identity: &Identity) -> Result<(), &'static str> {
        let has = |listed: &[String], value: &str| listed.iter().any(|one| one.eq_ignore_ascii_case(value));
        let mut emails = identity.emails.iter();
        let is_listed = self.is_empty()
            || emails.any(|email| has(&self.emails, email))
            || domains(issuer, identity).iter().any(|domain| has(&self.domains, domain))
            || identity.groups().any(|group| self.groups.iter().any(|listed| listed == group));
        if is_listed {
            return Ok(());
        }
        let needs_email = !self.emails.is_empty() || !self.domains.is_empty();
        Err(match () {
            () if !self.groups.is_empty() && identity.lacks_groups() => TOO_MANY_GROUPS,
            () if needs_email && identity.has_unverified => {
                "its login service has not verified its email address"
            }
            () if needs_email && self.groups.is_empty() && identity.emails.is_empty() => {
                "its login service names no email address"
            }
            () => "it is not among the people who may sign in",
        })
    }
}

/// The domains that vouch for a person. Google says with `hd` that an account belongs to a domain; an address alone may be
/// one that its owner has lost since.
fn domains<'i>(issuer: &str, identity: &'i Identity) -> Vec<&'i str> {
    let of_emails = identity.emails.iter().filter_map(|email| Some(email.rsplit_once('@')?.1));
    if !is_same_issuer(issuer, GOOGLE) {
        return of_emails.collect();
    }
    let own = of_emails.filter(|domain| domain.eq_ignore_ascii_case("gmail.com"));
    own.chain(identity.text("hd")).collect()
}
