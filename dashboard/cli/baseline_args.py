"""Baselines that are named on the command line, read beside those that the options or a saved fleet have."""

import glob
from collections.abc import Iterable
from pathlib import Path

from dashboard.cli.terminal import wrong_options
from dashboard.config.baselines import load_baselines, with_given
from dashboard.errors import OptionsError
from dashboard.fleet import Baseline


def given_baselines(files: Iterable[Path]) -> tuple[Baseline, ...]:
    """Read the baselines of these files; end with 2 where one is wrong."""
    try:
        return load_baselines([("--baseline", glob.escape(str(file))) for file in files], Path.cwd())
    except OptionsError as error:
        wrong_options(error.mistakes)


def beside(own: Iterable[Baseline], given: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Return baselines and those given beside them; end with 2 where two say different things of one pool."""
    try:
        return with_given(own, given)
    except OptionsError as error:
        wrong_options(error.mistakes)
