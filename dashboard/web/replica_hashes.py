"""How the engines of one replica hash their blocks, beside the other replicas of its pool. HTML from values."""

import json
from collections.abc import Iterable, Mapping, Sequence

from dashboard.compare.prefix import canonical_digests, digests
from dashboard.fleet import Engine, Replica, Setting, State, formatting
from dashboard.web import markup

TITLE = "Block hashes"
SEED = "seed_policy"  # the provider alone tells it
MOST_ROWS = 64  # of the table, as of the other tables of engines
MOST_REASONS = 3
LONGEST_REASON = 200  # characters
LONGEST_DIGEST = 128  # characters; of a longer one the middle is left out
NOT_TOLD = "No reply tells how its engines hash; the provider inside vLLM does."
APART = "Its ranks hash differently"
OWN_ROOTS = "each engine process has a root of its own"
SEEDS = {
    "default": "Its hashes begin at the root that is the same everywhere: no seed is given, and none is needed.",
    "environment": "Its hashes begin at a root made of PYTHONHASHSEED: the same wherever that is the same.",
    "random": "Its hashes begin at a random root, another one in every engine process and after every start.",
}


def peers(replica: Replica, replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    """Return the other replicas of its pool that are counted; another address of the same process is no other one."""
    same = {replica.id, *replica.same_process}
    return tuple(
        each
        for each in replicas
        if each.pool == replica.pool and each.id not in same and each.fresh and not each.is_second_address
    )


def block_hashes(replica: Replica, others: Sequence[Replica], settings: Mapping[str, Setting]) -> str:
    """Say with how many other replicas it shares block hashes, how its hashes begin, and the digests of every rank."""
    told = [engine.fingerprint for engine in replica.engines if engine.fingerprint is not None]
    if not told:
        return markup.section(TITLE) + _foot(NOT_TOLD)
    seed = seed_policy(settings)
    said = markup.section(TITLE) + _line(*likeness(replica.engines, others, seed))
    if not any(each.engine or each.canonical for each in told):
        return said  # what hashes no blocks begins at no root
    return said + (f"<p>{markup.text(SEEDS[seed])}</p>" if seed in SEEDS else "") + _table(replica.engines)


def seed_policy(settings: Mapping[str, Setting]) -> str | None:
    """Return the policy by which the root of the hashes is chosen; None where no reply tells it."""
    told = settings.get(SEED)
    policy = json.loads(told.value) if told is not None and told.state is State.REPORTED else None
    return policy if isinstance(policy, str) else None


def likeness(engines: Sequence[Engine], others: Sequence[Replica], seed: str | None = None) -> tuple[str, str]:
    """Say beside `others` how these engines hash: the kind of the glyph, and a sentence as plain text."""
    own = digests(engines)
    if own is None:
        return "unknown", _without(engines)
    if len(own) > 1:
        cause = f": {OWN_ROOTS}." if seed in {None, "random"} else "; they share no prefixes with each other."
        return "differs", APART + cause
    if not others:
        return "unknown", "There is no other replica in its pool to share prefixes with."
    told = [each for each in others if digests(each.engines) is not None]
    alike = sum(digests(each.engines) == own for each in told)
    kind = "unknown" if not told else "good" if alike == len(told) else "differs"
    return kind, _alike(alike, len(told), len(others)) + _but_for_length(engines, told)


def _alike(alike: int, told: int, others: int) -> str:
    """Say how many of the other replicas of the pool hash the same; `told` of the `others` tell."""
    if not told:
        return "No other replica of its pool tells how it hashes."
    silent = others - told
    if not alike:
        sentence = "No other replica of the pool hashes like this"
        sentence += f", of {told:,} that {'tells' if told == 1 else 'tell'}" if silent else ""
    elif alike == told:
        sentence = f"Hashes like {formatting.count(alike, 'other replica')} of its pool"
    else:
        sentence = f"Hashes like {alike:,} of {told:,} other replicas of its pool{' that tell' if silent else ''}"
    return f"{sentence}{f'; {silent:,} {_do(silent)} not tell' if silent else ''}."


def _but_for_length(engines: Sequence[Engine], told: Sequence[Replica]) -> str:
    """Count those from which only the block length parts these engines."""
    own, canonical = digests(engines), canonical_digests(engines)
    near = [each for each in told if digests(each.engines) != own and canonical_digests(each.engines) == canonical]
    if not near or canonical is None:
        return ""
    differ = "differs" if len(near) == 1 else "differ"
    return f" {formatting.count(len(near), 'other')} {differ} in the block length alone."


def _without(engines: Sequence[Engine]) -> str:
    """Say why not all engines have a digest."""
    silent = [engine for engine in engines if engine.fingerprint is None or engine.fingerprint.engine is None]
    found = [engine.fingerprint.reason for engine in silent if engine.fingerprint and engine.fingerprint.reason]
    reasons = list(dict.fromkeys(_cut(reason, LONGEST_REASON) for reason in found))
    who = "It has no fingerprint" if len(silent) == len(engines) else f"{_ranks(silent)} no fingerprint"
    why = f": {formatting.first_of(reasons, MOST_REASONS).rstrip('.')}" if reasons else "; no reply tells why"
    return f"{who}{why}."


def _ranks(engines: Sequence[Engine]) -> str:
    if len(engines) == 1:
        return f"Rank {engines[0].dp_rank} has"
    return f"{len(engines):,} of its ranks have"


def _table(engines: Sequence[Engine]) -> str:
    head = [("DP rank", ""), ("Engine", "short"), ("Canonical", "short"), ("Reason", "")]
    rows = [_row(engine) for engine in engines[:MOST_ROWS]]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    left = len(engines) - MOST_ROWS
    more = f" {left:,} more ranks are not shown." if left > 0 else ""
    note = f"Equal under Engine: equal tokens give equal block hashes. Canonical leaves the block length out.{more}"
    return markup.table(TITLE, head, rows, {"DP rank": "DP rank"}) + _foot(note)


def _row(engine: Engine) -> list[str]:
    told = engine.fingerprint
    if told is None:
        return [f"{engine.dp_rank}", markup.muted("?"), markup.muted("?"), markup.muted("no reply tells it")]
    reason = markup.muted(_cut(told.reason, LONGEST_REASON)) if told.reason else ""
    return [f"{engine.dp_rank}", _digest(told.engine), _digest(told.canonical), reason]


def _digest(digest: str | None) -> str:
    """Show the beginning of a digest; a click selects the whole one, to copy it."""
    if digest is None:
        return markup.muted("none")
    whole = markup.text(_cut(digest, LONGEST_DIGEST))
    return f'<code class="digest" title="{whole}">{whole}</code>'


def _line(kind: str, sentence: str) -> str:
    words = {"good": "good:", "differs": "differs:", "unknown": "not known:"}
    return f"<p>{markup.glyph(kind, words[kind])} {markup.text(sentence)}</p>"


def _foot(sentence: str) -> str:
    return f'<div class="foot">{markup.text(sentence)}</div>'


def _do(number: int) -> str:
    return "does" if number == 1 else "do"


def _cut(text: str, longest: int) -> str:
    return formatting.middle_cut(formatting.one_line(text), longest)
