//! The fields of a query or a form.
//!
//! Invariants: a field that is there with two values is an error, because two readers could take different ones. A field without
//! a value counts as absent, and an unknown one is ignored.
//!
//! Source: RFC 6749, sections 3.1 and 3.2.

use std::collections::HashMap;

use url::form_urlencoded;

use crate::error::{Code, Error};

/// Limit of the length of a query or a form in bytes.
const MAX_BYTES: usize = 16 << 10;

/// The fields by name.
pub(crate) struct Fields {
    values: HashMap<String, String>,
    repeated: Vec<String>,
}

impl Fields {
    /// Reads the text of a query or a form.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.len() > MAX_BYTES {
            return Err(Error::new(Code::InvalidRequest, "the request is longer than 16 KiB"));
        }
        let mut fields = Self { values: HashMap::new(), repeated: Vec::new() };
        for (name, value) in form_urlencoded::parse(text).filter(|(_, value)| !value.is_empty()) {
            let before = fields.values.insert(name.to_string(), value.to_string());
            if before.is_some_and(|before| before != value) {
                fields.repeated.push(name.into_owned());
            }
        }
        Ok(fields)
    }

    /// Returns the field `name`, if it is there once.
    pub(crate) fn get(&self, name: &'static str) -> Result<Option<&str>, Error> {
        if self.repeated.iter().any(|repeated| repeated == name) {
            return Err(Error::new(Code::InvalidRequest, format!("`{name}` is there with two values")));
        }
        Ok(self.values.get(name).map(String::as_str))
    }

    /// Returns the field `name`, which must be there.
    pub(crate) fn require(&self, name: &'static str) -> Result<&str, Error> {
        self.get(name)?.ok_or_else(|| Error::new(Code::InvalidRequest, format!("`{name}` is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_field_is_an_error_only_for_its_reader() {
        let fields = Fields::parse(b"a=1&b=2&b=3&c=&d=x+y%26&a=%31").expect("fields");
        assert_eq!(fields.get("a"), Ok(Some("1")), "the same value twice");
        assert_eq!(fields.get("b").expect_err("twice").code, Code::InvalidRequest);
        assert_eq!(fields.get("c"), Ok(None), "empty");
        assert_eq!(fields.require("d"), Ok("x y&"));
        assert_eq!(fields.require("e").expect_err("absent").code, Code::InvalidRequest);
        assert!(Fields::parse(&vec![b'a'; MAX_BYTES + 1]).is_err());
    }
}
