//! The access that one owner granted to one client: a machine of states, from a code to a family of refresh tokens.
//!
//! ```text
//! Authorized ── code, verifier ──► Active 0 ── refresh token 0 ──► Active 1 ── refresh token 1 ──► …
//!      a refresh token, or a code with its verifier, that was used before ──► the grant ends
//! ```
//!
//! Invariants: a code works once, and each refresh token works once. A repeated use ends the grant, because one of two
//! holders has stolen it. The exception is the last refresh token for ten seconds: its answer may have been lost, and a
//! repetition gets the same answer. A code has none (RFC 6749, section 4.1.2). A token that was invented changes nothing,
//! and neither does a code without its verifier: the code was in the address of a browser, so others may know it.
//!
//! A refresh is a write, so a grant has a bucket of them. It is in the record: every process that shares the store counts the
//! same, and repetitions of one refresh count once, however many of them run.
//!
//! Codes and refresh tokens are authentication codes of their step under a secret of the grant. The grant is all that is
//! stored for them, in one record, and the answer of a step can be computed again.
//!
//! A code is useless without the proof key (PKCE) that only its client knows. S256 is the only method: a request without a
//! method means `plain` and is refused.
//!
//! Source: RFC 6749, sections 4.1.2 and 10.4; RFC 7636, sections 4.1 to 4.6; RFC 9700, sections 2.1.1, 4.5 and 4.14.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::access::Access;
use crate::client::ClientSource;
use crate::seconds;
use auth::Principal;

/// The life of a code in seconds.
const CODE_LIFETIME: u64 = 60;
/// The life of an access token in seconds.
const ACCESS_LIFETIME: u64 = 600;
/// Seconds after a refresh in which its repetition gets the same answer.
const GRACE: u64 = 10;
/// Refreshes that a client may make at once, and the seconds in which one more may follow. A client needs one in ten minutes.
const REFRESHES_AT_ONCE: u64 = 60;
const REFRESH_PAUSE: u64 = 30;
/// Seconds after which a grant ends if its client does not refresh.
const IDLE_LIFETIME: u64 = 90 * 24 * 3_600;
/// Seconds after which the owner has to agree again.
pub(crate) const LONGEST_LIFETIME: u64 = 365 * 24 * 3_600;

/// Begins every code, so that it is recognized in a log or a repository.
const CODE_PREFIX: &str = "swyc";
/// Begins every refresh token.
const REFRESH_PREFIX: &str = "swyr";

/// The access that one owner granted to one client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The id of the principal.
    pub(crate) owner: String,
    /// The tag of the credential with which the owner agreed.
    pub(crate) credential: Option<String>,
    /// The id of the client.
    pub(crate) client: String,
    /// Where the metadata of the client came from.
    pub(crate) source: ClientSource,
    /// The name of the client at that time.
    pub(crate) client_name: Option<String>,
    /// Where the code was sent.
    pub(crate) redirect_uri: String,
    /// The audience of its tokens.
    pub(crate) resource: String,
    /// The most that its tokens allow.
    pub(crate) access: Access,
    /// Whether the client gets refresh tokens.
    pub(crate) refreshes: bool,
    /// Whether the client has a key, and has to prove who it is.
    pub(crate) authenticates: bool,
    /// The rights of an owner who has no credential of this gateway.
    pub(crate) person: Option<GrantedPerson>,
    /// When the owner agreed.
    pub(crate) made: u64,
    /// Its code and refresh tokens.
    pub(crate) family: TokenFamily,
}

/// The code and the refresh tokens of a grant.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenFamily {
    secret: FamilySecret,
    stage: Stage,
}

impl TokenFamily {
    /// A new family, whose code waits for the client that knows the secret of `challenge`.
    pub(crate) fn new(challenge: Challenge) -> Self {
        Self { secret: FamilySecret::random(), stage: Stage::Authorized { challenge } }
    }
}

/// A person of the login service behind this server, as that service described it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GrantedPerson {
    /// An email address or account name, for people.
    pub(crate) name: String,
    /// The most that the person may do.
    pub(crate) rights: Access,
    /// When that ends, so that the person has to sign in again.
    until: u64,
}

impl GrantedPerson {
    /// The rights of `owner`, who has signed in at the login service; `None` for the holder of a credential.
    pub(crate) fn of(owner: &Principal) -> Option<Self> {
        let person = owner.person()?;
        Some(Self { name: person.name.to_string(), rights: Access::of(owner), until: seconds(person.until) })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// The owner has agreed, and the code was not redeemed.
    Authorized { challenge: Challenge },
    /// The client has tokens. A `generation` is the number of refreshes, the last of which was at `since`. The `challenge`
    /// is that of the code. The bucket of refreshes will be full at `full_at`.
    Active {
        challenge: Challenge,
        generation: u64,
        since: u64,
        #[serde(default)]
        full_at: u64,
    },
}

/// The secret under which codes and refresh tokens are authenticated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FamilySecret([u8; 32]);

/// The result of a code or refresh token that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is accepted, and the grant becomes this one.
    Advance(Box<Grant>),
    /// The answer was given a moment ago, and is repeated.
    Repeat,
    /// It is not accepted now, and will be after these seconds.
    Wait(u64),
    /// It is not accepted.
    Refuse(&'static str),
    /// It is not accepted, and the grant ends.
    End(GrantEnd),
}

/// Why a grant ends that a client wants to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantEnd {
    CodeExpired,
    LoginExpired,
    CodeReused,
    TokenReused,
    NoAccess,
}

impl GrantEnd {
    /// The reason, for the developer of the client.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::CodeExpired => "the code has expired",
            Self::LoginExpired => "the login has expired",
            Self::CodeReused => "the code was used before; every token of this login is revoked",
            Self::TokenReused => "the refresh token was used before; every token of this login is revoked",
            Self::NoAccess => "the person who agreed has no access any more",
        }
    }

    /// The outcome in the audit log, if one of two holders has stolen what was sent.
    pub(crate) const fn theft(self) -> Option<&'static str> {
        match self {
            Self::CodeReused => Some("code_reused"),
            Self::TokenReused => Some("token_reused"),
            Self::CodeExpired | Self::LoginExpired | Self::NoAccess => None,
        }
    }
}

/// A code or refresh token as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    kind: Kind,
    /// The id of the grant.
    pub(crate) grant: String,
    generation: u64,
    tag: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Refresh,
}

impl Presented {
    /// Reads a code. `None` for a text that no code can be.
    pub(crate) fn code(text: &str) -> Option<Self> {
        let (grant, tag) = text.strip_prefix(CODE_PREFIX)?.strip_prefix('_')?.split_once('_')?;
        Some(Self { kind: Kind::Code, grant: grant.to_owned(), generation: 0, tag: read_tag(tag)? })
    }

    /// Reads a refresh token. `None` for a text that no refresh token can be.
    pub(crate) fn refresh_token(text: &str) -> Option<Self> {
        let (grant, rest) = text.strip_prefix(REFRESH_PREFIX)?.strip_prefix('_')?.split_once('_')?;
        let (generation, tag) = rest.split_once('_')?;
        let generation = generation.parse().ok()?;
        Some(Self { kind: Kind::Refresh, grant: grant.to_owned(), generation, tag: read_tag(tag)? })
    }
}

impl Grant {
    /// The code of the grant `id`.
    pub(crate) fn code(&self, id: &str) -> String {
        format!("{CODE_PREFIX}_{id}_{}", hex::encode(self.tag(Kind::Code, 0)))
    }

    /// The refresh token of the present step, if the client gets one.
    pub(crate) fn refresh_token(&self, id: &str) -> Option<SecretString> {
        let Stage::Active { generation, .. } = self.family.stage else { return None };
        let tag = hex::encode(self.tag(Kind::Refresh, generation));
        self.refreshes.then(|| format!("{REFRESH_PREFIX}_{id}_{generation}_{tag}").into())
    }

    /// When the present step began, and its number. `None` before the code was redeemed.
    pub(crate) const fn step(&self) -> Option<(u64, u64)> {
        match self.family.stage {
            Stage::Authorized { .. } => None,
            Stage::Active { generation, since, .. } => Some((generation, since)),
        }
    }

    /// When the access token of the present step expires: with the rights of a person at the latest.
    pub(crate) fn access_end(&self) -> u64 {
        let end = self.used().saturating_add(ACCESS_LIFETIME);
        self.person.as_ref().map_or(end, |person| end.min(person.until))
    }

    /// When a token was last given to the client, or the owner agreed.
    pub(crate) const fn used(&self) -> u64 {
        match self.family.stage {
            Stage::Authorized { .. } => self.made,
            Stage::Active { since, .. } => since,
        }
    }

    /// Whether nobody can get or use a token of this grant any more.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        if self.person.as_ref().is_some_and(|person| now >= person.until) {
            return true;
        }
        let lifetime = match self.family.stage {
            Stage::Authorized { .. } => CODE_LIFETIME,
            Stage::Active { .. } if self.refreshes => IDLE_LIFETIME,
            Stage::Active { .. } => ACCESS_LIFETIME,
        };
        now.saturating_sub(self.used()) >= lifetime || now.saturating_sub(self.made) >= LONGEST_LIFETIME
    }

    /// Whether `presented` was made by this grant, at any time.
    pub(crate) fn has_made(&self, presented: &Presented) -> bool {
        let message = message(presented.kind, presented.generation);
        hmac::verify(&self.family.secret.key(), &message, &presented.tag).is_ok()
    }

    /// Redeems the code `presented`, with the secret of its client.
    pub(crate) fn redeem(&self, presented: &Presented, verifier: &str, now: u64) -> Step {
        if presented.kind != Kind::Code || !self.has_made(presented) {
            return Step::Refuse("the code is not known");
        }
        let (Stage::Authorized { challenge } | Stage::Active { challenge, .. }) = &self.family.stage;
        if !challenge.is_met_by(verifier) {
            return Step::Refuse("`code_verifier` does not belong to the `code_challenge` of the code");
        }
        if self.is_over(now) {
            return Step::End(GrantEnd::CodeExpired);
        }
        match self.step() {
            None => {
                let challenge = challenge.clone();
                Step::Advance(self.at(Stage::Active { challenge, generation: 0, since: now, full_at: now }))
            }
            Some(_) => Step::End(GrantEnd::CodeReused),
        }
    }

    /// Redeems the refresh token `presented`.
    pub(crate) fn refresh(&self, presented: &Presented, now: u64) -> Step {
        let Stage::Active { ref challenge, generation, since, full_at } = self.family.stage else {
            return Step::Refuse("the refresh token is not known");
        };
        if presented.kind != Kind::Refresh || !self.refreshes || !self.has_made(presented) {
            return Step::Refuse("the refresh token is not known");
        }
        if self.is_over(now) {
            return Step::End(GrantEnd::LoginExpired);
        }
        if presented.generation == generation {
            let (challenge, generation) = (challenge.clone(), generation + 1);
            return match take_refresh(full_at, since, now) {
                Ok(full_at) => {
                    Step::Advance(self.at(Stage::Active { challenge, generation, since: now, full_at }))
                }
                Err(seconds) => Step::Wait(seconds),
            };
        }
        if presented.generation > generation {
            // The store was restored from an older copy.
            return Step::Refuse("the refresh token is not known");
        }
        if presented.generation + 1 == generation && now.abs_diff(since) <= GRACE {
            return Step::Repeat;
        }
        Step::End(GrantEnd::TokenReused)
    }

    fn at(&self, stage: Stage) -> Box<Self> {
        let family = TokenFamily { stage, secret: self.family.secret.clone() };
        Box::new(Self { family, ..self.clone() })
    }

    fn tag(&self, kind: Kind, generation: u64) -> hmac::Tag {
        hmac::sign(&self.family.secret.key(), &message(kind, generation))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("owner", &self.owner)
            .field("stage", &self.family.stage)
            .finish_non_exhaustive()
    }
}

impl FamilySecret {
    fn random() -> Self {
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret).expect("the system gives random bytes");
        Self(secret)
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

/// Takes a refresh from the bucket that will be full at `full_at`, and returns when it will be full then. The last one was at
/// `since`. The error is the seconds after which there is one, at most one pause.
fn take_refresh(full_at: u64, since: u64, now: u64) -> Result<u64, u64> {
    let depth = REFRESHES_AT_ONCE * REFRESH_PAUSE;
    // A clock that is a little behind the last refresh, as those of two machines are, fills no bucket. One that is further behind
    // was set back: the bucket counts as full, so that nobody waits until the clock is there again.
    let full_at = if since > now + depth { now } else { full_at.clamp(now, now + depth) };
    let next = full_at + REFRESH_PAUSE;
    let wait = next.saturating_sub(now + depth);
    if wait == 0 { Ok(next) } else { Err(wait) }
}

/// The message that is authenticated.
fn message(kind: Kind, generation: u64) -> Vec<u8> {
    let label: &[u8] = match kind {
        Kind::Code => b"code",
        Kind::Refresh => b"refresh",
    };
    [label, &generation.to_be_bytes()].concat()
}

fn read_tag(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

/// The lengths of a verifier.
const VERIFIER_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;

/// The hash of a secret that the client keeps until it redeems its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge([u8; 32]);

impl Challenge {
    /// Reads `code_challenge`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// Whether `verifier` is the secret.
    fn is_met_by(&self, verifier: &str) -> bool {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        VERIFIER_LENGTH.contains(&verifier.len())
            && verifier.bytes().all(is_unreserved)
            && bool::from(digest(&SHA256, verifier.as_bytes()).as_ref().ct_eq(&self.0))
    }
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;
