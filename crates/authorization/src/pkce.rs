//! Proof keys for code exchange: the code is useless without a secret that only its client knows.
//!
//! Invariants: S256 is the only method. A request without a method means `plain` and is refused.
//!
//! Source: RFC 7636, sections 4.1 to 4.6; RFC 9700, section 2.1.1.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

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
    pub(crate) fn is_met_by(&self, verifier: &str) -> bool {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        VERIFIER_LENGTH.contains(&verifier.len())
            && verifier.bytes().all(is_unreserved)
            && bool::from(digest(&SHA256, verifier.as_bytes()).as_ref().ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verifier_of_a_challenge_meets_it() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let challenge = Challenge::parse("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM").expect("a challenge");
        assert!(challenge.is_met_by(verifier));
        let long = "a".repeat(129);
        for other in ["", &verifier[..42], &verifier.to_lowercase(), &format!("{verifier}="), &long] {
            assert!(!challenge.is_met_by(other), "{other}");
        }
    }

    #[test]
    fn verifier_of_a_wrong_form_is_refused_although_its_hash_matches() {
        for verifier in ["short", &"x".repeat(129), &format!("{}+", "x".repeat(43))] {
            let hash: [u8; 32] = digest(&SHA256, verifier.as_bytes()).as_ref().try_into().expect("32 bytes");
            assert!(!Challenge(hash).is_met_by(verifier), "{verifier}");
        }
    }

    #[test]
    fn challenge_has_32_bytes_in_base64_without_padding() {
        for text in
            ["", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-c", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM="]
        {
            assert_eq!(Challenge::parse(text), None, "{text}");
        }
    }
}
