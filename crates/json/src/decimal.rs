//! A whole number in decimal digits, without an allocation.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_the_standard_library_writes() {
        for number in [0, 1, 9, 10, 99, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(Decimal::default().write(number), number.to_string().as_bytes());
        }
    }
}
