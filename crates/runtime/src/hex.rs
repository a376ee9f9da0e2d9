//! Bytes as text: two lower-case hexadecimal digits each (RFC 4648 section 8, in lower case).

use std::fmt::Write;

/// The digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // into a String: never fails
        text
    })
}

/// The SHA-256 that is written `sha256:` and 64 digits, in either case.
pub fn read_sha256(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0x00, 0x0a, 0xff]), "000aff");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn a_hash_is_read_as_it_is_written_and_in_upper_case() {
        let digits = hex(&std::array::from_fn::<u8, 32, _>(|at| u8::try_from(8 * at).expect("small")));
        let read = read_sha256(&format!("sha256:{digits}")).expect("a hash");
        assert_eq!(
            (hex(&read), read_sha256(&format!("sha256:{}", digits.to_uppercase()))),
            (digits.clone(), Some(read))
        );
        let cut = &digits[1..];
        for other in
            [digits.clone(), format!("sha256:{cut}"), format!("sha256:{cut}g"), format!("sha256:{digits}0")]
        {
            assert_eq!(read_sha256(&other), None, "{other}");
        }
    }
}
