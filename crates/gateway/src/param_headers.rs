//! The headers in which a modern client over HTTP repeats parameters of a tool.
//!
//! A proxy may route by a header while Switchyard executes the body, so a call whose headers and body differ is refused.
//! Values are compared exactly, without the white space around them.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`. Not here: the headers of every request (`downstream`), and those
//! of requests to servers (`upstream`).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::error;
use protocol::headers::{self, HeaderParam};
use protocol::{Era, ErrorCode, ErrorObject};
use upstream::Call;

/// The headers of one request that may repeat parameters.
#[derive(Debug, Clone, Default)]
pub struct ParamHeaders(Option<Box<HeaderMap>>);

impl ParamHeaders {
    /// Those among `map`, copied: a slice would keep the whole head as long as the request lives.
    pub fn of(map: &HeaderMap) -> Self {
        let params = map.iter().filter(|(name, _)| name.as_str().starts_with(headers::PARAM_PREFIX));
        let mut found: Option<Box<HeaderMap>> = None;
        for (name, value) in params {
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                found.get_or_insert_default().append(name, value);
            }
        }
        Self(found)
    }

    /// Checks that each of the header parameters of `call` has its header exactly when it is in the body, with an equal
    /// value. A client sends no header for an argument of `given`, which its view adds.
    pub(super) fn check(&self, call: &Call, given: &[Arc<str>]) -> Result<(), ErrorObject> {
        call.header_params.iter().try_for_each(|param| {
            let is_given = param.path.first().is_some_and(|name| given.iter().any(|given| **given == **name));
            let checked = if is_given { self.check_absent(param) } else { self.check_param(param, call) };
            checked.map_err(|wrong| {
                let text = format!("header mismatch: {wrong}");
                error::refusal(ErrorCode::HeaderMismatch, Era::Modern, &text)
            })
        })
    }

    fn check_absent(&self, param: &HeaderParam) -> Result<(), String> {
        let header = param.header_name();
        match self.value(&header)? {
            None => Ok(()),
            Some(_) => Err(format!("{header} stands in the headers only")),
        }
    }

    fn check_param(&self, param: &HeaderParam, call: &Call) -> Result<(), String> {
        let (header, arguments) = (param.header_name(), call.params.as_ref());
        let arguments = arguments.and_then(|params| params.part("arguments"));
        if param.is_ambiguous_in(arguments) {
            return Err(format!("what {header} mirrors stands twice in the body"));
        }
        match (self.value(&header)?, param.value_in(arguments)) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(format!("{header} is missing")),
            (Some(_), None) => Err(format!("{header} stands in the headers only")),
            (Some(sent), Some(value)) => {
                let decoded = headers::decode(sent);
                let decoded = decoded.ok_or_else(|| format!("{header} is not a readable value"))?;
                let cut = |text: &str| text.chars().take(80).collect::<String>();
                let is_equal = HeaderParam::agrees(&decoded, &value);
                let differ = || format!("{header} is {:?}, the body says {:?}", cut(&decoded), cut(&value));
                if is_equal { Ok(()) } else { Err(differ()) }
            }
        }
    }

    /// Returns the value of a header that may occur once.
    fn value(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(map) = &self.0 else { return Ok(None) };
        let mut values = map.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(format!("{name} stands more than once")),
            (Some(value), None) => {
                let text = value.to_str().map_err(|_| format!("{name} is not plain text"))?;
                Ok(Some(text.trim_ascii()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{raw, text};
    use protocol::method;

    fn checked(headers: &[(&'static str, &'static str)], arguments: &str) -> Result<(), ErrorObject> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let params = raw(r#"{"name":"t"}"#).with("arguments", &raw(arguments));
        let mut call = Call::of_gateway(method::TOOLS_CALL, Some(params));
        let region = HeaderParam { header: "Region".into(), path: vec!["at".into(), "region".into()] };
        call.header_params = [region].into();
        ParamHeaders::of(&map).check(&call, &[])
    }

    #[test]
    fn a_header_has_the_value_of_the_body() {
        const REGION: &str = "mcp-param-region";
        for (headers, arguments) in [
            (&[(REGION, "us")][..], r#"{"at":{"region":"us"}}"#),
            (&[(REGION, " us ")], r#"{"at":{"region":"us"}}"#),
            (&[(REGION, "42"), ("mcp-param-other", "x")], r#"{"at":{"region":42.0}}"#),
            (&[("mcp-name", "us")], r#"{"at":{}}"#),
        ] {
            assert!(checked(headers, arguments).is_ok(), "{headers:?} {arguments}");
        }
        for (headers, arguments, wrong) in [
            (&[][..], r#"{"at":{"region":"us"}}"#, "is missing"),
            (&[(REGION, "us")], "{}", "stands in the headers only"),
            (&[(REGION, "us")], r#"{"at":{"region":"eu"}}"#, r#"is \"us\", the body says \"eu\""#),
            (&[(REGION, "us"), (REGION, "us")], r#"{"at":{"region":"us"}}"#, "stands more than once"),
            (&[(REGION, "us")], r#"{"at":{"region":"us","region":"us"}}"#, "stands twice in the body"),
        ] {
            let refused = checked(headers, arguments).expect_err(arguments);
            assert_eq!(refused.code(), protocol::error::code::HEADER_MISMATCH);
            let error_text = text(&Err(refused)).to_owned();
            assert!(
                error_text.contains("header mismatch: mcp-param-region")
                    || error_text.contains("what mcp-param-region"),
                "{error_text}"
            );
            assert!(error_text.contains(wrong), "{wrong}: {error_text}");
        }
    }
}
