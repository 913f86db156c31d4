"""The keys that sign cookies and encrypt what is stored of a sign-in: the first one signs, all verify."""

import base64
import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itsdangerous import BadData, URLSafeSerializer

from dashboard.config.access import SessionOptions
from dashboard.errors import OptionsError
from dashboard.store.writing import PRIVATE, PRIVATE_FOLDER, write_whole

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger(__name__)

SHORTEST = 32  # characters
FILE = "session.key"  # in data_folder
MOST_BYTES = 64 * 1024
HOW = "write one key a line, such as the output of `openssl rand -hex 32`"


def configured_keys(options: SessionOptions) -> tuple[str, ...]:
    """Return the keys of the options, the first for signing; none where they name none. Raise OptionsError."""
    if options.key_env is not None:
        text, place = os.environ.get(options.key_env, ""), f"variable {options.key_env} of access.session.key_env"
    elif options.key_file is not None:
        place = f"{options.key_file} of access.session.key_file"
        try:
            with options.key_file.open("rb") as stream:
                text = stream.read(MOST_BYTES).decode(errors="replace")
        except OSError as error:
            raise OptionsError(f"{place}: {error.strerror}; {HOW}") from None
    else:
        return ()
    keys = tuple(text.split())
    if not keys or min(map(len, keys)) < SHORTEST:
        raise OptionsError(f"{place}: no key, or one of fewer than {SHORTEST} characters; {HOW}")
    return keys


class SessionKeys:
    """The keys of the options in force; else one in the data folder, or one of this process without a folder."""

    def __init__(self, options: Callable[[], SessionOptions], folder: Path | None) -> None:
        """Read nothing yet. `folder` is private; None: nothing is written."""
        self._options = options
        self._folder = folder
        self._own = ""
        self._last: tuple[str, ...] = ()

    def sign(self, value: Any, purpose: str) -> str:
        """Return a JSON value with its signature, which is valid for one purpose."""
        return str(self._serializer(purpose).dumps(value))

    def verify(self, signed: str, purpose: str) -> Any:
        """Return the value that one of the keys signed for a purpose; None where none did."""
        try:
            return self._serializer(purpose).loads(signed)
        except BadData:
            return None

    def seal(self, text: str) -> bytes:
        return self._fernet().encrypt(text.encode())

    def unseal(self, sealed: bytes) -> str | None:
        """Return the text that one of the keys encrypted; None where none did."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415  of the extra `auth`

        try:
            return self._fernet().decrypt(sealed).decode()
        except InvalidToken:
            return None

    def _serializer(self, purpose: str) -> URLSafeSerializer:
        keys = [*reversed(self._keys())]  # the last one signs
        how = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        return URLSafeSerializer(keys, salt=f"fleet {purpose}", signer_kwargs=how)

    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415  as above

        derived = (hashlib.sha256(f"fleet refresh token {key}".encode()).digest() for key in self._keys())
        return MultiFernet([Fernet(base64.urlsafe_b64encode(each)) for each in derived])

    def _keys(self) -> Sequence[str]:
        """Return the keys; those of before where a file that is being replaced cannot be read."""
        try:
            self._last = configured_keys(self._options()) or (self._own_key(),)
        except OptionsError as error:
            log.warning("the last session keys stay: %s", error)
            self._last = self._last or (self._own_key(),)
        return self._last

    def _own_key(self) -> str:
        if not self._own:
            self._own = self._kept_key() if self._folder is not None else secrets.token_hex(SHORTEST)
        return self._own

    def _kept_key(self) -> str:
        """Return the key of the data folder, a new one where there is none; one of this process where that fails."""
        file = Path(str(self._folder)) / FILE
        try:
            file.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            if not file.exists():
                write_whole(file, f"{secrets.token_hex(SHORTEST)}\n".encode(), PRIVATE)
            key = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError) as error:
            log.warning("sign-ins end with this process: %s cannot be used (%s)", file, error)
            return secrets.token_hex(SHORTEST)
        return key if len(key) >= SHORTEST else secrets.token_hex(SHORTEST)
