//! JSON values that are looked into and changed as text: the same as a parser of whole values has it.

#![no_main]

use json::Raw;
use libfuzzer_sys::fuzz_target;
use protocol::{output_schema, sanitize};
use serde_json::Value;
use serde_json::value::RawValue;
use switchyard_fuzz::split;

const NAMES: [&str; 4] = ["a", "_meta", "é", ""];

// RULES G1
fuzz_target!(|data: &[u8]| {
    let Some(([which], text)) = split::<1>(data) else { return };
    let judged = serde_json::from_slice::<&RawValue>(&text).map(RawValue::get);
    let Ok(raw) = Raw::parse(&text) else {
        assert!(judged.is_err(), "refused, and JSON: {text:?}");
        return;
    };
    assert_eq!(judged.ok(), Some(raw.as_str()));
    let _ = (raw.depth(), raw.elements().count(), sanitize::value(&raw), raw.read::<Value>());
    let _ = (output_schema::wrap_definition(&raw), output_schema::wrap_result(&raw));
    // Numbers beyond a double, halves of letters, names twice: no value to compare with.
    let Ok(Value::Object(whole)) = raw.read::<Value>() else { return };
    if raw.duplicate_key().is_some() {
        return;
    }
    assert_eq!(raw.members().count(), whole.len(), "{raw:?}");
    let name = NAMES[usize::from(which) % NAMES.len()];
    assert_eq!(raw.get(name).map(|value| value.read::<Value>().expect("JSON")).as_ref(), whole.get(name));
    let (mut more, mut less) = (whole.clone(), whole);
    more.insert(name.to_owned(), Value::from(7));
    less.remove(name);
    for (changed, wanted) in [(raw.with(name, &Raw::of(&7)), more), (raw.without(name), less)] {
        let found = changed.read::<Value>().expect("JSON");
        assert_eq!(found, Value::Object(wanted), "{name:?} in {raw:?}");
    }
});
