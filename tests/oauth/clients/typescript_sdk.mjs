// The OAuth client of the TypeScript SDK, with a login to the gateway itself.
//
//   peer-node typescript_sdk.mjs '{"url": …, "callback": …, "account": …, "tool": …, "browser": [command, …]}'
//
// The browser is a command that opens a URL and prints the one at which it ends. `document` and `steps` are as in
// python_sdk.py, and so is the JSON line that is printed.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const ask = JSON.parse(process.argv[2]);
const run = promisify(execFile);
const urls = [];
const secrets = [];
let ended;

class Login {
  verifiers = new Map();
  redirectUrl = ask.callback;
  clientMetadataUrl = ask.document;
  clientMetadata = {
    client_name: 'typescript', redirect_uris: [ask.callback], application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none',
  };
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.kept; }
  saveTokens(tokens) {
    this.kept = tokens;
    this.opening = undefined;
    secrets.push(...[tokens.access_token, tokens.refresh_token].filter(Boolean));
  }
  codeVerifier() { return this.verifiers.get(this.challenge); }
  saveCodeVerifier(verifier) { this.verifiers.set(createHash('sha256').update(verifier).digest('base64url'), verifier); }
  discoveryState() { return this.discovered; }
  saveDiscoveryState(state) { this.discovered = state; }
  invalidateCredentials(scope) {
    if (scope === 'all' || scope === 'client') this.client = undefined;
    if (scope === 'all' || scope === 'tokens') this.kept = undefined;
  }
  // The event stream of the session and a call both find that the login has ended. One page serves both.
  redirectToAuthorization(url) {
    this.opening ??= this.open(url);
    return this.opening;
  }
  async open(url) {
    urls.push(String(url));
    this.challenge = url.searchParams.get('code_challenge');
    const [program, ...words] = ask.browser;
    const { stdout } = await run(program, [...words, String(url), `account=${ask.account}`]);
    ended = new URL(stdout.trim());
  }
}

const login = new Login();
let transport;

async function connected() {
  transport = new StreamableHTTPClientTransport(new URL(ask.url), { authProvider: login });
  const client = new Client({ name: 'typescript', version: '1' });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(ended.searchParams);
    return connected();
  }
  return client;
}

// Ends the login at the authorization server.
async function revoke() {
  const form = { token: login.kept.refresh_token, client_id: login.client.client_id };
  const url = login.discovered.authorizationServerMetadata.revocation_endpoint;
  const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(form) });
  if (!answer.ok) throw new Error(`the revocation is answered with ${answer.status}`);
}

async function called() {
  try {
    return await client.callTool({ name: ask.tool, arguments: {} });
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    // The session has ended with the login.
    await transport.finishAuth(ended.searchParams);
    client = await connected();
    return await client.callTool({ name: ask.tool, arguments: {} });
  }
}

let client = await connected();
let result;
for (const step of ask.steps ?? ['call']) {
  // The gateway takes no altered token, so the client needs another one.
  if (step === 'refresh') login.kept = { ...login.kept, access_token: `${login.kept.access_token}x` };
  else if (step === 'revoke') await revoke();
  else result = await called();
}
const { tools } = await client.listTools();
const text = result.content.map((part) => part.text ?? '').join('');
console.log(JSON.stringify({
  text, failed: Boolean(result.isError), tools: tools.map((tool) => tool.name), urls, secrets,
}));
await client.close();
