"""Which names of fields name a secret. Standard library alone."""

import re
from collections.abc import Collection

# Ends of secret names, in lower case, without signs between words: api_key, api-key and apiKey are one.
SECRET_NAMES = (
    *("apikey", "apikeys", "accesskey", "accesskeys", "accesskeyid", "secretkey", "secretkeys", "privatekey"),
    *("token", "apitokens", "accesstokens", "authtokens", "hftokens", "secret", "secrets", "secretid"),
    *("password", "passwords", "passwd", "pwd", "passphrase", "passphrases", "passcode"),
    *("credential", "credentials", "authorization", "cookie", "cookies"),
)
# Of these, secret with any word behind them: password_hash. `token` alone also counts and limits tokens of text.
ALWAYS_SECRET = tuple(
    sorted(
        {*SECRET_NAMES, "accesstoken", "apitoken", "authtoken", "bearertoken", "refreshtoken", "hftoken"} - {"token"}
    )
)
# Except these words at the end: a place or a property of the secret.
NOT_THE_SECRET = frozenset(
    {"path", "paths", "file", "files", "keyfile", "dir", "directory", "folder", "name", "names", "url", "uri", "env"}
    | {"type", "types", "kind", "mode", "method", "provider", "source", "backend", "store", "manager", "format", "ref"}
    | {"algorithm", "algo", "parser", "length", "len", "size", "count", "num", "limit", "ttl", "seconds", "timeout"}
    | {"expiry", "expires", "age", "policy", "scheme", "version", "region", "required", "enabled", "threshold", "ids"}
)
# Exceptions: tokens of text, such as those that begin, end and pad a prompt.
TOKENS_OF_TEXT = tuple(
    f"{word}token"
    for word in (
        *("bos", "eos", "pad", "unk", "cls", "sep", "mask", "start", "end", "begin", "stop", "image", "video", "audio"),
        *("special", "text", "prompt", "draft", "per", "bonus", "placeholder", "vision", "next", "last", "first"),
    )
)
# Secret as the last word of a name.
SECRET_WORDS = frozenset(
    {"pwd", "pw", "pass", "auth", "cred", "creds", "jwt", "sig", "signature", "bearer", "key", "keys", "tokens"}
)
# Not secret after these words: a setting.
NO_SECRET_AFTER = {
    "pass": frozenset(
        {"forward", "backward", "fusion", "grad", "post", "pre", "first", "second", "single", "multi", "one", "two"}
        | {"custom", "inductor", "compile", "graph"}
    ),
    "signature": frozenset({"function", "method", "model", "shape"}),
    "key": frozenset(
        {"hash", "cache", "sort", "primary", "foreign", "partition", "routing", "group", "prefix", "block", "public"}
        | {"index", "lookup", "metadata", "shard", "layer", "weight", "lora", "query", "label", "dict", "config"}
        | {"object", "unique", "field", "column", "metric", "event", "topic", "name", "param", "modality", "tensor"}
    ),
}
# Many settings count or list these: secret only after one of these words, and `tokens` as the whole name.
SECRET_AFTER = {
    "tokens": frozenset({"api", "access", "auth", "bearer", "refresh", "session", "hf", "secret", "security", "id"}),
    "keys": frozenset({"api", "access", "secret", "private", "encryption", "signing", "auth", "ssh", "master"}),
}
# Words after a secret name that keep it secret: password_2, token_value.
STILL_SECRET = frozenset(
    {"value", "values", "plain", "plaintext", "raw", "b64", "base64", "hex", "old", "new", "backup", "list", "lists"}
    | {"content", "contents", "data", "hash", "hashes", "map", "string", "str", "pem", "header", "encoded", "encrypted"}
)
CONTENT = frozenset({"content", "contents", "data"})  # of a file: token_file_content
SECRET_PREFIX = "s3_"  # noqa: S105  object storage options: S3_ACCESS_KEY_ID and its kin
BETWEEN_WORDS = str.maketrans("", "", "_- ")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
LONGEST_NAME = 200  # characters at the end of a name that are checked


def is_secret_name(name: str, more: Collection[str] = ()) -> bool:
    """Return whether a field of this name is secret, by its last path segment; `more` are further ends of names."""
    segment = name[-LONGEST_NAME:].rstrip(".:/ ").rpartition(".")[2]
    lower = segment.lower()
    bare = lower.translate(BETWEEN_WORDS)
    if lower.startswith(SECRET_PREFIX) or (more and bare.endswith(tuple(more))):
        return True
    words = [word.lower() for word in _WORD.findall(segment.removeprefix("VLLM_"))]
    if words and words[-1] not in NOT_THE_SECRET and _begins_secret(words):
        return True
    while len(words) > 1 and (words[-1] in STILL_SECRET or words[-1].isdigit()):
        if words.pop() in CONTENT and len(words) > 1 and words[-1] == "file":
            words.pop()
    bare = "".join(words)
    if bare.endswith(SECRET_NAMES):
        return not bare.endswith(TOKENS_OF_TEXT)
    if not words or words[-1] not in SECRET_WORDS:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in SECRET_AFTER:
        return before in SECRET_AFTER[last] or (last == bare == "tokens")
    return before not in NO_SECRET_AFTER.get(last, ())


def _begins_secret(words: list[str]) -> bool:
    """Return whether the first words of a name, however many, end in a name that is always secret."""
    return any("".join(words[:end]).endswith(ALWAYS_SECRET) for end in range(1, len(words) + 1))
