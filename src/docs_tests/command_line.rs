//! `docs/reference/command-line.md` is what the arguments of the program say.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use crate::cli::Arguments;

const INTRO: &str = "<!-- Made from the arguments of the program. Renew it with UPDATE_GOLDEN=1. -->

# Reference: command line

This page lists every command of `switchyard` with its arguments. [Command line](../command-line.md) explains the
commands for a running gateway. Without a command, `switchyard` does the work of `switchyard serve`.

## Exit codes

| code | meaning |
|---|---|
| 0 | success |
| 1 | failure, for instance a tool that reported an error |
| 2 | invalid arguments, or an invalid configuration file |
| 3 | the gateway cannot be reached (commands for a running gateway) |
| 4 | the gateway refuses the credential (commands for a running gateway) |

";

/// A text of clap in one line, for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn name_of(argument: &Arg) -> String {
    let value = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    let value = value.filter(|_| argument.get_action().takes_values());
    match (argument.get_long(), argument.get_short()) {
        (Some(long), short) => {
            let short = short.map_or_else(String::new, |short| format!("`-{short}`, "));
            let value = value.map_or_else(String::new, |value| format!(" {value}"));
            format!("{short}`--{long}{value}`")
        }
        (None, Some(short)) => format!("`-{short}`"),
        (None, None) => format!("`{}`", value.unwrap_or_else(|| argument.get_id().to_string())),
    }
}

fn row(argument: &Arg) -> String {
    let default = argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy()));
    let default = if argument.get_action().takes_values() {
        default.collect::<Vec<_>>().join(", ")
    } else {
        String::new()
    };
    let variable =
        argument.get_env().map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let values = if values.is_empty() || !argument.get_action().takes_values() {
        String::new()
    } else {
        format!(" One of {}.", values.join(", "))
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| {} | {default} | {variable} | {}{values} |\n", name_of(argument), cell(&help))
}

fn section(command: &Command, path: &str, page: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.');
    write!(page, "## {path}\n\n{about}.\n\n").expect("a string");
    let is_shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let rows: String = command.get_arguments().filter(is_shown).map(row).collect();
    if !rows.is_empty() {
        write!(page, "| argument | default | variable | meaning |\n|---|---|---|---|\n{rows}\n")
            .expect("a string");
    }
    sections(command, path, page);
}

fn sections(command: &Command, path: &str, page: &mut String) {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    for inner in shown {
        section(inner, &format!("{path} {}", inner.get_name()), page);
    }
}

#[test]
fn the_page_of_the_command_line_is_what_the_arguments_say() {
    let mut command = <Arguments as CommandFactory>::command();
    command.build();
    let mut page = INTRO.to_owned();
    sections(&command, "switchyard", &mut page);
    super::compare("docs/reference/command-line.md", &format!("{}\n", page.trim_end()));
}
