# From the tarball to "Connected" in Claude Code. It serves its own documentation.

tar --extract --file "$PACKAGES"/switchyard-mcp-*-linux-gnu.tar.gz
cd switchyard-mcp-*/
./switchyard serve --listen "127.0.0.1:$PORT" 2>gateway.log &
./switchyard connect claude-code --url "http://127.0.0.1:$PORT/mcp" --yes
export SWITCHYARD_URL="http://127.0.0.1:$PORT"
until ./switchyard status; do sleep 0.1; done
claude mcp list | tee clients.txt
grep --quiet '^switchyard: .*Connected' clients.txt
./switchyard call search_handbook query='how do I add a server' | tee answer.txt
grep --quiet 'server' answer.txt
kill -TERM %1
wait %1
