//! The result of an answer that passes while it arrives: it is what the parser of whole messages says, and of
//! JSON the same wherever it is cut.

#![no_main]

use bytes::Bytes;
use json::Raw;
use json::envelope_stream::{EnvelopeEdit, Error, Terms};
use libfuzzer_sys::fuzz_target;
use protocol::{Message, RequestId, Response};
use serde_json::value::RawValue;
use switchyard_fuzz::{pieces, split};

const ID: u64 = 7;
const FREELY: Terms = Terms { refused: &[], refused_objects: &[], added: &[] };

// RULES G1
fuzz_target!(|data: &[u8]| {
    let Some((lengths, text)) = split::<4>(data) else { return };
    let is_json = serde_json::from_slice::<&RawValue>(&text).is_ok();
    let (whole, cut) = (spliced(std::slice::from_ref(&text)), spliced(&pieces(&text, lengths)));
    assert!(whole == cut || !is_json, "{whole:?}, and {cut:?} cut by {lengths:?}: {text:?}");
    match (whole, parsed(&text)) {
        (Ok(passed), Some(parsed)) => assert_eq!(passed, parsed.bytes().as_ref(), "{text:?}"),
        (Err(error), Some(_)) => panic!("{error}: {text:?}"),
        // Only inside of a value, where the splice does not look, may the fault be.
        (Ok(_), None) => assert!(!is_json, "{text:?}"),
        (Err(_), None) => {}
    }
});

fn spliced(pieces: &[Bytes]) -> Result<Vec<u8>, Error> {
    let (mut edit, mut result) = (EnvelopeEdit::new(ID, FREELY), Vec::new());
    for piece in pieces {
        result.extend_from_slice(&edit.take(piece)?);
    }
    result.extend_from_slice(&edit.finish()?);
    Ok(result)
}

fn parsed(text: &Bytes) -> Option<Raw> {
    let Ok(Message::Response(Response { id: Some(id), reply: Ok(result) })) = Message::from_server(text)
    else {
        return None;
    };
    Some(result).filter(|result| id == RequestId::from_u64(ID) && result.is_object())
}
