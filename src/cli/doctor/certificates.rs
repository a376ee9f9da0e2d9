//! Variables that name further certificate authorities, which a program does not inherit.

use super::finding::Finding;
use super::programs::lacking;
use super::subject::Subject;
use upstream::transport::stdio::CERTIFICATE_VARIABLES;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let set: Vec<&str> = CERTIFICATE_VARIABLES.into_iter().filter(is_set).collect();
    let without = lacking(subject, &set);
    if without.is_empty() {
        return Vec::new();
    }
    let names = set.join(", ");
    let found = Finding::warning(format!(
        "certificate authorities of this machine ({names}) do not reach these programs: {}",
        without.join(", ")
    ));
    vec![found.fix(format!(
        "`default_pass_env: [{names}]` beside `mcp_servers:`, or `pass_env` of each program that needs these authorities"
    ))]
}
