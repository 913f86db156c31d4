"""Credentials from a program: users with `exec` in a kubeconfig, such as those of EKS, GKE and AKS.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins. What a program
writes is never shown and never logged: it has secrets, also where it fails.
"""

import asyncio
import json
import math
import os
import shutil
import signal
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from dashboard.errors import UnreadableError
from dashboard.fleet.formatting import end_cut
from dashboard.sources.http.credentials import ApiKey, check_key
from dashboard.sources.http.transport import Trust, load_trust
from dashboard.sources.source import mapping, mappings, text
from dashboard.vllm.reading import parse_json

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INFO = "KUBERNETES_EXEC_INFO"  # the variable with the request; programs read from it which version is wanted
EXTENSION = "client.authentication.k8s.io/exec"  # of a cluster: its `config` for the program
MAX_BYTES = 2**18  # of an answer; a token has 1 to 10 KB, a certificate with its key 5
MAX_NODES = 1_000
MARGIN_SECONDS = 60.0  # a credential is renewed before it expires; one that is short-lived after 3/4 of its time
KILLED_SECONDS = 1.0  # for a program that was killed to be gone
MOST_PROGRAMS = 32  # whose credentials are kept


class Login(NamedTuple):
    """With what the API server is asked: a key, and a TLS context that may have a client certificate."""

    key: ApiKey
    trust: ssl.SSLContext | None


class ProgramSpec(NamedTuple):
    """A program as a kubeconfig has it. `environment` is added to that of the dashboard; `cas` are the cluster's."""

    file: Path
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    version: str
    cas: Trust

    @property
    def where(self) -> str:
        """Return the subject of a sentence, without arguments: they may have a secret."""
        return f"{self.file}: the program {end_cut(Path(self.command[0]).name)}"


def read_spec(file: Path, user: Mapping[str, Any], cluster: Mapping[str, Any], cas: Trust) -> ProgramSpec:
    """Return the program of a user; raise UnreadableError with a sentence where it cannot be run."""
    wanted = mapping(user, "exec")
    given = wanted.get("args")
    arguments = tuple(each for each in given if isinstance(each, str)) if isinstance(given, list) else ()
    version = text(wanted, "apiVersion")
    info: dict[str, Any] = {"interactive": False}
    if text(wanted, "provideClusterInfo") == "true":
        info["cluster"] = _cluster_info(cluster, cas)
    request = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": info})
    environment = {text(each, "name"): text(each, "value") for each in mappings(wanted, "env") if text(each, "name")}
    spec = ProgramSpec(
        file, (text(wanted, "command"), *arguments), (*environment.items(), (INFO, request)), version, cas
    )
    if not spec.command[0]:
        raise UnreadableError("kubeconfig", f"{file}: exec of the user has no command")
    if version not in VERSIONS:
        raise UnreadableError("kubeconfig", f"{spec.where} has another apiVersion in exec than {VERSIONS[0]}")
    if text(wanted, "interactiveMode") == "Always":
        said = "needs a terminal (interactiveMode: Always), which the dashboard does not have; use one without prompts"
        raise UnreadableError("kubeconfig", f"{spec.where} {said}")
    return spec


def _cluster_info(cluster: Mapping[str, Any], cas: Trust) -> dict[str, Any]:
    """Return the cluster as `spec.cluster` of an ExecCredential has it: a CA file as its content."""
    info: dict[str, Any] = {
        name: text(cluster, name)
        for name in ("server", "tls-server-name", "certificate-authority-data", "proxy-url")
        if text(cluster, name)
    }
    if cas.ca_file:
        with suppress(OSError):  # the sentence about it is that of the TLS context
            info["certificate-authority-data"] = b64encode(cas.ca_file.read_bytes()).decode()
    if not cas.is_checked:
        info["insecure-skip-tls-verify"] = True
    own = next((each for each in mappings(cluster, "extensions") if each.get("name") == EXTENSION), {})
    return {**info, "config": own["extension"]} if "extension" in own else info


class Program:
    """One credential program: it runs once for all who ask, and again when its answer expires or is refused."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._login: Login | None = None
        self._failure: UnreadableError | None = None  # of the last run
        self._renew_at = math.inf  # seconds since 1970
        self._ended_at = -math.inf  # by time.monotonic
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def log_in(self, seconds: float, refused: Login | None = None) -> Login:
        """Return its credential, a new one instead of one that was refused, within so many seconds.

        Raise UnreadableError with a sentence.
        """
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(seconds), self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if self._failure and self._ended_at > asked_at:  # of a run that was waited for
                    raise UnreadableError(self._failure.kind, self._failure.detail)
                if self._login is None or self._login is refused or time.time() >= self._renew_at:
                    return await self._renew()
                return self._login
        except TimeoutError:
            said = f"{self._spec.where} took longer than {seconds:.3g} s and was ended"
            raise UnreadableError("timeout", said) from None

    async def _renew(self) -> Login:
        self._login, self._failure = None, None
        try:
            answer = await _run(self._spec)
            login, self._renew_at = _read_answer(self._spec, answer, time.time())
        except UnreadableError as error:
            self._failure, self._ended_at = error, time.monotonic()
            raise
        self._login = login
        return login


@lru_cache(maxsize=MOST_PROGRAMS)
def program_of(spec: ProgramSpec) -> Program:
    """Return the program of a kubeconfig: all sources with the same one share its credential."""
    return Program(spec)


async def _run(spec: ProgramSpec) -> bytes:
    """Run a program without a shell and without input, and return what it writes.

    It has a process group of its own, which is killed when it ended, failed, or is cancelled. Raise UnreadableError.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    content, is_too_large = bytearray(), asyncio.Event()

    def read() -> None:
        with suppress(BlockingIOError):
            while piece := os.read(ours, 2**16):
                content.extend(piece)
                if len(content) > MAX_BYTES:
                    is_too_large.set()
                    break
            loop.remove_reader(ours)  # at its end, or at the limit

    try:
        try:
            process = await asyncio.create_subprocess_exec(
                _find(spec), *spec.command[1:], stdin=asyncio.subprocess.DEVNULL, stdout=theirs,
                stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **dict(spec.environment)}, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # ValueError: a null character
            reason = (error.strerror if isinstance(error, OSError) else None) or "invalid arguments"
            raise UnreadableError("exec", f"{spec.where} cannot be started: {reason}") from None
        finally:
            os.close(theirs)
        loop.add_reader(ours, read)
        waits = [asyncio.create_task(process.wait()), asyncio.create_task(is_too_large.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(KILLED_SECONDS):
                    await asyncio.gather(waits[0], return_exceptions=True)
            waits[1].cancel()
        read()  # what is still in the pipe; a child in another group may hold it open
    finally:
        loop.remove_reader(ours)
        os.close(ours)
    if is_too_large.is_set():
        raise UnreadableError("exec", f"{spec.where} writes more than {MAX_BYTES // 2**10} KiB and was ended")
    if process.returncode:
        how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise UnreadableError("exec", f"{spec.where} ended with {how}; run it in a terminal to see why")
    return bytes(content)


def _find(spec: ProgramSpec) -> str:
    """Return the path of the program: with a slash from the kubeconfig's folder, else from PATH, as kubectl does."""
    command = spec.command[0]
    if "/" in command:
        return str(spec.file.parent.absolute() / command)
    found = shutil.which(command)
    if found is None or not Path(found).is_absolute():  # never from the current folder
        raise UnreadableError("exec", f"{spec.where} is not in PATH; install it, or write its path as command")
    return found


def _read_answer(spec: ProgramSpec, answer: bytes, now: float) -> tuple[Login, float]:
    """Return the credential in an ExecCredential and when to renew it, in seconds since 1970."""
    try:
        found = parse_json(answer, MAX_NODES)
    except UnreadableError:  # its sentence may say what is there
        found = None
    if not isinstance(found, dict) or (found.get("kind"), found.get("apiVersion")) != ("ExecCredential", spec.version):
        raise UnreadableError("exec", f"{spec.where} answers with no ExecCredential of {spec.version}")
    status = mapping(found, "status")
    token, certificate, key = (text(status, each) for each in ("token", "clientCertificateData", "clientKeyData"))
    if not (token or certificate) or bool(certificate) is not bool(key):
        raise UnreadableError("exec", f"{spec.where} answers with neither a token nor a client certificate and its key")
    checked = check_key(token, f"the answer of {spec.where}") if token else ApiKey(missing="its program gives none")
    if token and checked.token is None:
        raise UnreadableError("exec", checked.missing)
    try:
        trust = load_trust(spec.cas._replace(pair=f"{certificate}\n{key}".encode() if certificate else b""))
    except (OSError, ValueError):  # also ssl.SSLError
        said = "answers with a client certificate that cannot be read as PEM with its key"
        raise UnreadableError("tls", f"{spec.where} {said}") from None
    return Login(checked, trust), _renewal(spec, text(status, "expirationTimestamp"), now)


def _renewal(spec: ProgramSpec, written: str, now: float) -> float:
    if not written:  # until it is refused
        return math.inf
    try:
        expires = datetime.fromisoformat(written)
    except ValueError:
        expires = None
    if expires is None or expires.tzinfo is None:
        raise UnreadableError("exec", f"{spec.where} answers with an expirationTimestamp that is no time of RFC 3339")
    left = expires.timestamp() - now
    if left <= 0:
        said = "answers with a credential that has expired; check the clock of this machine"
        raise UnreadableError("exec", f"{spec.where} {said}")
    return expires.timestamp() - min(MARGIN_SECONDS, left / 4)
