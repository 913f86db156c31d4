"""What one replica tells, held against what its pool should look like."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from dashboard.compare.agreement import agreed_told, is_agreed, is_tolerated, nearest, say_told, tolerance_words
from dashboard.compare.encoding import tell, votes
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Baseline, Setting, SettingValue, Source, State, Tolerance

NOTHING_IN_IT = frozenset({"null", "{}"})  # a section of which this is expected has no settings


class Deviation(NamedTuple):
    """A setting whose value is none of those agreed on.

    `agreed` is the one that is nearest, `tolerance` all of them where there are several; `comment` is what people wrote
    beside the path. `usual` is what most of the pool has, of a range that is tolerated.
    """

    path: str
    own: SettingValue
    agreed: SettingValue
    tolerance: Tolerance | None = None
    comment: str = ""
    usual: SettingValue | None = None

    @property
    def wanted(self) -> SettingValue:
        """Return the value to set: what most of the pool has within the range, else the nearest one."""
        return self.usual or self.agreed

    @property
    def agreed_words(self) -> str:
        """Return what was agreed, for a sentence: `16`, `128 or 256`, `0.9 to 0.95`, `not set`."""
        return tolerance_words(self.tolerance) if self.tolerance else say_told(self.agreed)


class Deviations(NamedTuple):
    """How one replica stands to a baseline: each path of it is in one of these.

    `deviating` begins with what decides the block hashes, then the baseline's order. `not_told` is what the replica
    does not say, so that nobody knows; `redacted` is a secret, which nobody compares; `ignored` does not matter.
    """

    deviating: tuple[Deviation, ...] = ()
    same: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    not_told: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def agreed_paths(baseline: Baseline) -> tuple[str, ...]:
    """Return the paths that are compared, in the baseline's order: expected, tolerated, without the ignored ones."""
    return tuple(path for path in (*baseline.expected, *baseline.tolerated) if not is_ignored(baseline, path))


def is_ignored(baseline: Baseline, path: str) -> bool:
    """Tell whether a path does not matter to this baseline."""
    return any(fnmatchcase(path, glob) for glob in baseline.ignored)


def agreed_settings(baseline: Baseline) -> Mapping[str, Setting]:
    """Return the expected values as if a replica told them, without what is ignored or tolerated in several ways."""
    told = ((path, agreed_told(text)) for path, text in baseline.expected.items() if not is_ignored(baseline, path))
    return {path: Setting(*value, Source.SERVER_INFO) for path, value in told}


def agreed_words(baseline: Baseline, path: str) -> str:
    """Return in words what was agreed on a path that has several values to choose from; nothing on another."""
    is_compared = path in baseline.tolerated and not is_ignored(baseline, path)
    return tolerance_words(baseline.tolerated[path]) if is_compared else ""


def fits(baseline: Baseline, path: str, told: SettingValue) -> bool | None:
    """Tell whether a value of a path is one of those agreed on; None where nothing was, or where it does not matter."""
    is_compared = (path in baseline.expected or path in baseline.tolerated) and not is_ignored(baseline, path)
    return _fits(baseline, path, told) if is_compared else None


def usual_values(baseline: Baseline, told: Iterable[Mapping[str, Setting]]) -> Mapping[str, SettingValue]:
    """Return, by the path of a tolerated range, the value that more than half of those within it have.

    `told` is what each replica of the pool tells.
    """
    ranges = [path for path, tolerance in baseline.tolerated.items() if not tolerance.any_of]
    within: dict[str, Counter[SettingValue]] = {path: Counter() for path in ranges}
    for settings in told if ranges else ():
        for path in ranges:
            setting = tell(settings, path)
            if setting is not None and votes(setting.state) and _fits(baseline, path, own := _told(setting)):
                within[path][own] += 1
    most = {path: found.most_common(1)[0] for path, found in within.items() if found}
    return {path: own for path, (own, number) in most.items() if 2 * number > within[path].total()}


def deviations(
    baseline: Baseline, settings: Mapping[str, Setting], usual: Mapping[str, SettingValue] | None = None
) -> Deviations:
    """Hold what one replica tells against a baseline. `usual` is of `usual_values`.

    Where a section is expected to be null, so are the settings below it.
    """
    found: dict[str, list[str]] = {name: [] for name in Deviations._fields}
    deviating: list[Deviation] = []
    for path in (*baseline.expected, *baseline.tolerated):
        if is_ignored(baseline, path):
            found["ignored"].append(path)
            continue
        below = list(_below(baseline, settings, path))
        deviating += below
        setting = tell(settings, path)
        if setting is None or not votes(setting.state):
            is_secret = setting is not None and setting.state is State.REDACTED
            if not below:
                found["redacted" if is_secret else "not_told"].append(path)
        elif _fits(baseline, path, told := _told(setting)):
            found["same" if path in baseline.expected else "tolerated"].append(path)
        else:
            deviating.append(_deviation(baseline, path, told)._replace(usual=(usual or {}).get(path)))
    ordered = sorted(deviating, key=lambda each: each.path not in PREFIX_PATHS)
    return Deviations(tuple(ordered), *(tuple(found[name]) for name in Deviations._fields[1:]))


def _told(setting: Setting) -> SettingValue:
    return SettingValue(setting.value, setting.state)


def _fits(baseline: Baseline, path: str, told: SettingValue) -> bool:
    if path in baseline.expected:
        return is_agreed(path, baseline.expected[path], told.value)
    return is_tolerated(path, baseline.tolerated[path], told.value)


def _below(baseline: Baseline, settings: Mapping[str, Setting], path: str) -> Iterator[Deviation]:
    """Yield what a replica tells below a section that should have nothing in it."""
    if baseline.expected.get(path) not in NOTHING_IN_IT or path in settings:
        return
    for inner, setting in settings.items():
        is_own = inner.startswith(f"{path}.") and inner not in baseline.expected and inner not in baseline.tolerated
        if is_own and setting.state is State.REPORTED and not is_ignored(baseline, inner):
            yield Deviation(
                inner, _told(setting), SettingValue("null", State.NULL), None, baseline.comments.get(path, "")
            )


def _deviation(baseline: Baseline, path: str, own: SettingValue) -> Deviation:
    comment = baseline.comments.get(path, "")
    if path in baseline.expected:
        return Deviation(path, own, agreed_told(baseline.expected[path], own.value), None, comment)
    tolerance = baseline.tolerated[path]
    return Deviation(path, own, nearest(tolerance, own.value), tolerance, comment)
