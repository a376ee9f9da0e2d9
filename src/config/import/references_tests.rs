//! References of clients in strings, and the variables that they need.

use super::super::json;
use super::*;

#[test]
fn references_of_every_client_become_ours() {
    let inputs = r#"[{"id": "api-key", "type": "promptString", "description": "The\nkey", "password": true, "default": "no"},
        {"id": "region", "type": "pickString", "options": ["eu", "us"], "default": "eu"}, 7]"#;
    let Ok(Json::List(inputs)) = json::read(inputs) else { panic!("a list") };
    let servers = Json::Text("${env:API_KEY} ${REGION_2:-x}".into());
    let mut references = References::new(&inputs, &[&servers]).reading_secrets();
    for (text, expected) in [
        ("plain", "plain"),
        ("${A}/${A_1:-d e}", "${A}/${A_1:-d e}"),
        ("${A:-}", "${A:-}"),
        ("Bearer ${secret:a.b-C_1}${secret:A:-d}", "Bearer ${secret:a.b-C_1}${secret:A:-d}"),
        ("${secret:}${secret:a b}", "$${secret:}$${secret:a b}"),
        ("${secret:A:-$b}", "$${secret:A:-$$b}"),
        ("${ProgramFiles(x86)}", "$${ProgramFiles(x86)}"),
        ("${env:A}${env:ProgramFiles(x86)}", "${A}${ProgramFiles(x86)}"),
        ("Bearer ${input:api-key}", "Bearer ${API_KEY_2}"),
        ("${input:api-key}", "${API_KEY_2}"),
        ("${input:region}", "${REGION:-eu}"),
        ("${input:path}${input:1}${input:é}", "${INPUT_PATH}${INPUT_1}${INPUT}"),
        ("${workspaceFolder}/a${/}b${pathSeparator}c", "${WORKSPACE_FOLDER}/a/b/c"),
        ("${workspaceFolder:web}${config:http.proxy}", "${WORKSPACE_FOLDER_WEB}${CONFIG_HTTP_PROXY}"),
        ("${userHome}/x", "${HOME}/x"),
        ("${A:-a$b}", "${A}"),
        ("${A:-${B}}", "${A}"),
        ("a$ $b $$ ${} ${x-y} ${#n[@]} ${ ${A}", "a$$ $$b $$$$ $${} $${x-y} $${#n[@]} $${ $${A}"),
        ("$${A} ${", "$$${A} $${"),
        ("Bearer $A_KEY", "Bearer ${A_KEY}"),
        ("$A_KEY/x?k=$B_KEY&c='$C1'", "${A_KEY}/x?k=${B_KEY}&c='${C1}'"),
        (
            "p$A_KEY $$A_KEY $A_KEYs $A $1A -$A_KEY $A_KEY$",
            "p$$A_KEY $$$$A_KEY $$A_KEYs $$A $$1A -$$A_KEY $$A_KEY$$",
        ),
    ] {
        assert_eq!(references.translate(text, TextUsage::Value).text, expected, "{text}");
    }
    let made = references.needed.iter().filter(|(_, what)| !what.is_empty());
    let needed: Vec<_> = made.map(|(name, what)| format!("{name}: {what}")).collect();
    assert_eq!(
        needed,
        [
            "API_KEY_2: the input `api-key` (The\\nkey)",
            "REGION: the input `region`, else it is `eu`",
            "INPUT_PATH: the input `path`",
            "INPUT_1: the input `1`",
            "INPUT: the input `é`",
            "WORKSPACE_FOLDER: `${workspaceFolder}`",
            "WORKSPACE_FOLDER_WEB: `${workspaceFolder:web}`",
            "CONFIG_HTTP_PROXY: `${config:http.proxy}`",
        ]
    );
}

#[test]
fn a_default_that_holds_a_reference_is_said_to_be_lost() {
    let mut references = References::new(&[], &[]);
    let translated = references.translate("${A:-$b} ${C:-d}", TextUsage::Value);
    assert_eq!((translated.lost_defaults, translated.has_reference), (vec!["A".to_owned()], true));
    assert!(!references.translate("$x ${/}", TextUsage::Value).has_reference);
    for (text, expected) in [
        ("${A:-${B}/c}:/d", "${A}:/d"),
        ("${A:-${B:-${C}}}}", "${A}}"),
        ("${A:-x}/${B}", "${A:-x}/${B}"),
        ("${A:-${B}", "$${A:-$${B}"),
        ("${_A%/}", "$${_A%/}"),
    ] {
        assert_eq!(references.translate(text, TextUsage::Value).text, expected, "{text}");
    }
}
