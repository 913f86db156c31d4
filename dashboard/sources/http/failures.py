"""The failures of one GET: kind and sentence, without text of the other side."""

from typing import NamedTuple

import httpx2

from dashboard.errors import UnreadableError
from dashboard.fleet import Failure, FailureKind
from dashboard.fleet.formatting import one_line
from dashboard.sources.http.credentials import ApiKey

# Longer addresses and paths fill a table cell.
MAX_SHOWN = 120
OK, NOT_MODIFIED, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 200, 304, 401, 403, 404
MOVED = range(300, 400)
UNIMPLEMENTED = 12  # of gRPC


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


class Endpoint(NamedTuple):
    """The server and the path of a request: the subject of every sentence."""

    server: str  # scheme://host:port, the id of a replica
    path: str
    query: str = ""  # with its question mark; never shown: it may have a secret
    is_replica: bool = True

    @property
    def where(self) -> str:
        """Return the address without its scheme, safe to show."""
        return plain(self.server.partition("://")[2] or self.server)


def endpoint_of(url: str, path: str = "") -> Endpoint:
    """Return the endpoint of a service's URL, with a path after its own."""
    base, mark, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    server, slash, own = rest.partition("/")
    return Endpoint(f"{scheme}://{server}", f"{slash}{own}{path}" or "/", f"{mark}{query}", is_replica=False)


def plain(text: str) -> str:
    """Return one short line without control characters."""
    return one_line(text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…")


def timed_out(endpoint: Endpoint, seconds: float, *, began: bool) -> Failure:
    """Return the failure: no complete answer arrived within `seconds`."""
    during = "in the middle of its answer to" if began else "on"
    return Failure(FailureKind.TIMEOUT, f"{endpoint.where} timed out after {seconds:.3g} s {during} {endpoint.path}.")


def no_time(endpoint: Endpoint) -> Failure:
    """Return the failure: the time of the replica was used up before this probe."""
    said = f"There was no time left to ask {endpoint.where} for {endpoint.path}: what was asked before took too long."
    return Failure(FailureKind.TIMEOUT, said)


def poll_over(endpoint: Endpoint) -> Failure:
    """Return the failure: the time of the poll was used up before this probe."""
    said = f"The poll ended before {endpoint.where} was asked for {endpoint.path}; raise poll.poll_timeout_seconds."
    return Failure(FailureKind.TIMEOUT, said)


def too_costly(endpoint: Endpoint, seconds: float) -> Failure:
    """Return the failure: earlier answers used up the processor time of the replica."""
    said = f"{endpoint.where}: its answers took more than {seconds:.3g} s to parse; {endpoint.path} was not asked for."
    return Failure(FailureKind.TOO_LARGE, f"{said} Check what answers there.")


def bad_body(endpoint: Endpoint, error: UnreadableError) -> Failure:
    return Failure(FailureKind(error.kind), f"{endpoint.where} answered {endpoint.path} with {error.detail}.")


def unread(endpoint: Endpoint, mistake: Exception) -> Failure:
    said = f"could not be read ({type(mistake).__name__}); this is a mistake of the dashboard, please report it"
    return Failure(FailureKind.DECODE, f"The answer of {endpoint.where} to {endpoint.path} {said}.")


def ca_unreadable(endpoint: Endpoint, ca_file: object) -> Failure:
    said = f"was not asked: the CA file {plain(str(ca_file))} cannot be read as certificates in PEM form"
    return Failure(FailureKind.TLS, f"{endpoint.where} {said}.")


def no_address(endpoint: Endpoint) -> Failure:
    said = f"{endpoint.where} is no address that can be asked; correct it where it is listed."
    return Failure(FailureKind.TARGET, said)


def of_status(endpoint: Endpoint, status: int, key: ApiKey) -> Failure | None:
    """Return the failure of a status code other than 200."""
    if status == OK:
        return None
    if status in {UNAUTHORIZED, FORBIDDEN}:
        return Failure(FailureKind.UNAUTHORIZED, _refused_key(endpoint, status, key))
    if status in MOVED:
        said = f"status {status}: redirects to another place are not followed"
        return Failure(FailureKind.STATUS, f"{endpoint.where} answered {endpoint.path} with {said}.")
    if status == NOT_FOUND:
        hint = " Is it a vLLM server?" if endpoint.is_replica else ""
        return Failure(FailureKind.STATUS, f"{endpoint.where} has no {endpoint.path} (status 404).{hint}")
    return Failure(FailureKind.STATUS, f"{endpoint.where} answered {endpoint.path} with status {status}.")


def of_grpc_status(endpoint: Endpoint, code: int) -> Failure:
    """Return the failure of a gRPC status code (https://grpc.io/docs/guides/status-codes/) other than 0."""
    hint = " Is it the port of vLLM's --grpc-port?" if code == UNIMPLEMENTED else ""
    return Failure(FailureKind.STATUS, f"{endpoint.where} answered {endpoint.path} with gRPC status {code}.{hint}")


def no_grpc_port(endpoint: Endpoint, label: str) -> Failure:
    said = f'{endpoint.where} is not asked over gRPC: its label grpc_port is "{plain(label)}"'
    return Failure(FailureKind.TARGET, f"{said}; write a number from 1 to 65535.")


def lacks_h2(endpoint: Endpoint) -> Failure:
    said = f"{endpoint.where} is not asked: gRPC needs h2: pip install -r requirements-grpc.txt"
    return Failure(FailureKind.PROTOCOL, f"{said}, or the extra grpc of the wheel.")


def _refused_key(endpoint: Endpoint, status: int, key: ApiKey) -> str:
    if key.token is None:
        return f"{endpoint.where} wants an API key for {endpoint.path} and {one_line(key.missing)}."
    return f"{endpoint.where} refuses the given API key for {endpoint.path} (status {status})."


def of_error(endpoint: Endpoint, error: Exception, *, began: bool) -> Failure:
    """Return the failure of an exception of httpx2; `began`: the beginning of an answer arrived."""
    where, path = endpoint.where, endpoint.path
    match error:
        case httpx2.InvalidURL():
            return no_address(endpoint)
        case NotConnectedError():
            return Failure(error.kind, _not_connected(endpoint, error))
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


def _not_connected(endpoint: Endpoint, error: NotConnectedError) -> str:
    where, reason = endpoint.where, plain(error.reason)
    match error.kind:
        case FailureKind.DNS:
            return f"The name in {where} cannot be resolved. Is it spelled right, and known to this machine's DNS?"
        case FailureKind.TLS if reason:
            return f"The certificate of {where} is not trusted ({reason}). Set ca_file in fleet.yaml or SSL_CERT_FILE."
        case FailureKind.TLS:
            return f"{where} does not speak TLS as expected. Should its address begin with http://?"
        case FailureKind.TARGET:
            line = f'targets: ["{endpoint.server}"]' if endpoint.is_replica else f"url: {endpoint.server}"
            said = f"{reason} is a link-local or cloud metadata address, and only a source names it"
            return f"{where} is not asked: {said}. If this is intended, add to fleet.yaml: {line}"
    if reason:
        return f"{where} cannot be reached: {reason}."
    return f"{where} refused the connection.{' Is vLLM running there?' if endpoint.is_replica else ''}"
