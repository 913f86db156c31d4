"""Secrets leave here: replaced by a marker before anything is kept, logged or shown."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

MARKER = "[redacted]"

SECRET_NAMES = (
    "api_key",
    "hf_token",
    "auth_token",
    "access_token",
    "secret",
    "secret_key",
    "access_key",
    "password",
    "credentials",
)
SECRET_PREFIX = "s3_"  # noqa: S105  object storage options: S3_ACCESS_KEY_ID and its kin

# By shape: credentials in a URL, bearer tokens, Hugging Face tokens (hf_ and 34 letters; shorter ones are cut off).
SHAPES = re.compile(
    r"(?P<url>://)[^/\s:@\"']*:[^/\s\"']+@"
    r"|(?P<bearer>\b[Bb]earer\s+)[\w.~+/=-]{8,}"
    r"|\bhf_[A-Za-z0-9]{16,}"
)
# In text that is no JSON (an error page, half an answer) a name stands before the secret. What comes before the name
# is not matched: a prefix of any length would make the search quadratic in a long word.
_NAME = (
    r"(?:api[_-]?key|hf_token|auth[_-]?token|access[_-]?token|secret|secret[_-]?key|access[_-]?key|password"
    r"|credentials|authorization|\bs3_\w{1,64})"
)
_STRING = r"\"(?:[^\"\\]|\\.)*\"?"
NAMED = re.compile(
    # "name": "secret", or a list of them; quotes may be escaped, for JSON stands inside JSON; numbers and null stay
    rf"(?is)(?P<quoted>{_NAME}\\*[\"']\s*:\s*)(?:{_STRING}|'[^']*'?|\\+\"[^\"]*\"?|\[\s*\"(?:[^\"\\\]]|\\.|\"[\s,]*\"?)*\]?)"
    # name=secret, name: secret, Authorization: Basic secret
    rf"|(?P<bare>{_NAME}\s*[:=]\s*)"
    rf"(?:{_STRING}|'[^']*'?|(?!(?:null|none|true|false)\b)(?:(?:basic|bearer|digest|token)\s+)?[^\s\"',;&}}]+)"
)


@lru_cache(maxsize=16_384)
def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, by its last path segment."""
    lower = name.lower()
    return lower.endswith(SECRET_NAMES) or lower.startswith(SECRET_PREFIX)


def redact(value: Any, name: str = "") -> Any:
    """Return a JSON value without its secrets, also those in lists and objects below such a name.

    Only non-empty strings are ever secrets.
    """
    if isinstance(value, str):
        return MARKER if value and is_secret(name) else redact_text(value)
    if isinstance(value, dict):
        inherited = name if is_secret(name) else None
        return {
            redact_text(key): redact(item, inherited or key) if isinstance(item, str | dict | list) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    return value


def redact_text(text: str) -> str:
    """Return a text without what looks like a secret."""
    if not ("://" in text or "earer" in text or "hf_" in text):
        return text
    return SHAPES.sub(_shaped, text)


def redact_prose(text: str) -> str:
    """Return a text that is no JSON without its secrets, those behind a name included."""
    return NAMED.sub(_named, redact_text(text))


def _shaped(match: re.Match[str]) -> str:
    if match["url"]:
        return f"://{MARKER}@"
    return f"{match['bearer'] or ''}{MARKER}"


def _named(match: re.Match[str]) -> str:
    if match["quoted"]:
        return f'{match["quoted"]}"{MARKER}"'
    return f"{match['bare']}{MARKER}"
