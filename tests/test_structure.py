"""The shape of the code: how deep the calls go that build a page's view, and one name for each class."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest

import dashboard
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import planned
from tests.serving import ROOT
from tests.views.test_every_view import VIEWS, fleets

PRODUCT = str(Path(dashboard.__file__).parent)
DEEPEST = 12  # calls inside the product
_INNER = re.compile(r"(\.<locals>)?\.<(genexpr|listcomp|setcomp|dictcomp|lambda)>.*")


@cache
def name_of(code: CodeType) -> str | None:
    """The name of a function of the product, that of its function for a comprehension; None for other code."""
    if not code.co_filename.startswith(PRODUCT):
        return None
    return f"{Path(code.co_filename).stem}.{_INNER.sub('', code.co_qualname)}"


@contextmanager
def deepest_chain(found: list[str]) -> Iterator[None]:
    """Put the deepest chain of calls inside the product into `found`."""
    chain: list[str] = []
    is_counted: list[bool] = []  # of each frame

    def trace(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            name = name_of(frame.f_code)
            is_counted.append(name is not None and name not in chain)
            if name is not None and is_counted[-1]:
                chain.append(name)
                if len(chain) > len(found):
                    found[:] = chain
        elif event == "return" and is_counted and is_counted.pop():
            chain.pop()

    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.few(4)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_built_without_deep_chains_of_calls(view: str, demo_fleet: Fleet) -> None:
    fleet, chain = planned(demo_fleet), list[str]()
    fleets()  # built before
    with deepest_chain(chain):
        VIEWS[view](fleet)

    assert len(chain) <= DEEPEST, " > ".join(chain)


def test_no_two_classes_share_a_name() -> None:
    """The simulated fleet and the provider included: who searches for a name finds one class."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in (path for folder in ("dashboard", "vllm_fleet_provider") for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(str(file.relative_to(ROOT)))

    assert len(places) > 300
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
