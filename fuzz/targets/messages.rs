//! Envelopes, as a client and as a server may write them: what is read is JSON, and reading what was printed
//! of it gives the same message.

#![no_main]

use bytes::Bytes;
use json::{Raw, raw};
use libfuzzer_sys::fuzz_target;
use protocol::meta::Sender;
use protocol::{Era, Message, meta};
use serde_json::value::RawValue;

// RULES G1
fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    // A byte order mark before a message is ignored.
    let unmarked = raw::without_byte_order_mark(&bytes).unwrap_or_else(|| bytes.clone());
    for read in [Message::from_client as fn(&Bytes) -> _, Message::from_server] {
        let Ok(message) = read(&bytes) else {
            let _ = Message::readable_id(&bytes);
            continue;
        };
        let judged = serde_json::from_slice::<&RawValue>(&unmarked);
        assert!(judged.is_ok(), "no JSON, and taken for a message: {judged:?}");
        let printed = message.encode();
        assert_eq!(read(&printed).as_ref(), Ok(&message), "printed: {:?}", printed.as_ref());
        if let Message::Request(request) = &message {
            dressed(request.params.as_ref());
        }
    }
});

/// Parameters as they go to a server are JSON and hold what they held.
fn dressed(params: Option<&Raw>) {
    if params.is_some_and(|params| !params.is_object()) {
        return;
    }
    let token = Raw::of(&7);
    for era in [Era::Modern, Era::Legacy] {
        let Some(dressed) = meta::dress(params, era, &Sender::gateway(), Some(&token)) else { continue };
        let judged = serde_json::from_slice::<&RawValue>(dressed.bytes());
        assert!(judged.is_ok(), "{judged:?}: {dressed:?}");
        if params.is_some_and(|params| params.duplicate_key().is_some()) {
            continue;
        }
        for (name, value) in params.into_iter().flat_map(Raw::members).filter(|(name, _)| name != "_meta") {
            assert_eq!(dressed.get(&name).as_ref(), Some(&value), "{name} of {dressed:?}");
        }
    }
}
