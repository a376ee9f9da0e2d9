//! Whole numbers in decimal digits, written without an allocation, and read as other programs spell them.

/// Room for the digits of one number.
#[derive(Debug, Default)]
pub struct Decimal([u8; 20]);

impl Decimal {
    /// The digits of `number`, which are also its JSON.
    pub fn write(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            // A remainder by ten fits.
            self.0[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}

/// The number that `text`, a JSON value, means: also a string of digits (`"7"`), or digits with a fraction of zeros
/// (`7.0`). Some servers write the id of a request so in their response, and common SDKs accept it.
pub fn whole(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => text.split_once('.').map_or(Some(text), |(whole, fraction)| {
            let is_zero = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
            is_zero.then_some(whole)
        })?,
    };
    // Unlike JSON, `parse` accepts a sign and leading zeros.
    let is_plain = digits == "0" || digits.starts_with(|first| matches!(first, '1'..='9'));
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_text_and_with_a_zero_fraction() {
        for (text, number) in [
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("7.0", Some(7)),
            ("7.00", Some(7)),
            ("0", Some(0)),
            ("\"18446744073709551615\"", Some(u64::MAX)),
            ("\"07\"", None),
            ("\"+7\"", None),
            ("\"7.0\"", None),
            ("7.5", None),
            ("7.", None),
            ("-7", None),
            ("\"\"", None),
            ("\"a\"", None),
            ("null", None),
        ] {
            assert_eq!(whole(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn digits_are_those_that_the_standard_library_writes() {
        for number in [0, 1, 9, 10, 99, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(Decimal::default().write(number), number.to_string().as_bytes());
        }
    }
}
