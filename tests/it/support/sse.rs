//! Event streams, decoded in the plainest way: independent of the program's own decoder.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `message` unless the stream says otherwise.
    pub name: String,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// The data lines, joined.
    pub data: String,
}

/// Every complete event of `text`, comments left out.
pub fn events(text: &str) -> Vec<Event> {
    let text = text.replace("\r\n", "\n");
    let blocks = text.split_inclusive("\n\n").filter(|block| block.ends_with("\n\n"));
    blocks.filter_map(event).collect()
}

fn event(block: &str) -> Option<Event> {
    let (mut name, mut id, mut data) = ("message".to_owned(), None, Vec::new());
    let mut seen = false;
    for line in block.lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        seen = true;
        match field {
            "event" => value.clone_into(&mut name),
            "id" => id = Some(value.to_owned()),
            "data" => data.push(value),
            _ => {}
        }
    }
    seen.then(|| Event { name, id, data: data.join("\n") })
}

/// Writes one `message` event.
pub fn message(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}
