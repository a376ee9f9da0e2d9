// The OAuth client of the TypeScript SDK, with a login to the gateway itself.
//
//   peer-node typescript_sdk.mjs '{"url": …, "callback": …, "account": …, "tool": …, "browser": [command, …]}'
//
// The browser is a command that opens a URL and prints the one at which it ends. Prints one JSON line as python_sdk.py does.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const ask = JSON.parse(process.argv[2]);
const run = promisify(execFile);
const urls = [];
let ended;

class Login {
  redirectUrl = ask.callback;
  clientMetadata = {
    client_name: 'typescript', redirect_uris: [ask.callback], application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none',
  };
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.kept; }
  saveTokens(tokens) { this.kept = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  discoveryState() { return this.discovered; }
  saveDiscoveryState(state) { this.discovered = state; }
  async redirectToAuthorization(url) {
    urls.push(String(url));
    const [program, ...words] = ask.browser;
    const { stdout } = await run(program, [...words, String(url), `account=${ask.account}`]);
    ended = new URL(stdout.trim());
  }
}

async function connected(login) {
  const transport = new StreamableHTTPClientTransport(new URL(ask.url), { authProvider: login });
  const client = new Client({ name: 'typescript', version: '1' });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(ended.searchParams);
    return connected(login);
  }
  return client;
}

const client = await connected(new Login());
const result = await client.callTool({ name: ask.tool, arguments: {} });
const text = result.content.map((part) => part.text ?? '').join('');
console.log(JSON.stringify({ text, failed: Boolean(result.isError), urls }));
await client.close();
