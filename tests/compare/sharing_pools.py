"""Pools for tests of prefix sharing: of given cohorts, or drawn at random with a fixed seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from dashboard.analysis.sharing_text import sharing_text
from dashboard.compare import SharingVerdict, compare_pool, sharing_verdict
from dashboard.fleet import Document, EngineFingerprint, Pool, Replica, Role, State
from dashboard.fleet.pieces import to_plain
from tests.builders import SAME_KV, document, down, hashing, replica, setting

ALGORITHM, BLOCK = "cache_config.prefix_caching_hash_algo", "cache_config.block_size"
CACHING, CONNECTOR = "cache_config.enable_prefix_caching", "kv_transfer_config.kv_connector"
OFF = EngineFingerprint(reason="prefix caching is off, so this engine hashes no blocks")
MARKS: Sequence[str | EngineFingerprint | None] = (
    "a",
    "a",
    "a",
    "b",
    "c",
    None,
    None,
    OFF,
    EngineFingerprint("a", "d"),
    EngineFingerprint(None, "e"),
)
SETTINGS: Sequence[Mapping[str, Any]] = (
    {},
    {},
    {},
    {BLOCK: 32},
    {"version": "0.31.0"},
    {"version": "0.28.1"},
    {"version": "0.33.0", "speculative_config": None},
    {"version": "0.33.0", "hash_lookahead_tokens": 1},
    {CACHING: False},
    {CACHING: False, CONNECTOR: "LMCacheConnectorV1"},
    {"seed_policy": "random"},
    {"seed_policy": "environment"},
    {"env.PYTHONHASHSEED": None},
    {ALGORITHM: "xxhash_cbor"},
    {ALGORITHM: "xxhash_cbor", "env.PYTHONHASHSEED": "0"},
    {ALGORITHM: setting(None, State.ABSENT)},
    {BLOCK: setting(None, State.UNKNOWN)},
    {"model_config.model": "org/other"},
    {"model_config.model": "llama"},
    {"model_config.dtype": "float16"},
    {"cache_config.cache_dtype": "fp8"},
    {"cache_config.kv_cache_layout": setting(None, State.ABSENT)},
)


class DrawnPool(NamedTuple):
    """A pool with its documents and replicas by their ids."""

    pool: Pool
    documents: Mapping[str, Document]
    replicas: Mapping[str, Replica]


def drawn_pools(number: int, seed: int = 7) -> Iterator[DrawnPool]:
    """Yield pools of one to five cohorts, the same ones for each call."""
    random = Random(seed)  # noqa: S311  the same pools each time
    for _ in range(number):
        yield _drawn(random)


def _drawn(random: Random) -> DrawnPool:
    documents: dict[str, Document] = {}
    replicas: dict[str, Replica] = {}
    members: list[Replica] = []
    marks = random.choice([(None,), (None,), ("a",), (OFF,), (None,), *[MARKS] * 5])
    for cohort in range(random.randint(1, 5) if random.random() < 0.95 else 14):
        settings = {**SAME_KV, **random.choice(SETTINGS), **random.choice(SETTINGS)}
        if random.random() < 0.8:
            settings["model_config.seed"] = cohort
        own = document(settings)
        documents[own.id] = own
        for place in range(random.randint(1, 4)):
            ranks = random.choice([0, 1, 1, 1, 1, 2, 3])
            each = replica(
                f"r{cohort}-{place}", document=own, engines=hashing(*(random.choice(marks) for _ in range(ranks)))
            )
            replicas[each.id] = each
            members.append(replace(each, fresh=random.random() < 0.9))
    unread = random.choice([0, 0, 0, 1, 2])
    members += [down(f"unread {number}") for number in range(unread)]
    ignore = random.choice([(), (), (), (), (BLOCK,), ("version",)])
    pool = compare_pool("chat", Role.BOTH, members, documents, ignore)
    return DrawnPool(pool, documents, replicas)


def verdict_lines(pool: Pool, documents: Mapping[str, Document], replicas: Mapping[str, Replica]) -> str:
    """Write the verdict, its basis, the unknown replicas, groups and cells, and on a second line the sentences."""
    verdict = sharing_verdict(pool, replicas, documents)
    cells = [
        f"{'-'.join(dict.fromkeys((cell.one, cell.other)))} {cell.share}"
        f"{' measured' if cell.is_measured else ''}{f' {cell.silent}' if cell.silent else ''}"
        for cell in verdict.cells
    ]
    groups = " ".join("+".join(each) for each in verdict.groups)
    known = "measured" if verdict.is_measured else "derived"
    flags = " certain" if verdict.is_certain else " doubted" if verdict.is_doubted else ""
    text = to_plain(sharing_text(verdict, replicas))
    word = "off" if verdict.is_off else "versions" if verdict.is_split and not verdict.is_certain else verdict.share
    return f"{word} {known}{flags} {verdict.not_known} [{groups}]: {', '.join(cells)}\n    {text}"


Mark = str | EngineFingerprint | None
Cohort = tuple[Mapping[str, Any], Sequence[Sequence[Mark]]]  # its settings, and per replica the marks of its engines
SILENT: list[Mark] = [None]


def pool_of_cohorts(
    *cohorts: Cohort, unread: int = 0, ignore: Sequence[str] = (), stale: Sequence[str] = ()
) -> DrawnPool:
    """A pool of these cohorts, the larger first; each has a setting of its own. `stale` are names of replicas."""
    documents = [
        document({"model_config.seed": number, **SAME_KV, **settings}) for number, (settings, _) in enumerate(cohorts)
    ]
    replicas = [
        replica(f"r{number}-{place}", document=each, engines=hashing(*marks))
        for number, (each, (_, own)) in enumerate(zip(documents, cohorts, strict=True))
        for place, marks in enumerate(own)
    ]
    members = [replace(each, fresh=each.name not in stale) for each in replicas]
    members += [down(f"unread {number}") for number in range(unread)]
    known = {each.id: each for each in documents}
    pool = compare_pool("chat", Role.BOTH, members, known, ignore)
    return DrawnPool(pool, known, {each.id: each for each in replicas})


def verdict_of(*cohorts: Cohort, **more: Any) -> SharingVerdict:
    """The verdict on a pool of these cohorts."""
    pool, documents, replicas = pool_of_cohorts(*cohorts, **more)
    return sharing_verdict(pool, replicas, documents)


def text_of(*cohorts: Cohort, **more: Any) -> str:
    """The sentences on a pool of these cohorts."""
    pool, documents, replicas = pool_of_cohorts(*cohorts, **more)
    return to_plain(sharing_text(sharing_verdict(pool, replicas, documents), replicas))
