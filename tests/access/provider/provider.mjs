// A certified OpenID provider on loopback, with controls for tests. usage: node provider.mjs PORT CLIENT_URL
// Anybody signs in with any password. POST /control takes {accounts, rotate, skew_seconds, userinfo_only}.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [port, client] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const accounts = {}; // claims by login
const keys = []; // the newest signs, all are published
const now = Date.now;
let provider;
let hasUserinfoOnly = false;

function addKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: `key-${now()}-${keys.length}`, alg: "RS256", use: "sig" });
}

async function findAccount(_context, id) {
  if (accounts[id] === null) return undefined; // it is gone
  const own = accounts[id] ?? {};
  return { accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, ...own }) };
}

async function loadExistingGrant(context) {
  const { oidc } = context;
  const known = oidc.session.grantIdFor(oidc.client.clientId);
  const found = known && (await oidc.provider.Grant.find(known));
  if (found) return found;
  const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
  grant.addOIDCScope("openid profile email groups offline_access");
  await grant.save();
  return grant;
}

function makeProvider() {
  provider = new Provider(issuer, {
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    clients: [
      {
        client_id: "fleet",
        client_secret: "secret-of-tests",
        grant_types: ["authorization_code", "refresh_token"],
        redirect_uris: [`${client}/auth/callback`],
        post_logout_redirect_uris: [`${client}/auth/signed-out`],
      },
    ],
    conformIdTokenClaims: hasUserinfoOnly,
    cookies: { keys: ["of tests"] },
    findAccount,
    issueRefreshToken: async () => true,
    jwks: { keys },
    loadExistingGrant,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      Grant: 86400,
      IdToken: 600,
      Interaction: 3600,
      RefreshToken: 86400,
      Session: 86400,
    },
  });
  provider.on("server_error", (_context, error) => console.error(error));
}

async function control(request, response) {
  let text = "";
  for await (const piece of request) text += piece;
  const wanted = JSON.parse(text);
  Object.assign(accounts, wanted.accounts);
  if (wanted.rotate) addKey();
  if (wanted.rotate === "only") keys.length = 1;
  if (wanted.skew_seconds !== undefined) Date.now = () => now() + wanted.skew_seconds * 1000;
  if (wanted.userinfo_only !== undefined) hasUserinfoOnly = wanted.userinfo_only;
  if (wanted.rotate || wanted.userinfo_only !== undefined) makeProvider(); // grants and sessions are the module's
  response.end("{}");
}

addKey();
makeProvider();
createServer((request, response) =>
  request.url === "/control" ? control(request, response) : provider.callback()(request, response),
).listen(Number(port), "127.0.0.1", () => console.error("listening"));
