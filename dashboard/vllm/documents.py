"""Where the sources of one replica meet: one document, and what they contradict each other in."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dashboard.fleet import Contradiction, Document, Setting, Source, State
from dashboard.vllm.schemas.recent import Recent
from dashboard.vllm.versions import is_unsupported

MODEL = "model_config.model"
ID_LENGTH = 12  # hex digits of the SHA-256 that name a document
TRUST = {source: place for place, source in enumerate(Source)}
CONFIG_API_SHAPE = frozenset({Source.PROVIDER, Source.CONFIG_API})
COMPARABLE = frozenset({State.REPORTED, State.NULL})


class Merged(NamedTuple):
    """A document and the contradictions between the sources that it is made of."""

    document: Document
    contradictions: tuple[Contradiction, ...]


def merge(replies: Sequence[Mapping[str, Setting]]) -> Merged:
    """Merge the settings of several replies, each path from the most trusted source.

    Equal inputs give the same object: a thousand replicas that say the same are merged once.
    """
    told = tuple(settings for settings in replies if settings)
    key = tuple(map(id, told))
    return _known.get(key, lambda: (told, _merge(sorted(told, key=_trust))))[1]


# By the identity of the mappings, which replicas share; the value keeps them alive, so that no id is taken again.
_known: Recent[tuple[tuple[Mapping[str, Setting], ...], Merged]] = Recent()


def document_id(settings: Mapping[str, Setting]) -> str:
    """Return the first 12 hex digits of the SHA-256 of the settings' canonical JSON; sources do not count."""
    content = {path: [told.value, told.state] for path, told in settings.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def version_of(settings: Mapping[str, Setting]) -> str | None:
    """Return the vLLM version that the settings tell."""
    told = settings.get("version")
    return str(json.loads(told.value)) if told else None


def sections(settings: Mapping[str, Setting]) -> frozenset[str]:
    """Return every path that has leaves below it."""
    found: set[str] = set()
    for path in settings:
        for above in _above(path):
            if above in found:
                break
            found.add(above)
    return frozenset(found)


def _merge(ordered: Sequence[Mapping[str, Setting]]) -> Merged:
    merged: dict[str, Setting] = {}
    contradictions: list[Contradiction] = []
    for settings in ordered:
        taken = sections(merged)
        for path, told in settings.items():
            if (kept := _kept(path, merged, taken)) is None:
                merged[path] = told
            elif _contradict(path, kept, told):
                contradictions.append(Contradiction(path, kept, told))
            elif _improves(kept, told):
                merged[path] = told
    version = version_of(merged)
    settings = {
        path: told
        for path, told in sorted(merged.items())
        # The configuration API's shape has fields that a version lacks; it must put something there.
        if told.source not in CONFIG_API_SHAPE or not is_unsupported(version, path)
    }
    return Merged(Document(document_id(settings), version, MappingProxyType(settings)), tuple(contradictions))


def _kept(path: str, merged: Mapping[str, Setting], taken: frozenset[str]) -> Setting | None:
    """Return what a more trusted source says of a path: a section that is null says it of its leaves."""
    if path in merged:
        return merged[path]
    if path in taken:
        return Setting("{}", State.UNKNOWN, Source.SERVER_INFO)
    return next((merged[above] for above in _above(path) if above in merged), None)


def _contradict(path: str, kept: Setting, told: Setting) -> bool:
    """Tell whether two values exclude each other. A model loaded from a URL lies in a folder of another name."""
    is_copy = path == MODEL and "://" in told.value and "/" not in kept.value
    return kept.state in COMPARABLE and told.state in COMPARABLE and kept.value != told.value and not is_copy


def _improves(kept: Setting, told: Setting) -> bool:
    """Tell whether a value meets a null that the engine fills in where its teller does not look."""
    return kept.state is State.UNKNOWN and kept.value == "null" and told.state is State.REPORTED


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition(".")[0]:
        yield path


def _trust(settings: Mapping[str, Setting]) -> int:
    return TRUST[next(iter(settings.values())).source]
