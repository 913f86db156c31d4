"""Where the API server is, and with which credentials it is asked: a pod's service account, or a kubeconfig file.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ and
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

import os
import ssl
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.config import KubernetesOptions
from dashboard.config.address import host_port, replica_id
from dashboard.config.document import read_document
from dashboard.config.sources import RouterOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials
from dashboard.sources.http.credentials import ApiKey, check_key, find
from dashboard.sources.http.transport import Trust, load_trust
from dashboard.sources.kubernetes.program import Login, Program, program_of, read_spec
from dashboard.sources.source import mapping, mappings, text

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where Kubernetes mounts it into a pod
DEFAULT_NAMESPACE = "default"
NO_KEY = ApiKey(missing="none is given; set token or tokenFile of the user in the kubeconfig")
NO_CA = "the CA cannot be read as certificates in PEM form"
MAX_FILE_BYTES = 2**20


class Access(NamedTuple):
    """The address of the API server, with what it is asked, and the namespace of the account or the context.

    Where there is a program, the login is of it, not this one.
    """

    server: str
    login: Login
    namespace: str
    program: Program | None = None


def find_access(options: KubernetesOptions | RouterOptions, account: Path = ACCOUNT) -> Access:
    """Return the access by a kubeconfig, else by $KUBECONFIG, else by the account of the pod; files are read anew.

    No program is started. Raise UnreadableError with a sentence where there is none.
    """
    written = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if options.kubeconfig or written:
        return _of_file(options.kubeconfig or Path(written), options)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        wanted = "set kubeconfig or the variable KUBECONFIG"
        raise UnreadableError("access", f"this is no pod of a cluster, and no kubeconfig is named; {wanted}")
    server = replica_id(f"https://{host_port(host, port)}")
    namespace = _read(account / "namespace").decode(errors="replace").strip()
    ca_file = account / "ca.crt"
    trust = _load(Trust(ca_file), f"{ca_file}: {NO_CA}")
    return Access(server, Login(find(Credentials(token_file=account / "token")), trust), namespace)


def _of_file(path: Path, options: KubernetesOptions | RouterOptions) -> Access:
    document = read_document(_read(path))
    if document.mistakes or not isinstance(document.value, dict):
        line, sentence = document.mistakes[0] if document.mistakes else (1, "not a mapping")
        raise UnreadableError("kubeconfig", f"{path}, line {line}: {sentence}")
    whole = document.value
    name = options.context or text(whole, "current-context")
    chosen = _named(path, whole, "context", name)
    cluster = _named(path, whole, "cluster", text(chosen, "cluster"))
    user = _named(path, whole, "user", text(chosen, "user")) if chosen.get("user") else {}
    if "auth-provider" in user:
        raise UnreadableError("kubeconfig", f"{path}: the user has auth-provider, which Kubernetes removed; use exec")
    try:
        server = replica_id(text(cluster, "server"))
    except ValueError as error:
        raise UnreadableError("kubeconfig", f"{path}: the server {error}") from None
    folder = path.parent
    cas = Trust(
        folder / cluster["certificate-authority"] if text(cluster, "certificate-authority") else None,
        _decoded(path, cluster, "certificate-authority-data").decode("ascii", "replace"),
        is_checked=text(cluster, "insecure-skip-tls-verify") != "true",
    )
    _load(cas, f"{cas.ca_file or path}: {NO_CA}")  # alone, so that the sentence names what cannot be read
    trust = _load(_with_certificate(path, cas, user), f"{path}: the client certificate and its key cannot be read")
    token, file = text(user, "token"), text(user, "tokenFile")
    program = None
    if "exec" in user and not (token or file):  # as kubectl: a token wins
        spec = read_spec(path, user, cluster, cas)
        if not options.allow_exec:
            said = "is started only with allow_exec: true in this entry of fleet.yaml"
            raise UnreadableError("kubeconfig", f"{spec.where} {said}")
        program = program_of(spec)
    key = find(Credentials(token_file=folder / file)) if file else NO_KEY
    if token:
        key = check_key(token, f"the user in {path}")
    return Access(server, Login(key, trust), text(chosen, "namespace") or DEFAULT_NAMESPACE, program)


def _named(path: Path, whole: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    """Return the entry of a name in the list of a kind, such as `contexts`."""
    for each in mappings(whole, f"{kind}s"):
        if each.get("name") == name and isinstance(each.get(kind), dict):
            return mapping(each, kind)
    raise UnreadableError("kubeconfig", f"{path}: has no {kind} {name!r:.100}; correct the file, or set context")


def _decoded(path: Path, part: Mapping[str, Any], name: str) -> bytes:
    try:
        return b64decode(text(part, name), validate=True)
    except ValueError:
        raise UnreadableError("kubeconfig", f"{path}: {name} is not Base64") from None


def _load(trust: Trust, said: str) -> ssl.SSLContext:
    try:
        return load_trust(trust)
    except (OSError, ValueError):  # also ssl.SSLError
        raise UnreadableError("tls", said) from None


def _with_certificate(path: Path, trust: Trust, user: Mapping[str, Any]) -> Trust:
    certificate, key = (text(user, name) for name in ("client-certificate", "client-key"))
    parts = [_decoded(path, user, f"{name}-data") for name in ("client-certificate", "client-key")]
    if certificate:
        return trust._replace(certificate=path.parent / certificate, key=path.parent / key if key else None)
    return trust._replace(pair=b"\n".join(filter(None, parts)))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise UnreadableError("access", f"{path}: {error.strerror}") from None
