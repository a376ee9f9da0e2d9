//! The members of definitions and their types, as in the schema of the protocol.
//!
//! Members of later revisions are checked in every revision, because the SDKs check them in every revision. Required
//! members that identify an item are not listed: they are read before (`feature`).

/// The type of a value.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    Flag,
    /// A number from 0 to 1.
    Fraction,
    /// A number without a fraction.
    Whole,
    /// A date and time with an offset (RFC 3339).
    Time,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    AnyObject,
    /// An object whose members are objects.
    ObjectsByName,
    Object(&'static [Field]),
    List(&'static Self),
}

/// One member of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub is_required: bool,
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: false }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: true }
}

static ICONS: Shape = Shape::Object(&[
    required("src", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("sizes", Shape::List(&Shape::Text)),
    optional("theme", Shape::OneOf(&["light", "dark"])),
]);

static ARGUMENT: Shape = Shape::Object(&[
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("required", Shape::Flag),
]);

static ANNOTATIONS: [Field; 3] = [
    optional("audience", Shape::List(&Shape::OneOf(&["user", "assistant"]))),
    optional("priority", Shape::Fraction),
    optional("lastModified", Shape::Time),
];

static TOOL_ANNOTATIONS: [Field; 5] = [
    optional("title", Shape::Text),
    optional("readOnlyHint", Shape::Flag),
    optional("destructiveHint", Shape::Flag),
    optional("idempotentHint", Shape::Flag),
    optional("openWorldHint", Shape::Flag),
];

static EXECUTION: [Field; 1] =
    [optional("taskSupport", Shape::OneOf(&["required", "optional", "forbidden"]))];

/// `Tool`, without its schemas.
pub(super) static TOOL: [Field; 6] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("annotations", Shape::Object(&TOOL_ANNOTATIONS)),
    optional("execution", Shape::Object(&EXECUTION)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static RESOURCE: [Field; 7] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("size", Shape::Whole),
    optional("annotations", Shape::Object(&ANNOTATIONS)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static TEMPLATE: [Field; 6] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("annotations", Shape::Object(&ANNOTATIONS)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static PROMPT: [Field; 5] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("arguments", Shape::List(&ARGUMENT)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

/// `Implementation`. Switchyard never passes it on as its own, so nothing in it is required.
pub(super) static IMPLEMENTATION: [Field; 6] = [
    optional("name", Shape::Text),
    optional("version", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("websiteUrl", Shape::Text),
    optional("icons", Shape::List(&ICONS)),
];

static CHANGES: [Field; 1] = [optional("listChanged", Shape::Flag)];
static RESOURCES: [Field; 2] = [optional("subscribe", Shape::Flag), optional("listChanged", Shape::Flag)];
static TASK_TOOLS: [Field; 1] = [optional("call", Shape::AnyObject)];
static TASK_REQUESTS: [Field; 1] = [optional("tools", Shape::Object(&TASK_TOOLS))];
static TASKS: [Field; 3] = [
    optional("list", Shape::AnyObject),
    optional("cancel", Shape::AnyObject),
    optional("requests", Shape::Object(&TASK_REQUESTS)),
];

/// `ServerCapabilities`.
pub(super) static CAPABILITIES: [Field; 8] = [
    optional("experimental", Shape::ObjectsByName),
    optional("extensions", Shape::ObjectsByName),
    optional("logging", Shape::AnyObject),
    optional("completions", Shape::AnyObject),
    optional("prompts", Shape::Object(&CHANGES)),
    optional("resources", Shape::Object(&RESOURCES)),
    optional("tools", Shape::Object(&CHANGES)),
    optional("tasks", Shape::Object(&TASKS)),
];
