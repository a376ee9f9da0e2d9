//! RULES S6: of tampered, foreign and invented tokens none is opened.

use proptest::prelude::*;

use super::*;
use crate::Role;

fn somebody(id: &str) -> Principal {
    Principal::new(id.to_owned(), Role::Superuser)
}

fn sealer() -> Sealer {
    Sealer::from_secrets(&[SecretString::from("a secret of the tests, at least 32 bytes".to_owned())])
}

#[test]
fn a_token_opens_for_whom_and_for_what_it_was_sealed() {
    let (sealer, ann) = (sealer(), somebody("ann"));
    for payload in [&b""[..], b"x", &[0; 10_000], "ü{\"a\":1}".as_bytes()] {
        let token = sealer.seal("task", &ann, payload);
        assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_eq!(sealer.open("task", &ann, &token).as_deref(), Some(payload));
        // The role is no part of it: who loses one keeps what is theirs.
        let reader = Principal::new("ann".to_owned(), Role::Reader);
        assert_eq!(sealer.open("task", &reader, &token).as_deref(), Some(payload));
        for (sealer, purpose, principal) in [
            (&sealer, "task", somebody("bob")),
            (&sealer, "task", somebody("")),
            (&sealer, "task", Principal::anonymous()),
            (&sealer, "state", somebody("ann")),
            (&sealer, "", somebody("ann")),
            (&sealer, "tas", somebody("kann")),
            (&sealer, "taska", somebody("nn")),
            (&Sealer::random(), "task", somebody("ann")),
        ] {
            assert_eq!(sealer.open(purpose, &principal, &token), None, "{purpose} {principal:?}");
        }
    }
}

#[test]
fn the_first_key_seals_and_all_open() {
    let secret = |c: char| SecretString::from(c.to_string().repeat(32));
    let (ann, keys) =
        (somebody("ann"), |cs: &str| Sealer::from_secrets(&cs.chars().map(secret).collect::<Vec<_>>()));
    let old = keys("a").seal("task", &ann, b"1");
    for (opener, opens) in [("a", true), ("ba", true), ("cba", true), ("b", false), ("", false)] {
        let opened = keys(opener).open("task", &ann, &old);
        assert_eq!(opened.as_deref(), opens.then_some(&b"1"[..]), "{opener}");
    }
    assert_eq!(keys("ba").seal("task", &ann, b"1"), keys("b").seal("task", &ann, b"1"));
}

#[test]
fn equal_content_gives_equal_tokens_and_other_content_others() {
    let (sealer, ann) = (sealer(), somebody("ann"));
    let token = sealer.seal("task", &ann, b"1");
    assert_eq!(token, sealer.seal("task", &ann, b"1"));
    assert_eq!(token, self::sealer().seal("task", &ann, b"1"), "another instance with the same secret");
    for other in [
        sealer.seal("task", &ann, b"2"),
        sealer.seal("task", &somebody("bob"), b"1"),
        sealer.seal("state", &ann, b"1"),
        Sealer::random().seal("task", &ann, b"1"),
    ] {
        assert_ne!(token, other);
        assert_ne!(token[..16], other[..16], "each content has its own nonce");
    }
}

// RULES S6
#[test]
fn none_of_ten_thousand_tampered_tokens_is_opened() {
    let (sealer, ann) = (sealer(), somebody("ann"));
    let token = sealer.seal("task", &ann, &[7; 400]);
    let bytes = URL_SAFE_NO_PAD.decode(&token).expect("Base64");
    let (mut tampered, mut accepted) = (0_u32, 0_u32);
    let mut give = |text: &str| {
        tampered += 1;
        accepted += u32::from(sealer.open("task", &ann, text).is_some());
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        give(&URL_SAFE_NO_PAD.encode(flipped));
    }
    // One character of the text changed at a time; the last one has bits that no byte needs.
    for at in 0..token.len() {
        for other in ["A", "_", "z", "=", " ", "é", "+", "/", "\0", ".", "5"] {
            if token[at..=at] != *other {
                give(&format!("{}{other}{}", &token[..at], &token[at + 1..]));
            }
        }
    }
    for length in 0..token.len() {
        give(&token[..length]);
        give(&token[length + 1..]);
    }
    for length in 0..bytes.len() {
        give(&URL_SAFE_NO_PAD.encode(&bytes[..length]));
    }
    for text in [format!("{token}A"), format!("{token}="), format!(" {token}"), token.repeat(2), "{}".into()]
    {
        give(&text);
    }
    for garbage in [vec![0; 1 << 20], vec![b'A'; 1 << 20], vec![b'='; 1 << 20]] {
        give(&String::from_utf8_lossy(&garbage));
        give(&URL_SAFE_NO_PAD.encode(&garbage));
    }
    assert!(tampered >= 10_000, "{tampered}");
    assert_eq!(accepted, 0, "of {tampered}");
    assert!(sealer.open("task", &ann, &token).is_some());
}

#[test]
fn a_sealer_shows_nothing_of_its_key() {
    assert_eq!(format!("{:?}", sealer()), "Sealer");
}

proptest! {
    #[test]
    fn any_sealed_value_is_opened(payload in prop::collection::vec(any::<u8>(), 0..200), purpose: String, id: String) {
        let (sealer, who) = (sealer(), somebody(&id));
        let token = sealer.seal(&purpose, &who, &payload);
        prop_assert_eq!(sealer.open(&purpose, &who, &token), Some(payload));
    }

    #[test]
    fn no_text_is_opened(text: String) {
        prop_assert_eq!(sealer().open("task", &somebody("ann"), &text), None);
    }
}
