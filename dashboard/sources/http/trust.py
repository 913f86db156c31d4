"""TLS contexts, one in this process for the same files: loading the CAs of a machine takes 50 ms of processor time."""

import ssl
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

MOST = 32  # contexts that are kept: one per CA file, one per kubeconfig


class Trust(NamedTuple):
    """The CAs that are trusted, this machine's where none is given, and the certificate that is shown to a server.

    `ca_data` is PEM text. `pair` is a certificate and its key, PEM, in place of the files.
    """

    ca_file: Path | None = None
    ca_data: str = ""
    is_checked: bool = True
    certificate: Path | None = None
    key: Path | None = None
    pair: bytes = b""

    @property
    def files(self) -> tuple[Path | str | None, ...]:
        """Return the files that a context is loaded from; None for those that are not given."""
        machine = ssl.get_default_verify_paths()
        cas = (self.ca_file,) if self.ca_file or self.ca_data else (machine.cafile, machine.capath)
        return (*cas, self.certificate, self.key)


FileState = tuple[int, ...] | None


def load_trust(trust: Trust) -> ssl.SSLContext:
    """Return the context, loaded again only where a file changed; it is shared, so do not change it.

    Raise OSError (also ssl.SSLError) or ValueError for what cannot be read as PEM.
    """
    return _load(trust, tuple(map(_state, trust.files)))  # states first: a file that changes meanwhile is loaded again


def _state(file: Path | str | None) -> FileState:
    """Return what changes with a file's content; None where there is none."""
    if file is None:
        return None
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=MOST)
def _load(trust: Trust, _states: tuple[FileState, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trust.ca_file, cadata=trust.ca_data or None)
    if not trust.is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if trust.certificate:
        context.load_cert_chain(trust.certificate, trust.key)
    elif trust.pair:  # Python's ssl reads files only: data goes through a private one
        with NamedTemporaryFile(prefix="kubeconfig-") as private:
            private.write(trust.pair)
            private.flush()
            context.load_cert_chain(private.name)
    return context
