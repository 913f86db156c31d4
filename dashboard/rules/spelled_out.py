"""Connectors' options as settings that a pool can be compared by: each told by every document, null where left out."""

import json
from collections.abc import Collection
from dataclasses import replace

from dashboard.fleet import Document, Setting, State
from dashboard.rules.connectors import EXTRA, option, tells_options
from dashboard.rules.subject import PoolSubject


def spelled_out(pool: PoolSubject, names: Collection[str]) -> PoolSubject:
    """Return a pool whose documents tell every one of these options, null where its connectors' config leaves it out.

    An option of a connector inside a MultiConnector stands where it would stand without it.
    """
    held = {str(member.document) for member in pool.all_replicas} & pool.documents.keys()
    return replace(pool, documents={key: _spelled_out(pool.documents[key], names) for key in held})


def _spelled_out(document: Document, names: Collection[str]) -> Document:
    if not tells_options(document.settings):
        return document
    source = next(iter(document.settings.values())).source
    told = {}
    for name in names:
        given = option(document.settings, name)
        state = State.NULL if given is None else State.REPORTED
        text = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        told[f"{EXTRA}.{name}"] = Setting(text, state, source)
    return replace(document, settings={**document.settings, **told})
