//! A token of a login service on every call (RS256, the key made here), a role, and a deny list.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Bench, Gateway, one_server, through};
use crate::child;
use crate::load::call::{Call, Form};
use crate::measure::Role;

const CONNECTIONS: usize = 64;

/// With and without.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let hop = bench.bare(&server)?;
    let open = one_server(&server);
    let folder = tempfile::tempdir()?;
    let guarded = guarded(folder.path(), &open)?;
    let gateways = bench.gateways(&open, &call).await?;
    let mut ways = vec![through("bare hop", Role::Limit, &hop, &call, CONNECTIONS)];
    let mut running = Vec::new();
    for (binary, gateway) in bench.binaries.iter().zip(&gateways) {
        let file = folder.path().join("mcp_servers.yaml");
        let token = Some(token(&binary.path, &file, folder.path())?);
        let with_token = Call { token, ..call.clone() };
        let process = child::gateway(&binary.path, &guarded)?;
        process.until_it_answers(&with_token).await?;
        let guarded = Gateway { name: binary.name, running: process };
        ways.push(gateway.way("", &call, CONNECTIONS));
        ways.push(guarded.way("JWT and policy", &with_token, CONNECTIONS));
        running.push(guarded);
    }
    bench.measure("jwt", &ways).await
}

/// Makes a pair of keys in `folder` and the configuration that asks for it.
fn guarded(folder: &Path, open: &str) -> anyhow::Result<String> {
    let pair = KeyPair::generate(KeySize::Rsa2048)?;
    let private: Pkcs8V1Der<'_> = pair.as_der()?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der()?;
    std::fs::write(folder.join("private.pem"), pem("PRIVATE", private.as_ref()))?;
    let public_file = folder.join("public.pem");
    std::fs::write(&public_file, pem("PUBLIC", public.as_ref()))?;
    let config = format!(
        "{open}    tools:\n      deny: [noticed]\nserver:\n  auth_mode: jwt\n  jwt:\n    issuer: bench\n    audience: bench\n    algorithm: RS256\n    public_key: {}\n",
        public_file.display()
    );
    std::fs::write(folder.join("mcp_servers.yaml"), &config)?;
    Ok(config)
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into()).collect();
    format!("-----BEGIN {kind} KEY-----\n{}\n-----END {kind} KEY-----\n", lines.join("\n"))
}

fn token(binary: &Path, config: &Path, folder: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(binary);
    command.args(["token", "--sub", "bench", "--role", "superuser", "--ttl", "1h"]);
    command.arg("--private-key").arg(folder.join("private.pem")).arg("--config").arg(config);
    let output = command.output()?;
    ensure!(output.status.success(), "no token: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().next_back().context("a token is a line")?.trim().to_owned())
}
