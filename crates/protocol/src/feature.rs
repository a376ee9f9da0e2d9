//! The definitions that servers offer: only what routing needs is read, and every definition stays unchanged.
//!
//! Source: `server/tools`, `server/resources`, `server/prompts` of each revision. Not here: which client sees a
//! definition under which name (`manager`), how long a list may be cached (`caching`).

use super::headers::{self, HeaderParam};
use super::method;
use super::output_schema::LegacyForm;
use json::raw::Raw;

/// The lists of a server that have their own change notification. Templates and skills change with resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `resources/list`, `resources/templates/list` and `skills/list`.
    Resources,
    /// `prompts/list`.
    Prompts,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The notification that it changed.
    pub const fn changed(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_LIST_CHANGED,
            Self::Resources => method::RESOURCES_LIST_CHANGED,
            Self::Prompts => method::PROMPTS_LIST_CHANGED,
        }
    }

    /// The list whose change `notification` announces.
    pub fn changed_by(notification: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.changed() == notification)
    }

    /// The member of `ServerCapabilities` that declares it.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// The member of a listen filter that requests its changes (2026-07-28).
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Resources => "resourcesListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }
}

/// A set of [`List`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lists(u8);

impl Lists {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0b111);

    /// Returns the set with `list` added.
    #[must_use]
    pub const fn with(self, list: List) -> Self {
        Self(self.0 | 1 << list as u8)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether `list` is in it.
    pub const fn has(self, list: List) -> bool {
        self.0 & 1 << list as u8 != 0
    }

    /// Whether nothing is in it.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The lists in it, in the order of [`List::ALL`].
    pub fn iter(self) -> impl Iterator<Item = List> {
        List::ALL.into_iter().filter(move |list| self.has(*list))
    }
}

impl FromIterator<List> for Lists {
    fn from_iter<I: IntoIterator<Item = List>>(lists: I) -> Self {
        lists.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The kinds of definitions. Each has its own list method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Tools, which can be called.
    Tools,
    /// Resources, which are read by their URI.
    Resources,
    /// Resource templates. A resource is read by a URI made from the template.
    Templates,
    /// Prompts, which are returned with their arguments filled in.
    Prompts,
    /// Skills: directories of resources with instructions (extension `io.modelcontextprotocol/skills`).
    Skills,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts, Self::Skills];

    /// The method that lists it.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_LIST,
            Self::Resources => method::RESOURCES_LIST,
            Self::Templates => method::RESOURCE_TEMPLATES_LIST,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Skills => method::SKILLS_LIST,
        }
    }

    /// The member of that method's result with the definitions.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Skills => "skills",
        }
    }

    /// The member of a definition that identifies it at its server.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources | Self::Skills => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The name of one definition in an English sentence.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
            Self::Skills => "skill",
        }
    }

    /// The list whose changes include this kind.
    pub const fn list(self) -> List {
        match self {
            Self::Tools => List::Tools,
            Self::Resources | Self::Templates | Self::Skills => List::Resources,
            Self::Prompts => List::Prompts,
        }
    }
}

/// One prompt, resource or resource template of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The key that identifies it at its server: a name, a URI or a URI template.
    pub key: String,
    /// The definition as the server printed it, or repaired (`definition`).
    pub definition: Raw,
}

impl Item {
    /// Reads one element of the list of `kind`; `None` when it has no key.
    pub fn from_definition(kind: Kind, definition: Raw) -> Option<Self> {
        let key: String = definition.get_as(kind.key())?;
        (!key.is_empty()).then_some(Self { key, definition })
    }

    /// The definition under another key. Every other byte stays as it is.
    pub fn definition_as(&self, kind: Kind, key: &str) -> Raw {
        if self.key == key {
            self.definition.clone()
        } else {
            self.definition.with(kind.key(), &Raw::of(key))
        }
    }
}

/// Whether a call may be executed again, as its tool declares (tool annotations).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// `readOnlyHint`: changes nothing.
    ReadOnly,
    /// `readOnlyHint` with an explicit `idempotentHint: false`: changes nothing, but each call counts, because it has a
    /// cost or another result. Never run twice.
    Metered,
    /// `idempotentHint`: a second call changes nothing more.
    Idempotent,
    /// Anything else, which is the default: never run twice.
    Unsafe,
}

impl Effect {
    /// The effect that the annotations in `definition` declare.
    pub fn of(definition: &Raw) -> Self {
        let hint = |name| definition.get("annotations")?.get_as::<bool>(name);
        match (hint("readOnlyHint"), hint("idempotentHint")) {
            // MCP gives the second hint no meaning beside the first, but a server that sends both means something.
            (Some(true), Some(false)) => Self::Metered,
            (Some(true), _) => Self::ReadOnly,
            (_, Some(true)) => Self::Idempotent,
            _ => Self::Unsafe,
        }
    }

    /// Whether running it again does no harm.
    pub const fn is_repeatable(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Idempotent)
    }

    /// Whether a call changes nothing, so that its result may be used for another call.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Metered)
    }
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The name at its server.
    pub name: String,
    /// The definition as the server printed it. Trust in it is kept by its digest.
    pub definition: Raw,
    /// The definition that is offered instead, if that one is not valid (`definition`).
    pub repaired: Option<Raw>,
    /// The changes that clients of the legacy revisions need.
    pub legacy: LegacyForm,
    /// The effect that its annotations declare.
    pub effect: Effect,
    /// Parameters that modern HTTP mirrors into `Mcp-Param-*` headers. The error says why the annotation is invalid;
    /// then the tool is not offered over Streamable HTTP.
    pub header_params: Result<Vec<HeaderParam>, String>,
    /// `execution.taskSupport: "required"` (2025-11-25): it runs only as a task.
    pub needs_task: bool,
    /// Its part in an app.
    pub ui: ToolUi,
}

/// The part of a tool in an app (`_meta.ui`). Source: MCP Apps (`io.modelcontextprotocol/ui`), 2026-01-26.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUi {
    /// The URI of the resource that shows its results, also as the deprecated `ui/resourceUri`.
    pub resource: Option<String>,
    /// Whether its `visibility` leaves out the model: only apps of its server call it.
    pub is_app_only: bool,
}

impl ToolUi {
    /// The extension, as clients and servers declare it.
    pub const EXTENSION: &str = "io.modelcontextprotocol/ui";

    fn of(definition: &Raw) -> Self {
        let Some(meta) = definition.get("_meta") else { return Self::default() };
        let ui = meta.get("ui");
        let member = |name| ui.as_ref()?.get(name);
        let visibility = member("visibility").filter(|list| list.as_str().starts_with('['));
        let resource = member("resourceUri").or_else(|| meta.get("ui/resourceUri"));
        Self {
            resource: resource.and_then(|uri| uri.read().ok()),
            is_app_only: visibility
                .is_some_and(|list| !list.elements().any(|who| who.as_part().says("model"))),
        }
    }
}

impl Tool {
    /// Reads one element of `tools`; `None` when it has no name.
    pub fn from_definition(definition: Raw) -> Option<Self> {
        let name: String = definition.get_as("name")?;
        let effect = Effect::of(&definition);
        let header_params = headers::header_params(definition.get("inputSchema").as_ref());
        let needs_task = needs_task(&definition);
        let (repaired, legacy, ui) = (None, LegacyForm::default(), ToolUi::of(&definition));
        let tool = Self { name, definition, repaired, legacy, effect, header_params, needs_task, ui };
        (!tool.name.is_empty()).then_some(tool)
    }

    /// The definition that clients get, under their name for the tool. Every other byte stays as it is.
    pub fn definition_as(&self, name: &str) -> Raw {
        let offered = self.repaired.as_ref().unwrap_or(&self.definition);
        if self.name == name { offered.clone() } else { offered.with("name", &Raw::of(name)) }
    }
}

/// Any other value makes the task optional or forbids it. Then the tool is called without a task.
fn needs_task(definition: &Raw) -> bool {
    let support = || definition.get("execution")?.get_as::<String>("taskSupport");
    support().as_deref() == Some("required")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(definition: &serde_json::Value) -> Option<Tool> {
        Tool::from_definition(Raw::of(definition))
    }

    #[test]
    fn only_a_promise_makes_a_tool_repeatable() {
        let effect = |annotations| {
            tool(&serde_json::json!({"name": "t", "annotations": annotations})).expect("a tool").effect
        };
        assert_eq!(effect(serde_json::json!({"readOnlyHint": true})), Effect::ReadOnly);
        assert_eq!(effect(serde_json::json!({"idempotentHint": true})), Effect::Idempotent);
        let both = |again| effect(serde_json::json!({"readOnlyHint": true, "idempotentHint": again}));
        assert_eq!((both(true), both(false)), (Effect::ReadOnly, Effect::Metered));
        assert!(!Effect::Metered.is_repeatable() && Effect::Metered.is_read_only());
        assert_eq!(effect(serde_json::json!({"readOnlyHint": "true"})), Effect::Unsafe);
        assert_eq!(effect(serde_json::json!({"destructiveHint": false})), Effect::Unsafe);
        assert_eq!(effect(serde_json::json!(null)), Effect::Unsafe);
    }

    #[test]
    fn only_the_word_required_makes_a_tool_run_as_a_task() {
        let needs = |execution: serde_json::Value| {
            tool(&serde_json::json!({"name": "t", "execution": execution})).expect("a tool").needs_task
        };
        assert!(needs(serde_json::json!({"taskSupport": "required"})));
        for other in ["optional", "forbidden", "Required", ""] {
            assert!(!needs(serde_json::json!({"taskSupport": other})), "{other}");
        }
        assert!(!needs(serde_json::json!({"taskSupport": true})) && !needs(serde_json::json!("required")));
        assert!(!tool(&serde_json::json!({"name": "t"})).expect("a tool").needs_task);
    }

    #[test]
    fn tool_is_for_apps_alone_if_its_visibility_leaves_out_the_model() {
        let ui = |meta: serde_json::Value| {
            tool(&serde_json::json!({"name": "t", "_meta": meta})).expect("a tool").ui
        };
        for (visibility, expected) in [
            (serde_json::json!(["app"]), true),
            (serde_json::json!([]), true),
            (serde_json::json!(["model", "app"]), false),
            (serde_json::json!("app"), false),
            (serde_json::json!(null), false),
        ] {
            let found = ui(serde_json::json!({"ui": {"visibility": visibility, "resourceUri": "ui://a"}}));
            assert_eq!(
                (found.is_app_only, found.resource.as_deref()),
                (expected, Some("ui://a")),
                "{visibility}"
            );
        }
        assert_eq!(ui(serde_json::json!({"ui/resourceUri": "ui://b"})).resource.as_deref(), Some("ui://b"));
        assert_eq!(ui(serde_json::json!({"ui": 5})), ToolUi::default());
    }

    #[test]
    fn a_set_of_lists_has_what_was_put_in() {
        assert!(Lists::NONE.is_none() && Lists::ALL.iter().eq(List::ALL));
        for list in List::ALL {
            let one = Lists::NONE.with(list);
            assert!(one.iter().eq([list]) && one.and(one) == one && !one.is_none());
            assert_eq!(List::ALL.into_iter().collect::<Lists>(), one.and(Lists::ALL));
        }
    }

    #[test]
    fn a_tool_without_a_name_is_no_tool() {
        assert!(tool(&serde_json::json!({"title": "x"})).is_none());
        assert!(tool(&serde_json::json!({"name": ""})).is_none());
        assert!(tool(&serde_json::json!({"name": 5})).is_none());
    }
}
