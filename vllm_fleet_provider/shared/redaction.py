"""Secrets are replaced by a marker before anything is kept, logged or shown. Standard library alone."""

import binascii
import html
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from vllm_fleet_provider.shared.secret_names import BETWEEN_WORDS, is_secret_name

MARKER = "[redacted]"
MAY_HOLD_SECRETS = frozenset({str, dict, list})  # never numbers, booleans, null
LONGEST_REMEMBERED, MAX_REMEMBERED = 100, 4_096  # characters of a cached name or text, and how many; vLLM has 1,000

_NO_PORT = r"(?!\d{1,5}(?:[/?#]|$))"
_USER, _REST = r"[^/\s@\"'<>:?#]", r"(?:(?!://)[^\s\"'<>])*"
# Credentials in a URL: a password may hold a slash, but after the host of a web address digits are a port.
_IN_URL = re.compile(
    r"(?P<slashes>:\\?/\\?/)(?:"
    rf"(?:(?<=http://)|(?<=https://)|(?<=tcp://)){_USER}+:{_NO_PORT}{_REST}@"
    rf"|(?:(?<!http://)(?<!https://)(?<!tcp://){_USER}*|(?=:)):{_REST}@"
    rf"|{_USER}+@)"
)
SHAPES = re.compile(
    r"(?P<word>\b(?i:bearer)\s+)[\w.~+/=-]{8,}"
    r"|(?P<basic>\b(?i:basic)\s+)(?P<pair>[\w+/-]{4,}={0,2})"
    r"|(?P<hook>hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    # Of Hugging Face, GitHub, GitLab, OpenAI and who imitates it, NVIDIA, npm, PyPI, Docker, Slack, AWS, Google, Vault
    r"|\bhf_[A-Za-z0-9]{16,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-[\w-]{16,}"
    r"|\bsk-(?:[a-z]{2,8}-)?[A-Za-z0-9]{20,}[\w-]*|(?<![\w/-])sk-(?=[\w-]*\d)[\w-]{12,}"
    r"|\bnvapi-[\w-]{16,}|\bnpm_\w{16,}|\bpypi-[\w-]{16,}|\bdckr_[op]at_[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}"
    r"|\bA[KS]IA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{16,}|\bhv[sb]\.[\w-]{16,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
)
# A random text without a known form: 36 or more letters and digits, of each kind four. vLLM reports hashes and names
# of that length, but hashes are hexadecimal and names have few digits; a path may have any part.
_RANDOM = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+]{36,}={0,2}(?![A-Za-z0-9+/=])")
_KINDS = (re.compile(r"[a-z]"), re.compile(r"[A-Z]"), re.compile(r"[0-9]"))
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]+")
LEAST_OF_A_KIND, SHORTEST_RANDOM = 4, 36
HINTS = (  # each shape contains one: searching for them takes a tenth of the time
    *("earer", "EARER", "asic", "ASIC", "hooks.slack", "PRIVATE KEY", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("_pat_", "_oat_", "glpat", "gldt", "glrt", "glcbt", "glptt", "glft", "glsoat", "glimt", "glagent", "gloas"),
    *("sk-", "nvapi-", "npm_", "pypi-", "xox", "AKIA", "ASIA", "AIza", "ya29", "hvs.", "hvb.", "eyJ"),
)

# In a text a name precedes its secret. A name is a whole word: else a long word would be searched from each letter.
# Python 3.10 has no possessive quantifiers.
_FLAG_SEPARATOR = r"(?(flag)\\*[\"']\s{0,9},\s{0,9}|(?!))|(?(flag)\s{1,20}(?![-\s])|(?!))"
_PAIR = (
    r"(?<![\w.\-])(?P<flag>-{1,2})?(?P<name>\w[\w.\-]*)(?![\w.\-])"
    rf"(?P<separator>\\*[\"']?\s{{0,20}}(?:=>|:=|[:=])\s{{0,20}}|{_FLAG_SEPARATOR}%s)"
)
_IN_VALUES = re.compile(_PAIR % "")
_IN_PROSE = re.compile(  # also `api_key "x"` and `password is x`
    _PAIR
    % (
        r"|\s{1,20}(?=\\*[\"'])|\s{1,20}(?i:is|was)\s{1,20}(?!(?i:not|required|missing|invalid|incorrect|wrong|expired"
        r"|empty|null|none|set|unset|needed|too|an?|the|in|of|for|no|already|disabled|enabled)\b)"
    )
)
_VALUE = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|(?P<escaped>\\+)\"[^\"]*\"?|\\+'[^']*'?"
    r"|(?!(?i:null|none|true|false)\b)(?:(?i:basic|bearer|digest|token|apikey|negotiate)\s+)?[^\s\"',;&}<>]+",
    re.DOTALL,
)
_LINE = re.compile(r"[^\r\n\"']+")
_MORE_WORDS = re.compile(r"(?:\s{1,20}(?!-)[^\s\"',;&}<>]+)*")  # --api-key takes several
_MORE_ITEMS = re.compile(r"(?:\s{0,9},\s{0,9}(?:\"(?!-)(?:[^\"\\]|\\.)*\"?|'(?!-)(?:[^'\\]|\\.)*'?))*", re.DOTALL)
_NUMBER = re.compile(r"(?:-?[0-9.]+(?:[eE][-+]?[0-9]+)?|(?i:null|none|true|false)|\W*|[\[{].*)\Z", re.DOTALL)
_EMPTY, _NO_MORE = re.compile(r"\W*\Z"), re.compile(r"(?!)")
_NESTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|[{}\[\]]", re.DOTALL)
_FLAG = re.compile(r"(?P<name>--?\w[\w.\-]*)(?P<value>=.+)?\Z", re.DOTALL)
_VARIABLE = re.compile(r"(?P<name>(?:export )?[A-Za-z_][\w.\-]*)=(?!(?i:null|none|true|false)\Z)[^\n]+\Z")
_QUOTES, _OPENING = frozenset({"\\", '"', "'"}), frozenset("\"'\\{[")
_STEMS = re.compile(r"(?i:pass|pwd|pw|secret|token|key|cred|cookie|auth|sig|jwt|bearer|s3_)")  # one is in each name
_URL_SAFE = str.maketrans("-_", "+/")
WHOLE_LINES = ("cookie", "authorization")  # headers whose values have several parts
# Words of many sentences: before a colon they are no secret name, unless quoted.
ORDINARY_WORDS = frozenset({"key", "keys", "token", "tokens", "pass", "auth", "signature", "bearer", "cred", "creds"})
LONGEST_JSON = 64 * 1024  # characters of a text that is parsed as JSON; a longer one is searched as text

SHORTEST_KNOWN, MOST_KNOWN = 6, 256  # characters of a known key, and how many keys are kept


class _Additions(NamedTuple):
    """The operator's additions to the names and shapes that are secret everywhere."""

    names: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()
    keys: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()  # encodings of these keys, the longest first


_also = _Additions()


def in_force() -> tuple[Any, ...]:
    """Return the additions of this process, for a child process to `adopt`."""
    return tuple(_also)


def adopt(other: tuple[Any, ...]) -> None:
    """Use the additions that another process got from `in_force`."""
    global _also  # noqa: PLW0603
    _also = _Additions(*other)
    _NAMES.clear()
    _CLEAN.clear()


def also_redact(names: Iterable[str], patterns: Iterable[str]) -> None:
    """Add the operator's secrets in this process: settings by their last words, texts by patterns."""
    global _also  # noqa: PLW0603  one process redacts in one way
    folded = frozenset(name.lower().translate(BETWEEN_WORDS) for name in names)
    _also = _also._replace(names=folded, patterns=tuple(map(re.compile, patterns)))
    _NAMES.clear()
    _CLEAN.clear()


def redact_keys(keys: Iterable[str]) -> None:
    """Redact these keys everywhere from now on, also encoded: those that this process sends itself."""
    global _also  # noqa: PLW0603
    new = [key for key in dict.fromkeys(keys) if len(key) >= SHORTEST_KNOWN and key not in _also.keys]
    if new:
        known = (*_also.keys, *new)[-MOST_KNOWN:]
        forms = sorted({form for key in known for form in _forms(key)}, key=len, reverse=True)
        _also = _also._replace(keys=known, forms=tuple(forms))


def _forms(key: str) -> Iterator[str]:
    """Yield a key as it may be echoed: plain, in JSON, HTML, URLs, and in base64 at three offsets."""
    yield from (key, quote(key, safe=""), html.escape(key), json.dumps(key)[1:-1])
    raw = key.encode()
    for before, cut in enumerate((0, 2, 3)):
        text = b64encode(b"\0" * before + raw).decode()[cut : (before + len(raw)) * 8 // 6]
        yield from (text, text.replace("+", "-").replace("/", "_"))


def is_secret(name: str) -> bool:
    """Return whether a field of this name is secret, also by the operator's additions."""
    return is_secret_name(name, _also.names)


def redact(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets, also in lists and objects below a secret name. Only strings are secrets."""
    return _redact(value, secret=_NAMES[name][1])


def _redact(value: Any, *, secret: bool) -> Any:
    if isinstance(value, str):
        return MARKER if value and secret else redact_text(value)
    if isinstance(value, list):
        return [_redact(item, secret=secret) for item in value] if secret else _redact_list(value)
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        name, named = _NAMES[key]
        kept[name] = _redact(item, secret=secret or named) if type(item) in MAY_HOLD_SECRETS else item
    if "value" in value and isinstance(called := value.get("name"), str) and is_secret(called):
        kept["value"] = _redact(value["value"], secret=True)  # a variable in the form of Kubernetes
    return kept


def _redact_list(items: list[Any]) -> list[Any]:
    """Redact a list, also items after a flag such as `--api-key`: it may be a command line."""
    kept = []
    is_pair = len(items) == len(("name", "value")) and isinstance(items[0], str)
    after_name = is_pair and items[0].lower() not in ORDINARY_WORDS and is_secret(items[0])  # a header
    for place, item in enumerate(items):
        flag = _FLAG.match(item) if isinstance(item, str) else None
        if flag:
            after_name = is_secret(flag["name"]) and not flag["value"]
            secret_value = flag["value"] and is_secret(flag["name"])
            kept.append(f"{flag['name']}={MARKER}" if secret_value else redact_text(item))
        else:
            kept.append(_redact(item, secret=after_name and place > 0))
    return kept


class _FieldNames(dict[str, tuple[str, bool]]):
    """Field name -> its text without secrets, and whether it is secret; cached, for a thousand equal replicas."""

    def __missing__(self, name: str) -> tuple[str, bool]:
        result = redact_text(name), is_secret(name)
        if len(name) <= LONGEST_REMEMBERED:
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[name] = result
        return result


_NAMES = _FieldNames()
_CLEAN: set[str] = set()  # texts without secrets


def redact_text(text: str) -> str:
    """Return a text without what looks like a secret, also within JSON."""
    if text in _CLEAN:
        return text
    clean = _redact_text(text)
    if clean == text and len(text) <= LONGEST_REMEMBERED:
        if len(_CLEAN) >= MAX_REMEMBERED:
            _CLEAN.clear()
        _CLEAN.add(text)
    return clean


def _redact_text(text: str) -> str:
    if text.lstrip()[:1] in {"{", "["} and len(text) <= LONGEST_JSON:
        try:
            content = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            pass
        else:
            clean = redact(content)
            return text if clean == content else json.dumps(clean)
    if (variable := _VARIABLE.match(text)) and is_secret(variable["name"]):
        return f"{variable['name']}={MARKER}"
    return _by_patterns(_by_name(_by_shape(text), _IN_VALUES))


def redact_prose(text: str) -> str:
    """Return a text that is not JSON without secrets: half an answer, an error page, a sentence."""
    return _without_keys(_by_patterns(_by_name(_by_shape(text), _IN_PROSE)))


def redact_known(value: Any) -> Any:
    """Return a JSON value without the keys that this process sends."""
    if not _also.forms:
        return value
    if isinstance(value, str):
        return _without_keys(value)
    if isinstance(value, list):
        return [redact_known(item) for item in value]
    if isinstance(value, dict):
        return {_without_keys(name): redact_known(item) for name, item in value.items()}
    return value


def holds_known(text: str) -> bool:
    """Return whether a text contains one of the keys that this process sends."""
    return any(form in text for form in _also.forms)


def _without_keys(text: str) -> str:
    for form in _also.forms:
        text = text.replace(form, MARKER)
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError for a duplicate name, which would hide its first value."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError
    return content


def _by_patterns(text: str) -> str:
    for pattern in _also.patterns:
        text = pattern.sub(MARKER, text)
    return text


def _by_shape(text: str) -> str:
    if ":/" in text or ":\\/" in text:
        text = _IN_URL.sub(rf"\g<slashes>{MARKER}@", text)
    if any(hint in text for hint in HINTS):
        text = SHAPES.sub(_shaped, text)
    return _RANDOM.sub(_without_random, text) if len(text) >= SHORTEST_RANDOM else text


def _without_random(match: re.Match[str]) -> str:
    text = match[0]
    is_random = not _HEXADECIMAL.fullmatch(text) and all(len(kind.findall(text)) >= LEAST_OF_A_KIND for kind in _KINDS)
    return MARKER if is_random else text


def _shaped(match: re.Match[str]) -> str:
    if match["basic"] and not _is_pair(match["pair"]):
        return match[0]
    return f"{match['word'] or match['basic'] or match['hook'] or ''}{MARKER}"


def _is_pair(text: str) -> bool:
    """Return whether a text is base64 of `user:password`."""
    bare = text.rstrip("=").translate(_URL_SAFE)
    try:
        return b":" in b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        return False


def _by_name(text: str, pairs: re.Pattern[str]) -> str:
    """Replace what follows the name of a secret."""
    if not (_also.names or _STEMS.search(text)):
        return text
    kept, done = [], 0
    match = pairs.search(text)
    while match:
        end = _end_of_secret(text, match, in_prose=pairs is _IN_PROSE) if _NAMES[match["name"]][1] else None
        if end is not None:
            begins_quoted = text[match.end()] in _OPENING and not text.startswith(MARKER, match.end())
            kept += [text[done : match.end()], f'"{MARKER}"' if begins_quoted else MARKER]
            done = end
        match = pairs.search(text, match.end() if end is None else end)
    return "".join([*kept, text[done:]]) if kept else text


def _end_of_secret(text: str, match: re.Match[str], *, in_prose: bool) -> int | None:
    """Return the end of the secret after a name; None without a secret."""
    separator, start = match["separator"], match.end()
    if text.startswith(MARKER, start):
        return start + len(MARKER)
    in_quotes, name = separator[:1] in _QUOTES, match["name"].lower()
    if name in ORDINARY_WORDS and not (in_prose or in_quotes or match["flag"] or separator == "="):
        return None
    if text[start : start + 1] in {"{", "["}:
        end = _end_of_nested(text, start)
        if not _QUOTES.isdisjoint(text[start:end]):
            return end
        if not in_prose:
            return None  # YAML, in which each name is followed by its own value
    whole_line = ":" in separator and not in_quotes and name.endswith(WHOLE_LINES)
    value = (_LINE.match(text, start) if whole_line else None) or _VALUE.match(text, start)
    if value is None or (_NUMBER if in_quotes else _EMPTY).match(value[0]):
        return None
    more = _MORE_ITEMS if "," in separator else _MORE_WORDS if match["flag"] and separator.isspace() else _NO_MORE
    return (more.match(text, value.end()) or value).end()


def _end_of_nested(text: str, start: int) -> int:
    """Return the end of a list or an object; the end of the text where it is cut off."""
    depth = 0
    for part in _NESTED.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(part[0], 0)
        if depth == 0:
            return part.end()
    return len(text)
