"""Baselines that are named on the command line, read beside those of the options."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.errors import OptionsError
from dashboard.options.baselines import load_baselines, with_given
from dashboard.terminal import wrong_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboard.options import Options


def with_baselines(options: Options, files: Iterable[Path]) -> tuple[Options, tuple[str, ...]]:
    """Return the options with these baselines, and what their files are called; end with 2 where one is wrong."""
    named = [("--baseline", glob.escape(str(file))) for file in files]
    try:
        given = load_baselines(named, Path.cwd())
        return options.with_agreed(with_given(options.agreed, given)), tuple(each.file for each in given)
    except OptionsError as error:
        wrong_options(error.mistakes)
