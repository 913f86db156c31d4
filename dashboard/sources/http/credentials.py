"""API keys: read from an environment variable or a file at every poll, and kept in memory for one poll."""

import os
from base64 import b64encode
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from dashboard.config import PrometheusAuthorization
from dashboard.fleet import Credentials, Target, TargetAccess
from dashboard.fleet.formatting import FEW, one_line, shortlist
from dashboard.fleet.replies import GRPC_PORT

# Longer than any API key or JWT; limits the reading of a wrong file (a log, a device).
MAX_KEY_BYTES = 8192


class ApiKey(NamedTuple):
    """The API key of a target, or the reason why it is missing, as the end of a sentence; `scheme` is HTTP's."""

    token: str | None = None
    missing: str = (
        "none is given; set credentials in fleet.yaml, or name the key's variable in FLEET_CREDENTIALS__TOKEN_ENV"
    )
    scheme: str = "Bearer"

    def __repr__(self) -> str:
        """Hide the key: tracebacks print this."""
        return f"ApiKey(token={'...' if self.token else None})"


def find(credentials: Credentials | None) -> ApiKey:
    """Return the key of `credentials`; a file wins over an environment variable."""
    if credentials is None:
        return ApiKey()
    if credentials.token_file is not None:
        content, place = _content(credentials.token_file), f"the file {credentials.token_file}"
        return content if isinstance(content, ApiKey) else check_key(content.decode("ascii", "replace"), place)
    if credentials.token_env is not None:
        name = credentials.token_env
        return check_key(os.environ.get(name, ""), f"the environment variable {name}")
    return ApiKey()


def find_password(username: str, path: Path) -> ApiKey:
    """Return user name and password of HTTP's Basic scheme (RFC 7617); the password is the first line of a file."""
    content = _content(path)
    if isinstance(content, ApiKey):
        return content
    password = content.decode(errors="replace").partition("\n")[0].rstrip("\r")
    if not password:
        return ApiKey(missing=f"the file {path} that should hold the password is empty")
    return ApiKey(b64encode(f"{username}:{password}".encode()).decode(), scheme="Basic")


def authorized(own: PrometheusAuthorization | None, none: ApiKey) -> ApiKey:
    """Return the bearer token, or user name and password, of a service; `none` where neither is configured."""
    if own is not None and own.username and own.password_file:
        return find_password(own.username, own.password_file)
    return find(own.places()) if own is not None and (own.token_env or own.token_file) else none


def grant(target: Target, key: ApiKey) -> ApiKey:
    """Return the key that is sent to a target: none to one that only a source names."""
    if target.access is not TargetAccess.NAMED or key.token is None:
        return key
    line = f'targets_allowed: ["{urlsplit(target.id).netloc}"]'
    return ApiKey(missing=f"none is sent to an address that only a source names; add to fleet.yaml: {line}")


def grant_grpc(target: Target, key: ApiKey) -> ApiKey:
    """Return the key that is sent to the gRPC port of a target: none to a port or an address that a source may name."""
    if key.token is None or (target.access is TargetAccess.LISTED and GRPC_PORT not in target.labels):
        return key
    return ApiKey(missing="none is sent there: only to targets that are listed, on the port of poll.grpc_port")


def _content(path: Path) -> bytes | ApiKey:
    """Return what a file holds, or a missing key."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        return ApiKey(missing=f"the file {path} cannot be read ({error.strerror})")
    if len(content) > MAX_KEY_BYTES:
        return ApiKey(missing=f"the file {path} is too long to be a key")
    return content


def check_key(text: str, place: str) -> ApiKey:
    """Return the key in a text, a missing one where a header cannot hold it; `place` is where it was."""
    token = text.strip()
    if not token:
        return ApiKey(missing=f"{place} that should hold it is not set or empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        return ApiKey(missing=f"{place} holds more than one word of plain characters")
    return ApiKey(token)


def key_warnings(targets: Iterable[Target]) -> str:
    """Return a sentence on each API key that is missing, and on those sent over plain http through a network.

    Empty without any.
    """
    asking = [
        (each, each.credentials)
        for each in targets
        if each.credentials is not None
        and (each.credentials.token_env or each.credentials.token_file)
        and each.access is not TargetAccess.NAMED
        and each.failure is None
    ]
    keys = {credentials: find(credentials) for credentials in {each for _, each in asking}}
    missing = sorted({f"No API key is sent: {one_line(each.missing)}." for each in keys.values() if each.token is None})
    exposed = dict.fromkeys(
        urlsplit(target.id).netloc
        for target, credentials in asking
        if keys[credentials].token is not None
        and target.id.startswith("http://")
        and not _is_loopback(urlsplit(target.id).hostname or "")
    )
    named = shortlist(map(one_line, exposed), FEW)
    sent = [f"API key sent over plain http, readable on the network: {named}. Use https."] if exposed else []
    return " ".join([*missing[:FEW], *sent])


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
