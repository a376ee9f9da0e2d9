# The commands of daily work; `just` lists them.

_default:
    @just --list --unsorted

# Serve the example configuration.
run *args:
    cargo run --release -- {{args}}

# Fast: formatting, lints, and every test that needs nothing from outside.
check:
    scripts/test format lint unit

# Everything, as before a merge.
test *steps:
    scripts/test {{steps}}

# Install the servers and clients of other makers, print where they are.
peers:
    scripts/peers

# The gateway against direct calls and a bare pass-through: `just bench --quick`, `just bench --only echo`.
bench *args:
    cargo bench --bench system -- {{args}}

# The program as it is released, laid out by what it does most: where it is.
release *args:
    scripts/release {{args}}

# Instructions of one call against the budget; `--write` renews it, `--where modern` shows where they go.
budget *args:
    scripts/budget {{args}}

# Format the sources.
fmt:
    cargo fmt --all

# Read the documentation of the crate.
doc:
    cargo doc --workspace --no-deps --open
