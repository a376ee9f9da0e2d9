// A certified OAuth authorization server (`oidc-provider`) for the tests of logins, and its remote control.
//
//   peer-node authorization_server.mjs PORT CONTROL_PORT
//
// The issuer is http://127.0.0.1:PORT. It has dynamic registration, PKCE, resource indicators, refresh tokens that work
// once, client credentials, revocation, and access tokens (JWT) for any resource that a client asks for. The clients that
// are registered by hand come from the environment: `AUTHORIZATION_SERVER_CLIENTS`, a JSON list.
//
// The consent page has a button for each account. The control port is for the test program:
//
//   GET  /state    counts of token requests and revocations, and every token that was issued
//   POST /ttl      {"seconds": 3}            lifetime of access tokens from now on
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const [port, controlPort] = process.argv.slice(2).map(Number);
const issuer = `http://127.0.0.1:${port}`;
const ACCOUNTS = Object.fromEntries(['ann', 'ben'].map((name) => [name, `${name}@example.com`]));
const RESOURCE_SCOPES = 'notes:read notes:write reader caller';

const state = { ttl: 3600, revocations: 0, tokenRequests: {}, failures: [], tokens: [] };

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' };

const provider = new Provider(issuer, {
  jwks: { keys: [key] },
  clients: JSON.parse(process.env.AUTHORIZATION_SERVER_CLIENTS ?? '[]'),
  // Clients may ask for `superuser`, and get no token with it.
  scopes: ['openid', 'offline_access', 'superuser', ...RESOURCE_SCOPES.split(' ')],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: ACCOUNTS[id], email_verified: true }),
  }),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  cookies: { keys: ['a test needs no secret'] },
  ttl: { Interaction: 600, Session: 3600, Grant: 86400, RefreshToken: 86400, IdToken: 600, AuthorizationCode: 60 },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: RESOURCE_SCOPES, audience: resource, accessTokenTTL: state.ttl,
        accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.on('grant.success', (context) => {
  count(context, 'success');
  const { access_token, refresh_token, id_token } = context.body;
  state.tokens.push(...[access_token, refresh_token, id_token].filter(Boolean));
});
provider.on('grant.error', (context, error) => {
  count(context, 'error');
  state.failures.push(`${error.error}: ${error.error_description ?? ''} ${error.error_detail ?? ''}`.trim());
});
provider.on('authorization_code.saved', (code) => { state.tokens.push(code.jti); });

function count(context, outcome) {
  const grant = context.oidc?.params?.grant_type ?? 'none';
  const row = (state.tokenRequests[grant] ??= { success: 0, error: 0 });
  row[outcome] += 1;
}

// The consent page -------------------------------------------------------------------------------

const page = (uid, { prompt, params }) => `<!doctype html><title>Consent</title>
<h1>${prompt.name}</h1><p id="asked">${params.scope ?? ''}</p>
<form method="post" action="/interaction/${uid}">
${Object.keys(ACCOUNTS).map((id) => `<button name="account" value="${id}">Continue as ${id}</button>`).join('\n')}
<button name="account" value="">Cancel</button>
</form>`;

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  if (request.method === 'GET') {
    response.setHeader('content-type', 'text/html; charset=utf-8').end(page(details.uid, details));
    return;
  }
  const account = new URLSearchParams(await read(request)).get('account');
  const result = account ? await consent(account, details.params)
    : { error: 'access_denied', error_description: 'The user has declined' };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

async function consent(accountId, params) {
  const grant = new provider.Grant({ accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? '');
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, RESOURCE_SCOPES);
  const grantId = await grant.save();
  return { login: { accountId }, consent: { grantId } };
}

// The listeners ----------------------------------------------------------------------------------

async function read(request) {
  let text = '';
  for await (const part of request) text += part;
  return text;
}

const oauth = provider.callback();

async function serve(request, response) {
  if (request.url.startsWith('/interaction/')) {
    await interact(request, response);
  } else {
    if (request.url.startsWith('/token/revocation')) state.revocations += 1;
    await oauth(request, response);
  }
}

async function control(request, response) {
  if (request.method === 'POST') state.ttl = JSON.parse(await read(request)).seconds;
  response.setHeader('content-type', 'application/json').end(JSON.stringify(state));
}

function fails(response, error) {
  console.error(error);
  if (!response.headersSent) response.writeHead(500).end(String(error));
}

function listen(answer, at) {
  const server = createServer((request, response) => answer(request, response).catch((error) => fails(response, error)));
  return new Promise((done) => { server.listen(at, '127.0.0.1', done); });
}

await listen(serve, port);
await listen(control, controlPort);
