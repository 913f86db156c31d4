"""Secrets leave here: replaced by a marker before anything is kept, logged or shown."""

from __future__ import annotations

import re
from typing import Any

MARKER = "[redacted]"

# How names of secrets end, in lower case, without the signs between words: api_key, api-key and apiKey are one.
SECRET_NAMES = (
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credentials",
    "authorization",
)
# Those that are text: what a model begins, ends and fills its prompts with.
TOKENS_OF_TEXT = (
    *("bostoken", "eostoken", "padtoken", "unktoken", "clstoken", "septoken", "masktoken"),
    *("starttoken", "endtoken", "imagetoken", "videotoken", "audiotoken"),
)
BETWEEN_WORDS = str.maketrans("", "", "_- ")
MAY_HOLD_SECRETS = frozenset({str, dict, list})  # never numbers, booleans, null
LONG_NAME, MAX_REMEMBERED = 100, 16_384  # characters of a name that is remembered, and how many are; vLLM has 1,000
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
    r"(?:(?:api|access|secret|private)[_-]?key|(?:hf|auth|access|api|session|refresh|bearer)[_-]?token|secret"
    r"|passw(?:or)?d|passphrase|credentials|authorization|\bs3_\w{1,64})"
)
_QUOTED = rf"(?:{_NAME}|[\"']token)"  # without quotes, "token" is a word of many error pages
NAME_HINTS = (  # one is in each name
    *("api", "hf_token", "hf-token", "hftoken", "auth", "access", "secret", "private", "session", "refresh", "bearer"),
    *("passw", "passphrase", "credentials", "s3_", '"token', "'token"),
)
_STRING = r"\"(?:[^\"\\]|\\.)*\"?"
NAMED = re.compile(
    # "name": "secret", or a list of them; quotes may be escaped, for JSON stands inside JSON; numbers and null stay
    rf"(?is)(?P<quoted>{_QUOTED}\\*[\"']\s*:\s*)(?:{_STRING}|'[^']*'?|\\+\"[^\"]*\"?|\[\s*\"(?:[^\"\\\]]|\\.|\"[\s,]*\"?)*\]?)"
    # name=secret, name: secret, Authorization: Basic secret
    rf"|(?P<bare>{_NAME}\s*[:=]\s*)"
    rf"(?:{_STRING}|'[^']*'?|(?!(?:null|none|true|false)\b)(?:(?:basic|bearer|digest|token)\s+)?[^\s\"',;&}}]+)"
)


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, by its last path segment."""
    lower = name.rpartition(".")[2].lower()
    bare = lower.translate(BETWEEN_WORDS)
    ends = bare.endswith(SECRET_NAMES) and not bare.endswith(TOKENS_OF_TEXT)
    return ends or lower.startswith(SECRET_PREFIX)


def redact(value: Any, name: str = "") -> Any:
    """Return a JSON value without its secrets, also those in lists and objects below such a name.

    Only non-empty strings are ever secrets.
    """
    return _redact(value, secret=is_secret(name))


def _redact(value: Any, *, secret: bool) -> Any:
    if isinstance(value, str):
        return MARKER if value and secret else redact_text(value)
    if isinstance(value, list):
        return [_redact(item, secret=secret) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        name, named = _NAMES[key]
        kept[name] = _redact(item, secret=secret or named) if type(item) in MAY_HOLD_SECRETS else item
    return kept


class _Names(dict[str, tuple[str, bool]]):
    """Per name of a field its text without secrets, and whether it holds one; a thousand replicas have the same."""

    def __missing__(self, name: str) -> tuple[str, bool]:
        judged = redact_text(name), is_secret(name)
        if len(name) <= LONG_NAME and len(self) < MAX_REMEMBERED:
            self[name] = judged
        return judged


_NAMES = _Names()


def redact_text(text: str) -> str:
    """Return a text without what looks like a secret."""
    if not ("://" in text or "earer" in text or "hf_" in text):
        return text
    return SHAPES.sub(_shaped, text)


def redact_prose(text: str) -> str:
    """Return a text that is no JSON without its secrets, those behind a name included."""
    text, lower = redact_text(text), text.lower()
    return NAMED.sub(_named, text) if any(hint in lower for hint in NAME_HINTS) else text


def _shaped(match: re.Match[str]) -> str:
    if match["url"]:
        return f"://{MARKER}@"
    return f"{match['bearer'] or ''}{MARKER}"


def _named(match: re.Match[str]) -> str:
    if match["quoted"]:
        return f'{match["quoted"]}"{MARKER}"'
    return f"{match['bare']}{MARKER}"
