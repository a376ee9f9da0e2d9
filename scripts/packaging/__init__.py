"""Makes the packages of a release. `scripts/package` is the program; docs/contributing/release.md describes it."""
