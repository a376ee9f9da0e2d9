//! The machine of states of a grant: each refusal, and random sequences against a model.

use auth::Role;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;

const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
const ID: &str = "00ff-1234";

fn challenge() -> Challenge {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, VERIFIER.as_bytes());
    Challenge::parse(&URL_SAFE_NO_PAD.encode(hash)).expect("a challenge")
}

fn grant(refreshes: bool) -> Grant {
    Grant {
        owner: "key:ann".to_owned(),
        credential: None,
        client: "https://app.example/client.json".to_owned(),
        source: ClientSource::Document,
        client_name: None,
        redirect_uri: "https://app.example/cb".to_owned(),
        resource: "https://gw.example/mcp".to_owned(),
        access: Access { role: Role::Caller, view: None },
        refreshes,
        authenticates: false,
        person: None,
        made: 1_000,
        family: TokenFamily::new(challenge()),
    }
}

fn code(grant: &Grant) -> Presented {
    Presented::code(&grant.code(ID)).expect("a code")
}

fn token(grant: &Grant) -> Presented {
    Presented::refresh_token(grant.refresh_token(ID).expect("a token").expose_secret()).expect("a token")
}

fn advanced(step: Step) -> Grant {
    match step {
        Step::Advance(grant) => *grant,
        other => panic!("{other:?}"),
    }
}

fn active() -> Grant {
    let grant = grant(true);
    advanced(grant.redeem(&code(&grant), VERIFIER, 1_001))
}

#[test]
fn code_works_once_for_a_minute_and_for_its_client_only() {
    let grant = grant(true);
    assert!(matches!(
        grant.redeem(&code(&grant), "another-verifier-of-forty-three-characters-x", 1_001),
        Step::Refuse(_)
    ));
    assert!(matches!(grant.redeem(&code(&grant), VERIFIER, 1_059), Step::Advance(_)));
    assert!(matches!(grant.redeem(&code(&grant), VERIFIER, 1_060), Step::End(_)));
    let foreign = Grant { family: TokenFamily::new(challenge()), ..grant.clone() };
    assert!(matches!(grant.redeem(&code(&foreign), VERIFIER, 1_001), Step::Refuse(_)));
}

#[test]
fn code_that_is_used_a_second_time_ends_the_grant() {
    let first = grant(true);
    let redeemed = advanced(first.redeem(&code(&first), VERIFIER, 1_001));
    assert!(matches!(redeemed.redeem(&code(&first), VERIFIER, 1_001), Step::End(_)));
    let next = advanced(redeemed.refresh(&token(&redeemed), 1_005));
    for now in [1_005, 9_999] {
        assert!(matches!(next.redeem(&code(&first), VERIFIER, now), Step::End(_)), "{now}");
    }
}

#[test]
fn used_code_without_its_verifier_ends_nothing() {
    let first = grant(true);
    let zero = advanced(first.redeem(&code(&first), VERIFIER, 1_001));
    let one = advanced(zero.refresh(&token(&zero), 2_000));
    for (grant, now) in [(&zero, 1_001), (&zero, 9_999), (&one, 2_000), (&one, 1_000 + LONGEST_LIFETIME)] {
        for verifier in ["", "another-verifier-of-forty-three-characters-x"] {
            assert!(matches!(grant.redeem(&code(&first), verifier, now), Step::Refuse(_)), "{now}");
        }
    }
}

#[test]
fn code_and_refresh_token_are_not_taken_for_one_another() {
    let (first, active) = (grant(true), active());
    let as_code = Presented { kind: Kind::Code, ..token(&active) };
    assert!(matches!(first.redeem(&as_code, VERIFIER, 1_001), Step::Refuse(_)));
    let as_token = Presented { kind: Kind::Refresh, ..code(&first) };
    assert!(matches!(active.refresh(&as_token, 1_002), Step::Refuse(_)));
    assert!(matches!(first.refresh(&token(&active), 1_002), Step::Refuse(_)), "before the code was used");
}

#[test]
fn refresh_token_that_is_used_a_second_time_ends_the_grant() {
    let zero = active();
    let one = advanced(zero.refresh(&token(&zero), 2_000));
    let two = advanced(one.refresh(&token(&one), 3_000));
    for now in [2_011, 1_989, 100] {
        assert!(matches!(one.refresh(&token(&zero), now), Step::End(_)), "{now}: not within the grace");
    }
    assert!(matches!(two.refresh(&token(&zero), 3_000), Step::End(_)), "two steps before");
    assert!(matches!(one.refresh(&token(&two), 3_000), Step::Refuse(_)), "a store that was restored");
}

#[test]
fn repeated_refresh_gets_the_same_answer_for_ten_seconds() {
    let zero = active();
    let one = advanced(zero.refresh(&token(&zero), 2_000));
    for now in [1_999, 2_000, 2_010] {
        assert_eq!(one.refresh(&token(&zero), now), Step::Repeat, "{now}");
    }
    let tokens =
        [&one, &one].map(|grant| grant.refresh_token(ID).expect("a token").expose_secret().to_owned());
    assert_eq!(tokens[0], tokens[1]);
}

#[test]
fn invented_token_does_not_end_a_grant() {
    let zero = active();
    let one = advanced(zero.refresh(&token(&zero), 2_000));
    let invented = Presented { tag: [7; 32], ..token(&zero) };
    assert!(matches!(one.refresh(&invented, 5_000), Step::Refuse(_)));
    let other_step = Presented { generation: 0, ..token(&one) };
    assert!(matches!(one.refresh(&other_step, 5_000), Step::Refuse(_)));
}

#[test]
fn grant_ends_when_it_is_unused_and_after_a_year() {
    let zero = active();
    assert!(matches!(zero.refresh(&token(&zero), 1_001 + IDLE_LIFETIME - 1), Step::Advance(_)));
    assert!(matches!(zero.refresh(&token(&zero), 1_001 + IDLE_LIFETIME), Step::End(_)));
    let late = *zero.at(Stage::Active {
        challenge: challenge(),
        generation: 9,
        since: 1_000 + LONGEST_LIFETIME - 5,
        full_at: 0,
    });
    assert!(matches!(late.refresh(&token(&late), 1_000 + LONGEST_LIFETIME), Step::End(_)));
    let once = grant(false);
    let once = advanced(once.redeem(&code(&once), VERIFIER, 1_001));
    assert!(once.refresh_token(ID).is_none());
    assert!(!once.is_over(1_001 + ACCESS_LIFETIME - 1) && once.is_over(1_001 + ACCESS_LIFETIME));
}

/// Refreshes `grant` at each of `times`. Returns how many were accepted, and the last grant.
fn refreshed(mut grant: Grant, times: impl Iterator<Item = u64>) -> (usize, Grant) {
    let mut count = 0;
    for now in times {
        match grant.refresh(&token(&grant), now) {
            Step::Advance(next) => (count, grant) = (count + 1, *next),
            Step::Wait(seconds) => assert!((1..=REFRESH_PAUSE).contains(&seconds), "{seconds}"),
            other => panic!("{other:?}"),
        }
    }
    (count, grant)
}

#[test]
fn client_that_refreshes_too_often_waits_and_keeps_its_login() {
    let (count, grant) = refreshed(active(), std::iter::repeat_n(2_000, 1_000));
    assert_eq!(count, 60);
    assert_eq!(grant.refresh(&token(&grant), 2_000), Step::Wait(30));
    assert_eq!(grant.refresh(&token(&grant), 2_029), Step::Wait(1));
    // Machines whose clocks differ: the bucket is not full at one of them.
    for now in [1_970, 2_000, 1_400, 2_000] {
        assert!(matches!(grant.refresh(&token(&grant), now), Step::Wait(30)), "{now}");
    }
    let (count, grant) = refreshed(grant, 2_001..=2_000 + 24 * 3_600);
    assert_eq!(count, 24 * 120, "one in 30 seconds");
    // The clock was set back by a day: nobody waits for that long.
    let (count, _) = refreshed(grant, 5_000..5_300);
    assert_eq!(count, 60 + 9);
}

#[test]
fn client_that_behaves_never_waits() {
    let (count, grant) = refreshed(active(), (1..=1_000).map(|at| 1_001 + at * 600));
    assert_eq!(count, 1_000, "one in ten minutes");
    // It starts many times within a minute, and refreshes each time.
    let (count, grant) = refreshed(grant, (0..60).map(|at| 700_000 + at));
    assert_eq!(count, 60);
    // Repetitions of one refresh count once.
    let next = advanced(grant.refresh(&token(&grant), 700_100));
    for _ in 0..10_000 {
        assert!(matches!(grant.refresh(&token(&grant), 700_100), Step::Advance(_)), "before one has won");
        assert_eq!(next.refresh(&token(&grant), 700_100), Step::Repeat, "and then");
    }
}

#[test]
fn malformed_code_or_token_is_none() {
    let grant = active();
    let token = grant.refresh_token(ID).expect("a token");
    let (code, token) = (grant.code(ID), token.expose_secret().to_owned());
    for text in
        ["", "swyc", "swyc_", "swyc__", &code[..code.len() - 2], &token, &code.replace("swyc", "swyx")]
    {
        assert_eq!(Presented::code(text), None, "{text}");
    }
    for text in ["", "swyr_a_b_c", "swyr_a_-1_00", &token[..token.len() - 1], &code, &format!("{token}_00")] {
        assert_eq!(Presented::refresh_token(text), None, "{text}");
    }
}

/// One thing that a client or a thief does.
#[derive(Debug, Clone)]
enum Action {
    /// Sends the refresh token of this step.
    Refresh(usize),
    /// Sends the code.
    Redeem,
    /// Waits for so many seconds.
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0_usize..6).prop_map(Action::Refresh),
        Just(Action::Redeem),
        prop_oneof![0_u64..12, Just(IDLE_LIFETIME)].prop_map(Action::Wait),
    ]
}

proptest! {
    /// A step advances by its own token only, and is reached at most once. A used token ends the grant, or is answered again
    /// within the grace.
    #[test]
    fn grant_follows_its_model(actions in prop::collection::vec(action(), 1..40)) {
        let first = grant(true);
        let (mut now, mut current) = (1_000, first.clone());
        // The tokens of all steps so far, and the time of the last step.
        let (mut tokens, mut since): (Vec<String>, u64) = (Vec::new(), 1_000);
        for action in actions {
            let (step, is_fresh, is_previous) = match action {
                Action::Wait(seconds) => { now += seconds; continue }
                Action::Redeem => (current.redeem(&code(&first), VERIFIER, now), tokens.is_empty(), false),
                Action::Refresh(at) => {
                    let Some(text) = tokens.get(at) else { continue };
                    let presented = Presented::refresh_token(text).expect("a token");
                    (current.refresh(&presented, now), at + 1 == tokens.len(), at + 2 == tokens.len())
                }
            };
            let lifetime = if tokens.is_empty() { CODE_LIFETIME } else { IDLE_LIFETIME };
            let is_over = now - since >= lifetime || now - 1_000 >= LONGEST_LIFETIME;
            match step {
                Step::Advance(next) => {
                    prop_assert!(is_fresh && !is_over);
                    since = now;
                    let token = next.refresh_token(ID).expect("a token").expose_secret().to_owned();
                    prop_assert!(!tokens.contains(&token));
                    tokens.push(token);
                    current = *next;
                }
                Step::Repeat => prop_assert!(is_previous && !is_over && now - since <= GRACE),
                Step::End(_) => { prop_assert!(!is_fresh || is_over); break }
                Step::Wait(_) => prop_assert!(false, "so few refreshes fit the bucket"),
                Step::Refuse(_) => prop_assert!(false, "a token of the grant is never unknown"),
            }
        }
    }
}

mod pkce {
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
