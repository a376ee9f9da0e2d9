//! The JSON-RPC error for an answer of a server that no client may get.

use protocol::{Era, ErrorCode, ErrorData, ErrorObject, Origin};

/// A server's answer that does not fit its revision.
pub fn invalid_answer(text: &str) -> ErrorObject {
    let code = ErrorCode::InvalidAnswer;
    ErrorObject::new(code.number(Era::Modern), text)
        .with_data(&ErrorData::new(code, text))
        .from_us(Origin::Failure)
}
