//! Values of headers and addresses: each is read back as it was written, and no value causes a panic.

#![no_main]

use bytes::Bytes;
use json::Raw;
use libfuzzer_sys::fuzz_target;
use protocol::uri::{scheme, split_owner, with_owner};
use protocol::{headers, sanitize};

// RULES G1
fuzz_target!(|data: &[u8]| {
    if let Ok(schema) = Raw::parse(&Bytes::copy_from_slice(data)) {
        for param in headers::header_params(Some(&schema)).unwrap_or_default() {
            let _ = (param.header_name(), param.value_in(Some(schema.as_part())));
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let written = headers::encode(text);
    assert!(written.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')), "{written:?}");
    assert_eq!(headers::decode(&written).as_deref(), Some(text));
    let _ = (headers::decode(text), sanitize::shown(text), scheme(text));
    assert_eq!(split_owner(&with_owner(text, "one")), Some(("one", text.to_owned())));
});
