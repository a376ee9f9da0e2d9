//! The claims of the login service about a person: verified email addresses, groups and others.
//!
//! Invariant: an email address and the statement that it is verified come from the same document. An address that is not
//! verified is no claim.

use serde_json::{Map, Value};

/// Claims of a login service about one person.
pub(super) struct Identity {
    claims: Map<String, Value>,
    /// The verified addresses, the main one first.
    pub(super) emails: Vec<String>,
    /// Whether the service named an address that it has not verified.
    pub(super) has_unverified: bool,
}

impl Identity {
    /// Claims of an ID token, and those of userinfo that it lacks.
    pub(super) fn new(claims: Map<String, Value>, more: Map<String, Value>) -> Self {
        let named: Vec<_> = [&claims, &more].into_iter().filter_map(email).collect();
        let emails: Vec<String> =
            named.iter().filter(|(_, is_verified)| *is_verified).map(|(email, _)| email.clone()).collect();
        let has_unverified = emails.is_empty() && !named.is_empty();
        let mut all = more;
        all.extend(claims);
        Self::with_emails(all, emails, has_unverified)
    }

    /// Claims of a person with verified `emails`, the main one first.
    pub(super) fn with_emails(
        mut claims: Map<String, Value>,
        emails: Vec<String>,
        has_unverified: bool,
    ) -> Self {
        match emails.first() {
            Some(email) => _ = claims.insert("email".to_owned(), email.clone().into()),
            None => _ = claims.remove("email"),
        }
        Self { claims, emails, has_unverified }
    }

    /// The claims, in which a role and a view are looked for.
    pub(super) fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// A claim that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// The groups of the person.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = self.claims.get("groups").and_then(Value::as_array);
        groups.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether the person has more groups than the service writes into a token (Entra: more than 200).
    pub(super) fn lacks_groups(&self) -> bool {
        let elsewhere = self.claims.get("_claim_names").and_then(|names| names.get("groups"));
        elsewhere.is_some() && !self.claims.contains_key("groups")
    }

    /// The name of the person, for people.
    pub(super) fn name(&self) -> String {
        let claims = ["preferred_username", "login", "name", "sub"];
        let email = self.emails.first().map(String::as_str);
        let name = email.or_else(|| claims.iter().find_map(|claim| self.text(claim)));
        name.unwrap_or("somebody").to_owned()
    }
}

/// The address in a document, and whether the service has verified it. Some services write the truth value as a text.
/// Entra never says `email_verified`, but can say that the domain belongs to the tenant (`xms_edov`).
fn email(claims: &Map<String, Value>) -> Option<(String, bool)> {
    let email = claims.get("email")?.as_str().filter(|email| email.contains('@'))?;
    let is_true = |value: &Value| {
        value == true || value == 1 || value.as_str().is_some_and(|text| text == "true" || text == "1")
    };
    let verified = claims.get("email_verified").or_else(|| claims.get("xms_edov"));
    Some((email.to_owned(), verified.is_some_and(is_true)))
}
