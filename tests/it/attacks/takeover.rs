//! One file, caller or leftover that used to shut out an operator, other callers or a starting server.

use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry};

/// A FIFO in place of the configuration file blocked the reload that opened it, and all later ones.
#[tokio::test]
async fn a_fifo_in_place_of_the_configuration_file_does_not_end_reloads() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url());
    let gateway = Gateway::of(&registry).start().await;
    let file = gateway.folder().join("mcp_servers.yaml");
    std::fs::remove_file(&file).expect("removed");
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let started = Instant::now();
    let refused = tokio::time::timeout(Duration::from_secs(3), gateway.post("/reload", "")).await;
    let refused = refused.expect("a reload of a FIFO is answered");
    eprintln!("a reload of a FIFO: {} after {:?}", refused.status, started.elapsed());
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains("it is not a regular file"), "{}", refused.body);
    std::fs::remove_file(&file).expect("removed");
    gateway.rewrite(&registry.yaml());
    let reloaded = tokio::time::timeout(Duration::from_secs(3), gateway.post("/reload", "")).await;
    assert_eq!(reloaded.expect("the next reload is answered").status, 200);
}
