"""The gateway as a protected server: the OAuth clients of two SDKs get a token for it from the authorization server. The
scope of the token is the role."""

from lab import MACHINE_SECRET, NOTES, Gateway, Lab, callback, check, free_port, registry


def sdk_clients_get_in_with_tokens_of_the_authorization_server(lab: Lab) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp/machine"
    settings = {
        "auth_mode": "jwt",
        "anonymous_role": "reader",
        "jwt": {
            "issuer": lab.issuer,
            "audience": url,
            "algorithm": "RS256",
            "jwks_url": f"{lab.issuer}/jwks",
            "roles_claim": "scope",
        },
    }
    servers = {"machine": registry(lab.notes_url)["machine"]}
    env = {**lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET}
    with Gateway(lab.binary, servers, lab.out / "gateway_with_tokens.log", env, settings, port):
        for sdk in ("python", "typescript"):
            found = lab.sdk(sdk, {"url": url, "callback": callback(), "account": "ann", "tool": "read_note"})
            check(found["text"] == NOTES["machine"] and not found["failed"], f"the {sdk} client got {found}")
            check(len(found["urls"]) == 1, f"the {sdk} client opened {found['urls']}")


CHECKS = (sdk_clients_get_in_with_tokens_of_the_authorization_server,)
