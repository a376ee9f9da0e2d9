//! Settings of the login service (`server.authorization_server.login`), and the check of a person against the list of those
//! who may sign in.
//!
//! Invariants: a list or roles decide who may sign in. Without a list, everybody with a role may, and the settings then have a
//! `role_map`. An address counts only if it is verified. A domain is compared as a whole. A login service for the accounts of
//! all companies is refused, because each company could name any email address.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use secrecy::SecretString;
use serde_json::json;
use url::Url;

use super::identity::Identity;
use crate::config::{read_id, read_issuer, read_scope_list, read_secret};
use crate::dial::is_loopback;
use crate::discovery::{is_same_issuer, union};
use auth::{EVERYTHING, Role, RoleWords, read_role_map};
use settings::{Setting, settings};

/// The issuer of GitHub, and the place of its API.
const GITHUB: &str = "https://github.com";
const GITHUB_API: &str = "https://api.github.com";
/// The host of Entra, and the parts of its issuers that stand for the accounts of all companies.
const ENTRA: &str = "login.microsoftonline.com";
const MANY_TENANTS: [&str; 3] = ["common", "organizations", "consumers"];
/// The claim with the groups of a person.
const GROUPS: &str = "groups";
/// The issuer of Google, which also signs in accounts with addresses of other providers.
const GOOGLE: &str = "https://accounts.google.com";
/// The reason for an account that has too many groups.
pub(super) const TOO_MANY_GROUPS: &str =
    "it has more groups than its login service writes into a token; the operator can use roles instead";

settings! {
    /// The people who may sign in.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Allow {
        /// email addresses that the login service has verified
        pub emails: Vec<String>, with read_emails;
        /// domains of such addresses, each as a whole. Google has to say that the account belongs to the domain (`hd`)
        pub domains: Vec<String>, with read_domains;
        /// words of the claim `groups`; at GitHub the names of organizations
        pub groups: Vec<String>, with read_groups;
    }
}

settings! {
    /// The login service at which people sign in.
    #[derive(Debug, Clone)]
    pub struct ProviderSettings {
        /// its issuer, such as `https://accounts.google.com`, whose `OpenID` metadata is read; `https://github.com` for GitHub
        pub issuer: LoginIssuer, required "the URL of the login service, such as https://login.example.org", with read_login_issuer;
        /// the id of the client that you registered there, with the redirect URI `{public_url}/oauth/login-callback`
        pub client_id: String, required "the id of the client that you registered at the login service", with read_id;
        /// the secret of that client
        pub client_secret: SecretString, required "a reference to the secret of the client, such as ${LOGIN_SECRET}", with read_secret;
        /// the scopes to ask for, beside `openid`
        pub scopes: Vec<String> => "`openid email profile`; at GitHub `read:user user:email read:org`", with read_scope_list;
        /// the people who may sign in: who is on one of the lists. Without a list, `role_map` decides
        pub allow: Allow => "required, or `role_map`";
        /// the claim with the roles of a person, also as a path such as `realm_access.roles`
        pub roles_claim: Option<String> => "`role`, else `roles`", with read_id;
        /// words of the login service and the role of each. With it, who has none of them is refused; without it and
        /// `roles_claim`, everybody who may sign in is a caller
        pub role_map: Option<BTreeMap<String, Role>> => "none", with read_role_map;
        /// the claim with the [view](../views.md) of a person, also as a path; who has none sees nothing
        pub view_claim: Option<String> => "with `view_map` `roles_claim`, else `groups`", with read_id;
        /// words of that claim and the view of each. The first word of the person that is here counts. `"*"` in the place
        /// of a view is everything
        pub view_map: Option<BTreeMap<String, String>> => "the names of the views";
        /// seconds after which a person has to sign in again. Somebody who was removed at the login service has access for
        /// at most so long
        pub max_age: Duration = Duration::from_hours(7 * 24) => "604800 (7 days)", in 600.0..=31_536_000.0;
        /// the REST API of a GitHub server of your own, such as `https://github.example.org/api/v3`, whose URL is `issuer`
        pub github_api_url: Option<Url> => "none: OpenID, except for `https://github.com`";
    }
    check ProviderSettings::check;
}

/// The identifier of the login service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginIssuer {
    /// As the operator writes it.
    pub text: String,
    /// The parsed form.
    pub url: Url,
}

impl ProviderSettings {
    /// How claims name a role and a view.
    pub fn roles(&self) -> RoleWords {
        let has_views = self.view_claim.is_some() || self.view_map.is_some();
        let named = self.view_claim.as_ref().or(self.roles_claim.as_ref());
        let view_claim = has_views.then(|| named.cloned().unwrap_or_else(|| GROUPS.to_owned()));
        RoleWords {
            claim: self.roles_claim.clone(),
            map: self.role_map.clone(),
            view_claim,
            view_map: self.view_map.clone(),
        }
    }

    /// The words of `view_map` that name a view, each with it.
    pub fn mapped_views(&self) -> impl Iterator<Item = (&str, &str)> {
        let views = self.view_map.iter().flatten().filter(|(_, view)| *view != EVERYTHING);
        views.map(|(word, view)| (word.as_str(), view.as_str()))
    }

    /// The scopes to ask for.
    pub(super) fn scopes(&self) -> Vec<String> {
        let usual: &[&str] = match self.github_api() {
            Some(_) => &["read:user", "user:email", "read:org"],
            None => &["openid", "email", "profile"],
        };
        let usual = |count| usual.iter().take(count).map(|scope| (*scope).to_owned()).collect::<Vec<_>>();
        match (self.scopes.as_slice(), self.github_api()) {
            ([], _) => usual(3),
            (own, Some(_)) => own.to_vec(),
            (own, None) => union(&usual(1), own),
        }
    }

    /// The API of GitHub, if the login service is one.
    pub(super) fn github_api(&self) -> Option<Url> {
        let is_github = || is_same_issuer(&self.issuer.text, GITHUB);
        self.github_api_url.clone().or_else(|| is_github().then(|| Url::parse(GITHUB_API).ok()).flatten())
    }

    /// A fingerprint of what decides who may sign in, and with which rights. Another `version` or field ends all grants.
    pub(super) fn fingerprint(&self) -> String {
        let RoleWords { claim, map, view_claim, view_map } = self.roles();
        let Allow { emails, domains, groups } = &self.allow;
        let rules = json!({
            "version": 1,
            "issuer": self.issuer.text,
            "github_api": self.github_api().as_ref().map(Url::as_str),
            "client_id": self.client_id,
            "emails": emails,
            "domains": domains,
            "groups": groups,
            "roles_claim": claim,
            "role_map": map,
            "view_claim": view_claim,
            "view_map": view_map,
            "max_age": self.max_age.as_secs(),
        });
        hex::encode(&digest(&SHA256, rules.to_string().as_bytes()).as_ref()[..16])
    }

    fn check(&mut self, setting: &Setting<'_>) {
        if self.allow.is_empty() && self.role_map.is_none() {
            let hint = "add `allow: {domains: [example.org]}`, or a `role_map`".to_owned();
            setting.key_problem("nobody could sign in", Some(hint));
        }
        if self.github_api_url.as_ref().is_some_and(|url| !is_protected(url)) {
            setting.key_problem("`github_api_url` does not begin with https://", None);
        }
    }
}

/// Whether nobody on the way to `url` can read requests.
fn is_protected(url: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_loopback(url)
}

fn read_login_issuer(setting: &Setting<'_>) -> Option<LoginIssuer> {
    let text = read_issuer(setting)?;
    let url = Url::parse(&text).ok()?;
    let mut path = url.path_segments().into_iter().flatten();
    if !is_protected(&url) {
        let hint = "only a login service on this machine may have a URL with http".to_owned();
        setting.problem(
            "it does not begin with https://, so others could sign in in the place of people",
            Some(hint),
        );
    } else if url.host_str() == Some(ENTRA) && path.next().is_some_and(|first| MANY_TENANTS.contains(&first))
    {
        let hint = format!("write `https://{ENTRA}/TENANT-ID/v2.0`, with the id of your tenant");
        setting.problem("it stands for the accounts of all companies", Some(hint));
    }
    Some(LoginIssuer { text, url })
}

fn read_emails(setting: &Setting<'_>) -> Option<Vec<String>> {
    let is_email =
        |text: &str| text.split_once('@').is_some_and(|(name, domain)| !name.is_empty() && is_domain(domain));
    read_each(setting, "an email address, such as ann@example.org", is_email)
}

fn read_domains(setting: &Setting<'_>) -> Option<Vec<String>> {
    read_each(setting, "the domain of email addresses, such as example.org", is_domain)
}

fn read_groups(setting: &Setting<'_>) -> Option<Vec<String>> {
    read_each(setting, "the name or id of a group", |text| (1..=256).contains(&text.len()))
}

fn is_domain(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_part)
}

fn read_each(setting: &Setting<'_>, expected: &str, is_one: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let read = |item: &Setting<'_>| item.parsed(expected, |text| is_one(text).then(|| text.to_owned()));
    Some(setting.list()?.iter().filter_map(read).collect())
}

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

#[cfg(test)]
#[path = "rules_tests.rs"]
pub(super) mod tests;
