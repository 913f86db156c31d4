"""Findings as entries of a list: where and what, whom it concerns, why it matters, what to do, who takes it on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.fleet import Note, formatting
from dashboard.fleet.formatting import count, first_of, iso, natural
from dashboard.fleet.pieces import Kind, Piece, Style, Target, Text, cohort, joined, plain, replica, section
from dashboard.report.findings.cohorts import are_few, named_cohorts
from dashboard.report.findings.listed import Listed
from dashboard.report.findings.sentence_lines import with_code
from dashboard.report.findings.words import are_several, assumed, how_sure, named, places
from dashboard.report.pools.domain_words import known_how, rollout_words
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import CohortShare, Finding, Inspection
from dashboard.views.blocks import Entries, Entry, Line, Table, Tone
from dashboard.views.finding_data import findings_data
from dashboard.views.names import brief, names_of

MOST_POOLS = 2  # pools in the head of one entry; more are counted there, and named below
MOST_PLACES = 12  # pools or replicas that a line names
MOST_ALIKE = 3  # findings of one rule with other values that are told one by one
MOST_CHIPS = 4  # cohorts at the side of an entry


class FindingContext(NamedTuple):
    """What entries are told with: names by the replicas' ids, what was judged, and notes by the findings' ids.

    `before_notes` are those of the last review.
    """

    names: Mapping[str, str]
    inspection: Inspection
    notes: Mapping[str, Note] = {}
    before_notes: Mapping[str, Note] = {}

    def note_lines(self, finding: str) -> tuple[Line, ...]:
        """Return what was written on a finding."""
        return note_lines(self.notes.get(finding), self.before_notes.get(finding))


def finding_anchor(key: str) -> str:
    """Return where in a report a finding stands. `key` is its id, numbered where parts of it stand apart."""
    return f"finding-{key.replace('.', '-')}"


def brief_entries(groups: Iterable[Sequence[Listed]], names: Mapping[str, str], *, is_linked: bool = False) -> Entries:
    """List findings with their reason. `is_linked`: each as one line that leads to where the report tells it whole."""
    told = list(groups)
    return Entries(tuple(_brief(group, names, is_linked=is_linked) for group in told), _data(told, names))


def full_entries(
    groups: Iterable[Sequence[Listed]], told: FindingContext, listed: Iterable[Listed] | None = None
) -> Entries:
    """List findings with all that a reader needs to act; many of one rule with other values are one entry.

    `listed` are those that programs read, where that is more than these groups.
    """
    held = list(groups)
    whole = held if listed is None else [list(listed)]
    return Entries(tuple(_full(bundle, told) for bundle in bundled(held)), _data(whole, told.names))


def where_of(finding: Finding) -> str:
    """Write where one finding is: its pool, its pair, the pools of a rule on the whole fleet."""
    return named(map(brief, places(finding)), MOST_PLACES)


def bundled(groups: Iterable[Sequence[Listed]]) -> list[list[Sequence[Listed]]]:
    """Put groups together that have reason and remedy in common, where these are more than a reader would compare."""
    alike: dict[object, list[Sequence[Listed]]] = {}
    for group in groups:
        finding = group[0].finding
        alike.setdefault((finding.severity, finding.rule, finding.why, finding.remedy), []).append(group)
    bundles: list[list[Sequence[Listed]]] = []
    for held in alike.values():
        bundles += [held] if len(held) > MOST_ALIKE else [[group] for group in held]
    return bundles


def note_lines(note: Note | None, before: Note | None = None) -> tuple[Line, ...]:
    """Write who takes something on and what was agreed; then what stood there at the last review, if it says more."""
    lines = [_note(note, "Note")] if note else []
    lines += [_note(before, "At the last review")] if before and before != note else []
    return tuple(lines)


def rule_words(rule: str) -> str:
    """Write a rule as id and name; a rule that is no longer known as its id."""
    return f"{rule} {BY_ID[rule].name}" if rule in BY_ID else rule


def _brief(group: Sequence[Listed], names: Mapping[str, str], *, is_linked: bool) -> Entry:
    finding = group[0].finding
    key = group[0].key
    target = section(finding_anchor(key)) if is_linked else Target(Kind.FINDING, key)
    return Entry(
        tone=Tone(finding.severity),
        head=head_of(_findings(group), target),
        side=side_of(_findings(group), names),
        lines=() if is_linked else (with_code(finding.why), *map(plain, _tags(group[0]))),
    )


def _full(bundle: Sequence[Sequence[Listed]], told: FindingContext) -> Entry:
    group = bundle[0]
    finding = group[0].finding
    either = "One of these is enough:" if finding.remedy.any_of and len(finding.remedy.snippets) > 1 else ""
    written = [told.note_lines(each.finding.id) for held in bundle for each in held]
    lines = [
        (Piece(rule_words(finding.rule), Style.MUTED),),
        *who_lines(_findings(group), told.names),
        *([_labelled("Where", plain(_where(group)))] if len(pools_of(_findings(group))) > MOST_POOLS else []),
        *_others(bundle[1:]),
        _labelled(f"Why it matters{_here(group, 'why')}", with_code(finding.why)),
        *map(plain, _common_remarks(group, told.inspection)),
        _labelled(f"What to do{_here(group, 'remedy')}", with_code(finding.remedy.sentence)),
        *([plain(either)] if either else []),
    ]
    return Entry(
        tone=Tone(finding.severity),
        head=head_of(_findings(group)),
        side=side_of(_findings(group), told.names),
        lines=tuple(lines),
        snippets=tuple(snippet.text for snippet in finding.remedy.snippets),
        anchor=finding_anchor(group[0].key),
        notes=tuple(dict.fromkeys(line for held in written for line in held)),
    )


def _here(group: Sequence[Listed], field: str) -> str:
    """Name the pool of the first finding where another one of the group says something else."""
    told = {getattr(each.finding, field) for each in group}
    return f" in {where_of(group[0].finding)}" if len(told) > 1 else ""


def _common_remarks(group: Sequence[Listed], inspection: Inspection) -> list[str]:
    """Say what holds of every finding of the group."""
    first, *rest = (_remarks(each, inspection) for each in group)
    return [remark for remark in first if all(remark in each for each in rest)]


def _others(groups: Sequence[Sequence[Listed]]) -> list[Line]:
    """Write what the same rule found elsewhere with other values: the first ones, and where the others are."""
    if not groups:
        return []
    number = sum(map(len, groups))
    lines: list[Line] = [_labelled("Also", plain(f"{count(number, 'more finding')} of this rule, with other values."))]
    lines += [head_of(_findings(group)) for group in groups[:MOST_ALIKE]]
    if rest := groups[MOST_ALIKE:]:
        pools = list(dict.fromkeys(brief(pool) for group in rest for pool in pools_of(_findings(group))))
        lines.append(plain(f"And in {named(pools, MOST_PLACES)}."))
    return lines


def _labelled(label: str, line: Line) -> Line:
    return (Piece(f"{label}: ", Style.STRONG), *line)


def _note(note: Note, label: str) -> Line:
    who = f"{label}, {brief(note.owner)}: " if note.owner else f"{label}: "
    when = (Piece(f" ({iso(note.at)})", Style.MUTED),) if note.at else ()
    return (Piece(who, Style.STRONG), Piece(note.text or "takes it on."), *when)


def pools_of(alike: Iterable[Finding]) -> list[str]:
    """Return the pools of findings, each once."""
    return list(dict.fromkeys(pool for each in alike for pool in each.pools))


def head_of(alike: Sequence[Finding], target: Target | None = None) -> Line:
    """Return the pools of findings with one sentence, as a link to `target`, and the sentence."""
    first, pools = alike[0], pools_of(alike)
    where = formatting.joined([brief(pool) for pool in pools]) if len(pools) <= MOST_POOLS else f"{len(pools):,} pools"
    return (
        Piece(where or "fleet", Style.STRONG, target),
        Piece(" "),
        *first.text,
    )


def side_of(alike: Sequence[Finding], names: Mapping[str, str]) -> Text:
    """Return the cohorts of a finding, with their replicas if these are few; of several findings the number."""
    first = alike[0]
    if len(alike) > 1:
        return plain(count(len(_replicas(alike)), "replica"))
    several = are_several(first.cohorts)
    if not are_few(first):
        chips = [_chip(share, several=several) for share in first.cohorts[:MOST_CHIPS]]
        more = len(first.cohorts) - MOST_CHIPS
        return joined([*chips, *([plain(f"and {more:,} more cohorts")] if more > 0 else [])], last=", ")
    cohorts = []
    for each in named_cohorts(first, names):
        members = zip(each.replicas, each.names, strict=True)
        replicas = joined([(replica(brief(name), key),) for key, name in members], last=", ")
        cohorts.append((*_chip(each.share, several=several), Piece(" "), *replicas))
    return joined(cohorts, last=", ")


def who_lines(alike: Sequence[Finding], names: Mapping[str, str]) -> list[Line]:
    """Name the replicas in a line where the side of the entry counts them and names none; of many the first ones."""
    replicas = _replicas(alike)
    if len(alike) == 1 and are_few(alike[0]):
        return []
    told = first_of(map(brief, names_of(replicas, names)), MOST_PLACES)
    return [_labelled("Who", plain(f"{count(len(replicas), 'replica')}: {told}."))]


def _data(groups: Iterable[Sequence[Listed]], names: Mapping[str, str]) -> Table:
    return findings_data((each.finding for group in groups for each in group), names)


def _findings(group: Iterable[Listed]) -> list[Finding]:
    return [each.finding for each in group]


def _where(group: Sequence[Listed]) -> str:
    return f"{named(map(brief, sorted(pools_of(_findings(group)), key=natural)), MOST_PLACES)}."


def _replicas(alike: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(replica for each in alike for replica in each.replicas))


def _tags(listed: Listed) -> list[str]:
    """Say in a few words what else is to be known of a finding."""
    finding = listed.finding
    return [*filter(None, [assumed(finding)]), *(["Rollout in progress."] if finding.is_rollout else [])]


def _remarks(listed: Listed, inspection: Inspection) -> list[str]:
    """Say what else holds of a finding, a sentence each."""
    finding = listed.finding
    known = known_how(finding, inspection)
    said = [known] if known else []
    said += [_ended(finding)] if finding.expired else []
    if finding.is_rollout:
        said += [rollout_words(inspection.rollouts[pool]) for pool in finding.pools if pool in inspection.rollouts]
    said += how_sure(finding)
    if finding.unknown:
        silent = f"{finding.unknown:,} of {count(finding.total, 'replica')}"
        said.append(f"Unknown on {silent}: the settings that it names are not told there.")
    return said


def _ended(finding: Finding) -> str:
    by = finding.expired
    return f"Was suppressed by {by.owner} until {by.until}, which is over: {by.reason}" if by else ""


def _chip(share: CohortShare, *, several: bool) -> Text:
    where = [Piece(f"{brief(share.pool)} ")] if several and share.pool else []
    letter = cohort(share.letter, share.pool) if share.letter else Piece("not read")
    return (*where, letter, *([Piece(f" ×{share.number:,}")] if share.number > 1 else []))
