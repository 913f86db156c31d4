"""The way of one value: how many types hold a polled `block_size` between the parsed answer and the cell of Compare.

A type is on the way if one of its instances holds the value itself, or one of its members does; containers, such as a
mapping of settings, are no types of their own. Every function that returns an instance is traced.
"""

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

from dashboard.render.html import HtmlWriter
from dashboard.views.compare import settings_section
from dashboard.views.pool_comparison import ONLY_DIFFERENCES, compare_chosen, members_of
from tests.captured import AT, INFERENCE_CONFIG, capture, snapshot
from tests.polled_fleets import build_fleet
from tests.provider_answers import provider_answer, with_provider

VALUE = 7040
MOST = 12
# They read the value as well, and lead to no cell of the table of settings.
BESIDE = (
    "dashboard.capacity.",
    "dashboard.analysis.reuse",  # engines with their capacity
    "dashboard.rules.",
    "dashboard.compare.hashes",
    "dashboard.compare.sharing",
    "dashboard.analysis.sharing_text",
    "dashboard.views.finding",
)


def is_product(value: object) -> bool:
    """Return whether a value is an instance of the product; a mapping is a container."""
    return type(value).__module__.startswith("dashboard.") and not isinstance(value, Mapping)


def members(value: Any) -> list[Any]:
    """Return the members of an instance, not those of its class."""
    if dataclasses.is_dataclass(value):
        return [getattr(value, each.name, None) for each in dataclasses.fields(value)]
    return list(value) if isinstance(value, tuple) else list(getattr(value, "__dict__", {}).values())


def holds(value: object, depth: int = 1) -> bool:
    """Return whether an instance has the value itself, or one of its members does."""
    if isinstance(value, int):
        return value == VALUE
    if isinstance(value, str):
        return str(VALUE) in value
    if isinstance(value, Mapping):
        return any(holds(each, depth) for each in value.values())
    if is_product(value):
        return depth >= 0 and any(holds(each, depth - 1) for each in members(value))
    return isinstance(value, tuple | list | frozenset) and any(holds(each, depth) for each in value)


@contextmanager
def holders(found: list[str]) -> Iterator[None]:
    """Put the types of the product whose new instances hold the value into `found`."""
    beside = 0

    def trace(frame: FrameType, event: str, returned: object) -> None:
        nonlocal beside
        is_beside = str(frame.f_globals.get("__name__", "")).startswith(BESIDE)
        beside += is_beside * ((event == "call") - (event == "return"))
        if event != "return" or beside or is_beside:
            return
        for made in (returned, frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else None):
            name = type(made).__name__
            if is_product(made) and name not in found and holds(made):
                found.append(name)

    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_few_types_hold_a_polled_value_on_its_way_to_the_cell() -> None:
    server = capture("llama")
    odd = provider_answer(server)
    odd["fleet"]["settings"]["cache_config.block_size"] = VALUE
    usual = with_provider(server)
    found: list[str] = []
    with holders(found):
        snapshots = [
            snapshot(answers, [INFERENCE_CONFIG, "/v1/models"], target=f"http://10.0.0.{number}:8000")
            for number, answers in enumerate(
                [usual, usual, usual, {**usual, INFERENCE_CONFIG: json.dumps(odd).encode()}]
            )
        ]
        fleet = build_fleet("prod", snapshots, polled_at=AT, interval=timedelta(seconds=15))
        pool = fleet.pools[0]
        settings, _ = compare_chosen(fleet, pool, ONLY_DIFFERENCES)
        section = settings_section(settings, members_of(fleet, pool), ONLY_DIFFERENCES)
        page = HtmlWriter(lambda _: "", is_page=True).sections([section])

    assert str(VALUE) in page
    assert len(found) <= MOST, f"{len(found)} types hold it: {', '.join(found)}"
    assert {"Setting", "Reply", "Document", "Difference", "MatrixCell"} <= set(found)
