"""Whole outputs of the simulated fleet and of captures: every change of a word, a value or an order is seen here.

`make golden` writes them anew; the difference is then read in the commit.
"""

from __future__ import annotations

import pytest

from tests.golden.outputs import FLEETS, FOLDER, outputs


@pytest.mark.parametrize("fleet", FLEETS)
def test_every_output_is_the_committed_one(fleet: str) -> None:
    written = dict(outputs(fleet))
    committed = {file.name: file.read_text() for file in (FOLDER / fleet).iterdir()}

    assert sorted(written) == sorted(committed)
    for name, text in written.items():
        assert text.splitlines() == committed[name].splitlines(), f"{name} changed; `make golden` if that is wanted"
