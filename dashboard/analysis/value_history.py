"""The values that settings of replicas had lately: those that changed only, within a limit of memory."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Document, JsonText, Replica, Setting
from dashboard.fleet.history import Alternation

LONGEST_VALUE = 200  # characters of a value that is kept whole; the captures have at most 266
BEGINNING = 60  # characters of a longer one, with its digest
STEP_BYTES = 150  # of a step without its text: a tuple, its place in another one, and the head of a string
MOST_BYTES = 32 * 2**20  # of all replicas, which have equal parts of it
MOST_REPLICA_BYTES = 2**19  # 1,000 settings that changed three times within the window
MOST_OTHERS = 16  # values in a row that never returned; a setting with one of each poll keeps no more
LEAST_STEPS = 8  # of a setting, before other settings are left out: ID-13 needs five for three returns

ValueStep = tuple[datetime, JsonText]  # the poll at which a setting had another value first, and that value
ValueSteps = Mapping[str, tuple[ValueStep, ...]]  # by path


class ValueHistory:
    """The changed values of each replica. A setting that did not change within the window has none.

    A replica that changes more than its part of the memory allows loses the earliest values of each setting, then
    settings without a return.
    """

    def __init__(self) -> None:
        self._last: dict[str, Document] = {}
        self._steps: dict[str, ValueSteps] = {}

    def forget(self, replica: str) -> None:
        """Drop the values of a replica: another pod has its address."""
        self._last.pop(replica, None)
        self._steps.pop(replica, None)

    def add_poll(self, replicas: Iterable[Replica], documents: Mapping[str, Document], at: datetime) -> None:
        """Add the values that changed since the last poll; others than these replicas are forgotten."""
        known = {each.id: each.document for each in replicas}
        most = min(MOST_REPLICA_BYTES, MOST_BYTES // max(len(known), 1))
        changed: dict[tuple[str, str], frozenset[str]] = {}  # mostly many replicas change in the same way
        last = {key: now for key, name in known.items() if (now := documents.get(name or "", self._last.get(key)))}
        self._steps = {key: its for key, its in self._steps.items() if key in known}
        for key, now in last.items():
            before = self._last.get(key, now)
            if before.id != now.id:
                pair = before.id, now.id
                if pair not in changed:
                    changed[pair] = _changed(before.settings, now.settings)
                its = _with_changes(self._steps.get(key, {}), changed[pair], before, now, at)
                self._steps[key] = _bounded(its, most)
        self._last = last

    def alternations(self, since: datetime) -> Mapping[str, tuple[Alternation, ...]]:
        """Return the settings of each replica that returned to an earlier value after `since`; forget others."""
        self._steps = {key: kept for key, its in self._steps.items() if (kept := _after(its, since))}
        found = {key: tuple(_alternations(its)) for key, its in self._steps.items()}
        return {key: each for key, each in found.items() if each}


def _changed(before: Mapping[str, Setting], now: Mapping[str, Setting]) -> frozenset[str]:
    return frozenset(
        path
        for path in before.keys() & now.keys()
        if before[path] is not now[path]
        and before[path].value != now[path].value
        and is_comparable(before[path].state)
        and is_comparable(now[path].state)
    )


def _with_changes(
    steps: ValueSteps, changed: frozenset[str], before: Document, now: Document, at: datetime
) -> ValueSteps:
    """Return the steps with those of another document. A setting that was not reported in between goes on."""
    found = dict(steps)
    for path in sorted(changed | steps.keys()):
        setting = now.settings.get(path)
        if setting is None or not is_comparable(setting.state):
            continue
        own, value = found.get(path), _kept(setting.value)
        if own is None:  # the time of the first one does not count: the window begins with it
            own = ((at, _kept(before.settings[path].value)),)
        its = own if own[-1][1] == value else (*own, (at, value))
        found[path] = its if _returns(its) else its[-MOST_OTHERS:]
    return found


def _kept(text: JsonText) -> JsonText:
    """Return a value, a long one as its beginning with its digest."""
    if len(text) <= LONGEST_VALUE:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return json.dumps(f"{text[:BEGINNING]}… (SHA-256 {digest})", ensure_ascii=False)


def _bounded(steps: ValueSteps, most: int) -> ValueSteps:
    if sum(map(_bytes, steps.values())) <= most:
        return steps
    length = max(map(len, steps.values()))
    while length > LEAST_STEPS and sum(map(_bytes, steps.values())) > most:
        length = max(length // 2, LEAST_STEPS)
        steps = {path: its[-length:] for path, its in steps.items()}
    found: dict[str, tuple[ValueStep, ...]] = {}
    left = most
    # Those that returned first, then those that change least: values of each poll never return.
    for path, its in sorted(steps.items(), key=lambda each: (not _returns(each[1]), len(each[1]))):
        if (left := left - _bytes(its)) < 0:
            break
        found[path] = its
    return found


def _bytes(steps: Iterable[ValueStep]) -> int:
    return sum(STEP_BYTES + len(value) for _, value in steps)


def _after(steps: ValueSteps, since: datetime) -> ValueSteps:
    """Return the steps of a window with the one that it begins with, of settings that changed in it."""
    if all(its[0][0] > since for its in steps.values()):
        return steps
    late = {path: sum(at > since for at, _ in its) for path, its in steps.items()}
    return {path: its[-late[path] - 1 :] for path, its in steps.items() if late[path]}


def _alternations(steps: ValueSteps) -> Iterator[Alternation]:
    for path, its in sorted(steps.items()):
        if returns := _returns(its):
            yield Alternation(path, returns, tuple(dict.fromkeys(value for _, value in its)))


def _returns(steps: Sequence[ValueStep]) -> int:
    return len(steps) - len({value for _, value in steps})
