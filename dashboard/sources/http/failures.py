"""The failures of one GET: kind and sentence, without text of the other side."""

from typing import NamedTuple

import httpx2

from dashboard.fleet import Failure, FailureKind
from dashboard.fleet.formatting import one_line
from dashboard.sources.http.credentials import Key

# Longer addresses and paths fill a table cell.
MAX_SHOWN = 120
OK, NOT_MODIFIED, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 200, 304, 401, 403, 404
MOVED = range(300, 400)


class NotConnectedError(httpx2.ConnectError):
    """No connection: its kind (dns, refused, tls, target), and a reason where there is one.

    The reason of `target` is a reserved address.
    """

    def __init__(self, kind: FailureKind, reason: str = "") -> None:
        super().__init__(reason or kind)
        self.kind = kind
        self.reason = reason


class HeadersTooLargeError(httpx2.RemoteProtocolError):
    """The response has more or longer headers than are read."""


class Asked(NamedTuple):
    """The server and the path of a request: the subject of every sentence."""

    server: str  # scheme://host:port, the id of a replica
    path: str
    query: str = ""  # with its question mark; never shown: it may have a secret
    is_replica: bool = True

    @property
    def where(self) -> str:
        """Return the address without its scheme, safe to show."""
        return plain(self.server.partition("://")[2] or self.server)


def asked_of(url: str, path: str = "") -> Asked:
    """Return the request of a service's URL, with a path after its own."""
    base, mark, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    server, slash, own = rest.partition("/")
    return Asked(f"{scheme}://{server}", f"{slash}{own}{path}" or "/", f"{mark}{query}", is_replica=False)


def plain(text: str) -> str:
    """Return one short line without control characters."""
    return one_line(text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…")


def timed_out(asked: Asked, seconds: float, *, began: bool) -> Failure:
    """Return the failure: no complete answer arrived within `seconds`."""
    did = f"began to answer {asked.path} but was not done" if began else f"did not answer {asked.path}"
    return Failure(FailureKind.TIMEOUT, f"{asked.where} {did} within {seconds:.3g} s.")


def no_time(asked: Asked) -> Failure:
    """Return the failure: the time of the replica was used up before this probe."""
    said = f"There was no time left to ask {asked.where} for {asked.path}: what was asked before took too long."
    return Failure(FailureKind.TIMEOUT, said)


def poll_over(asked: Asked) -> Failure:
    """Return the failure: the time of the poll was used up before this probe."""
    said = f"The poll ended before {asked.where} was asked for {asked.path}; raise poll.poll_timeout_seconds."
    return Failure(FailureKind.TIMEOUT, said)


def too_large(asked: Asked, limit: int) -> Failure:
    """Return the failure: a body has more than `limit` bytes after decompression."""
    said = f"{asked.where} answered {asked.path} with more than {limit / 2**20:.3g} MiB; the rest was not read."
    return Failure(FailureKind.TOO_LARGE, said)


def too_costly(asked: Asked, seconds: float) -> Failure:
    """Return the failure: earlier answers used up the processor time of the replica."""
    said = f"{asked.where}: its answers took more than {seconds:.3g} s to parse; {asked.path} was not asked for."
    return Failure(FailureKind.TOO_LARGE, f"{said} Check what answers there.")


def badly_encoded(asked: Asked, how: str) -> Failure:
    """Return the failure: a body cannot be unpacked."""
    return Failure(FailureKind.DECODE, f"{asked.where} answered {asked.path} with {how}.")


def unread(asked: Asked, mistake: Exception) -> Failure:
    """Return the failure: an internal error occurred while reading a body."""
    said = f"could not be read ({type(mistake).__name__}); this is a mistake of the dashboard, please report it"
    return Failure(FailureKind.DECODE, f"The answer of {asked.where} to {asked.path} {said}.")


def ca_unreadable(asked: Asked, ca_file: object) -> Failure:
    """Return the failure: the CA file is missing or has no certificate."""
    said = f"was not asked: the CA file {plain(str(ca_file))} cannot be read as certificates in PEM form"
    return Failure(FailureKind.TLS, f"{asked.where} {said}.")


def no_address(asked: Asked) -> Failure:
    """Return the failure: the target's id is not a valid URL."""
    return Failure(FailureKind.TARGET, f"{asked.where} is no address that can be asked; correct it where it is listed.")


def of_status(asked: Asked, status: int, key: Key) -> Failure | None:
    """Return the failure of a status code other than 200."""
    if status == OK:
        return None
    if status in {UNAUTHORIZED, FORBIDDEN}:
        return Failure(FailureKind.UNAUTHORIZED, _refused_key(asked, status, key))
    if status in MOVED:
        said = f"status {status}: redirects to another place are not followed"
        return Failure(FailureKind.STATUS, f"{asked.where} answered {asked.path} with {said}.")
    if status == NOT_FOUND:
        hint = " Is it a vLLM server?" if asked.is_replica else ""
        return Failure(FailureKind.STATUS, f"{asked.where} has no {asked.path} (status 404).{hint}")
    return Failure(FailureKind.STATUS, f"{asked.where} answered {asked.path} with status {status}.")


def _refused_key(asked: Asked, status: int, key: Key) -> str:
    if key.token is None:
        return f"{asked.where} wants an API key for {asked.path} and {one_line(key.missing)}."
    return f"{asked.where} refuses the given API key for {asked.path} (status {status})."


def of_error(asked: Asked, error: Exception, *, began: bool) -> Failure:
    """Return the failure of an exception of httpx2; `began`: the beginning of an answer arrived."""
    where, path = asked.where, asked.path
    match error:
        case httpx2.InvalidURL():
            return no_address(asked)
        case NotConnectedError():
            return Failure(error.kind, _not_connected(asked, error))
        case httpx2.ConnectTimeout():
            return Failure(FailureKind.TIMEOUT, f"{where} did not accept a connection in time.")
        case HeadersTooLargeError():
            said = f"{where} answered {path} with more or longer headers than are read."
            return Failure(FailureKind.TOO_LARGE, said)
        case httpx2.RemoteProtocolError():
            said = f"{where} answered {path} with something that is no HTTP. Should its address begin with https://?"
            return Failure(FailureKind.PROTOCOL, said)
    when = "in the middle of its answer to" if began else "before it answered"
    return Failure(FailureKind.PROTOCOL, f"{where} closed the connection {when} {path}.")


def _not_connected(asked: Asked, error: NotConnectedError) -> str:
    where, reason = asked.where, plain(error.reason)
    match error.kind:
        case FailureKind.DNS:
            return f"The name in {where} cannot be resolved. Is it spelled right, and known to this machine's DNS?"
        case FailureKind.TLS if reason:
            return f"The certificate of {where} is not trusted ({reason}). Set ca_file in fleet.yaml to its CA."
        case FailureKind.TLS:
            return f"{where} does not speak TLS as expected. Should its address begin with http://?"
        case FailureKind.TARGET:
            line = f'targets: ["{asked.server}"]' if asked.is_replica else f"url: {asked.server}"
            said = f"{reason} is a link-local or cloud metadata address, and only a source names it"
            return f"{where} is not asked: {said}. If this is intended, add to fleet.yaml: {line}"
    if reason:
        return f"{where} cannot be reached: {reason}."
    return f"{where} refused the connection.{' Is vLLM running there?' if asked.is_replica else ''}"
