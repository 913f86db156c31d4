"""Settings of a baseline that no replica tells and no version is known to have: probably another was meant."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from dashboard.compare.baseline import agreed_paths
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Baseline, Setting
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.rules.remedy import is_known
from dashboard.rules.subject import PoolSubject

MOST = 10  # paths of a baseline that are looked up: each is held against all that are told
ALIKE = 0.85  # of what difflib counts; one letter too many in a short name is above it
LONGEST = 80  # characters of a path or a file in a sentence


def unknown_paths(baseline: Baseline, subjects: Iterable[PoolSubject]) -> Iterator[str]:
    """Yield a sentence per path for which a told one was probably meant.

    `subjects` are the pools that it is for. What nobody tells may still be a setting: without a likely one that was
    meant, nothing is said.
    """
    documents = {member.document: each.settings(member) for each in subjects for member in each.members}
    held = list(documents.values())
    unheard = [path for path in agreed_paths(baseline) if not is_known(path) and _is_untold(path, held)]
    told = sorted({path for settings in held for path in settings}) if unheard else []
    for path in unheard[:MOST]:
        if meant := _meant(path, told):
            shown, other, file = map(shown_part, (path, meant, baseline.file))
            yield f"{shown} in {file}: no replica tells it; did you mean {other}?"


def shown_part(text: str) -> str:
    """Return a path or a file as a sentence has it."""
    return middle_cut(one_line(text), LONGEST)


def _is_untold(path: str, held: Iterable[Mapping[str, Setting]]) -> bool:
    """Tell whether nobody tells a path, nor anything below it."""
    inner = f"{path}."
    return all(
        lookup_setting(settings, path) is None and not any(each.startswith(inner) for each in settings)
        for settings in held
    )


def _meant(path: str, told: list[str]) -> str:
    """Return the path that was probably meant: the one that ends alike, else the most similar; empty for none."""
    ends = [each for each in told if each.rpartition(".")[2] == path.rpartition(".")[2]]
    return next(iter(ends if len(ends) == 1 else get_close_matches(path, told, 1, ALIKE)), "")
