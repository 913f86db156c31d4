"""BL-01, and settings of a baseline that are probably misspelled."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import cast

from dashboard.compare.baseline import Deviation, agreed_paths, deviations, usual_values
from dashboard.compare.encoding import lookup_setting
from dashboard.compare.sharing import SHARING_PATHS
from dashboard.fleet import Baseline, Setting, Source
from dashboard.fleet.formatting import count, joined, middle_cut, one_line, shortlist
from dashboard.fleet.pieces import Text, shortlist_texts, value
from dashboard.rules import remedy
from dashboard.rules.apply_method import (
    IMAGE_FIRST,
    VERSION,
    ApplyMethod,
    apply_methods,
    assignment_for,
    manual_methods,
    open_sources,
    paths_after_image,
    removable_flags,
    removable_text,
)
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Severity, Way
from dashboard.rules.registry import rule
from dashboard.rules.sentences import capital, name_piece, setting_name, setting_piece, value_piece, write
from dashboard.rules.subject import PoolSubject, setting_value

MAX_NAMED = 3  # settings in a sentence before the rest is counted
COMMENT_LENGTH = 80  # characters of a comment in a sentence
NAME_LENGTH = 60  # characters of a baseline's name or file
MAX_LOOKUPS = 10  # paths of a baseline that are searched for: each is compared with all reported ones
SIMILARITY = 0.85  # of difflib; one extra letter in a short name is above it
PATH_LENGTH = 80  # characters of a path or file in a note
_REMOVED = frozenset({ApplyMethod.NO_FLAG, ApplyMethod.NO_VARIABLE})
_PASTED = frozenset({ApplyMethod.FLAG, ApplyMethod.VARIABLE, ApplyMethod.NO_VARIABLE, ApplyMethod.IMAGE})


@rule("BL-01", least=1, needs_baseline=True)
def deviates_from_baseline(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas deviate from the pool's baseline.

    A baseline is a file with expected values, tolerated sets and ranges, and ignored settings. Every replica is
    compared with it, so it also reports what is wrong on all of them. What a replica does not report is unknown.
    Settings that decide block hashes are a separate finding; other deviations are a warning.
    """
    baseline = cast("Baseline", pool.baseline)
    usual = usual_values(baseline, (pool.settings(each) for each in pool.members))
    found = pool.of_documents(lambda settings: deviations(baseline, settings, usual))
    own = {each: [one for one in found[each] if not pool.is_ignored(one.path)] for each in sorted(found)}
    alike: dict[tuple[bool, tuple[Deviation, ...]], list[str]] = defaultdict(list)
    for replica, deviating in own.items():
        for is_hashing in (True, False):
            if part := tuple(each for each in deviating if (each.path in SHARING_PATHS) is is_hashing):
                alike[is_hashing, part].append(replica)
    for (is_hashing, part), replicas in alike.items():
        typical = min(replicas, key=lambda each: any(one.path == VERSION for one in own[each]))
        methods = _methods(pool, baseline, typical, own[typical])
        yield _draft(baseline, part, tuple(replicas), methods, is_hashing=is_hashing)


def _methods(
    pool: PoolSubject, baseline: Baseline, replica: str, deviating: Sequence[Deviation]
) -> Mapping[str, ApplyMethod]:
    """Return how each setting is changed on one replica, as the fix plan does it."""
    member = next(each for each in pool.members if each.id == replica)
    wanted = {each.path: each.wanted for each in deviating}
    after = {path: Setting(*each, Source.SERVER_INFO) for path, each in wanted.items()}
    usual = {each.path: each.usual for each in deviating if each.usual is not None}
    left = manual_methods(baseline, usual, pool.values, wanted)
    return apply_methods(wanted, derives_sizes=are_derived_sizes({**pool.settings(member), **after}), left=left)


def _draft(
    baseline: Baseline,
    deviating: Sequence[Deviation],
    replicas: tuple[str, ...],
    methods: Mapping[str, ApplyMethod],
    *,
    is_hashing: bool,
) -> Draft:
    """Return one finding: of settings that all decide block hashes, or of others only."""
    evidence = []
    for each in deviating:
        reference = each.agreed if each.tolerance is None else setting_value(each.allowed_text)
        evidence += [
            Evidence(each.path, *each.own, replicas),
            Evidence(each.path, *reference, holder=baseline.file, is_reference=True, comment=each.comment),
        ]
    later = paths_after_image(methods)
    pasted = [each for each in deviating if each.path not in later and methods[each.path] in _PASTED]
    found = [assignment_for(each.path, each.wanted) for each in pasted]
    steps = " ".join(_steps(baseline, deviating, methods))
    return Draft(
        replicas,
        _text(baseline, deviating),
        tuple(evidence),
        remedy.of_snippets([each.snippet for each in found if each], steps)._replace(
            ways=(Way(tuple((each.path, each.wanted) for each in pasted)),) if pasted else ()
        ),
        severity=None if is_hashing else Severity.WARNING,
        why=None if is_hashing else deviates_from_baseline.page.why[ImpactContext.MODEL],
    )


def _text(baseline: Baseline, deviating: Sequence[Deviation]) -> Text:
    """Return `2 settings deviate from baseline chat: block_size is 32, expected 16 ("the router's"); ...`."""
    texts = []
    for each in deviating:
        comment = f" (“{middle_cut(one_line(each.comment), COMMENT_LENGTH)}”)" if each.comment else ""
        own = write(setting_piece(each.path), " is ", value_piece(each.own, each.path))
        kind = "tolerated" if each.tolerance else "expected"
        texts.append(write(own, f", {kind} ", value(each.allowed_text), comment))
    verb = "deviates" if len(texts) == 1 else "deviate"
    head = f"{count(len(texts), 'setting')} {verb} from the baseline "
    values = shortlist_texts(texts, MAX_NAMED, between="; ", last="; ")
    return write(head, name_piece(baseline.name, NAME_LENGTH), ": ", values, ".")


def _steps(baseline: Baseline, deviating: Sequence[Deviation], methods: Mapping[str, ApplyMethod]) -> Iterator[str]:
    """Yield how to match the baseline or to change it, then what is not pasted."""
    paths = {kind: [each.path for each in deviating if methods[each.path] is kind] for kind in ApplyMethod}
    file = middle_cut(one_line(baseline.file), NAME_LENGTH)
    unset = [remedy.lever(each.path) for each in deviating if methods[each.path] in _REMOVED]
    is_set = any(paths[kind] for kind in paths.keys() - _REMOVED - {ApplyMethod.MISFIT, ApplyMethod.OPEN})
    steps = [
        *(["set the expected values"] if is_set else []),
        *([f"remove {shortlist(unset, MAX_NAMED)}"] if unset else []),
    ]
    if steps:
        yield f"{capital(' and '.join(steps))} on these replicas and restart them. Or change the values in {file}."
    elif paths[ApplyMethod.MISFIT]:
        yield f"Correct the expected value in {file}."
    later = paths_after_image(methods)
    if any(each.path in later for each in deviating):
        yield IMAGE_FIRST
    else:
        if flags := removable_flags(paths[ApplyMethod.FOLLOWS]):
            yield removable_text(flags)
        for each in deviating:
            if methods[each.path] is ApplyMethod.CHOICE:
                yield f"Choose a value for {setting_name(each.path)}: {each.allowed_text}."
    if misfits := [setting_name(path) for path in paths[ApplyMethod.MISFIT]]:
        yield f"{shortlist(misfits, MAX_NAMED)}: the baseline has text instead of a number or switch."
    if names := [setting_name(path) for path in paths[ApplyMethod.OPEN]]:
        sources = dict.fromkeys(each for path in paths[ApplyMethod.OPEN] for each in open_sources(baseline, path))
        verb, them = ("follows", "it") if len(names) == 1 else ("follow", "them")
        yield (
            f"{shortlist(names, MAX_NAMED)} {verb} from {joined([setting_name(each) for each in sources])}, which may "
            f"have several values: remove {them} from {file}, or list {them} under `ignored`."
        )


def unknown_paths(baseline: Baseline, subjects: Iterable[PoolSubject]) -> Iterator[str]:
    """Yield a note per path of a baseline that is probably a misspelling of a reported one in these pools."""
    documents = {member.document: each.settings(member) for each in subjects for member in each.members}
    settings = list(documents.values())
    unknown = [path for path in agreed_paths(baseline) if not remedy.is_known(path) and _is_unreported(path, settings)]
    known = sorted({path for each in settings for path in each}) if unknown else []
    for path in unknown[:MAX_LOOKUPS]:
        if meant := _similar(path, known):
            own, other, file = map(shown_part, (path, meant, baseline.file))
            yield f"{own} in {file} is not reported by any replica; did you mean {other}?"


def shown_part(text: str) -> str:
    """Return a path or file as a note shows it."""
    return middle_cut(one_line(text), PATH_LENGTH)


def _is_unreported(path: str, documents: Iterable[Mapping[str, Setting]]) -> bool:
    """Return whether no document reports a path, nor anything below it."""
    inner = f"{path}."
    return all(
        lookup_setting(settings, path) is None and not any(each.startswith(inner) for each in settings)
        for settings in documents
    )


def _similar(path: str, known: list[str]) -> str:
    """Return the only path with the same last segment, else the most similar one; empty for none."""
    ends = [each for each in known if each.rpartition(".")[2] == path.rpartition(".")[2]]
    return next(iter(ends if len(ends) == 1 else get_close_matches(path, known, 1, SIMILARITY)), "")
