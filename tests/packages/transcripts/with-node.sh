# With nothing but Node: from two npm packages to "Connected" in Claude Code, with two servers from npm.

set +x
launcher=$(echo "$PACKAGES"/switchyard-mcp-[0-9]*.tgz) program=$(echo "$PACKAGES"/switchyard-mcp-linux-*-gnu-*.tgz)
name=$(basename "${program%-*}")
# With packages that are published, this file and its line are not needed: npm install switchyard-mcp
cat >package.json <<END
{"private": true, "dependencies": {"switchyard-mcp": "file:$launcher"}, "overrides": {"$name": "file:$program"}}
END
cat >mcp_servers.yaml <<'END'
mcp_servers:
  everything:
    command: mcp-server-everything
  memory:
    command: mcp-server-memory
END
set -x
npm install --offline --no-audit --no-fund --cache "$PWD/empty"
npm install --no-audit --no-fund --loglevel=error --prefix servers \
  @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31
export PATH="$PWD/node_modules/.bin:$PWD/servers/node_modules/.bin:$PATH"
switchyard check
switchyard serve --listen "127.0.0.1:$PORT" 2>gateway.log &
switchyard connect claude-code --url "http://127.0.0.1:$PORT/mcp" --yes
export SWITCHYARD_URL="http://127.0.0.1:$PORT"
until [ "$(switchyard servers -o json 2>errors.txt | grep --count '"ready"')" = 2 ]; do sleep 0.5; done
switchyard servers
claude mcp list | tee clients.txt
grep --quiet '^switchyard: .*Connected' clients.txt
switchyard call echo message='hello from Node' | tee answer.txt
grep --quiet 'hello from Node' answer.txt
switchyard tools memory -o name | grep read_graph
kill -TERM %1
wait %1
