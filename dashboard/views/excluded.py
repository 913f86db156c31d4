"""What is left out: unread replicas and what would reveal the rest, suppressed findings, ignored settings.

Accepting a finding: the entry for fleet.yaml that suppresses it until a date, and what else it would cover.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter

from dashboard.analysis.assembly import Fleet
from dashboard.compare.cohorts import NAMING
from dashboard.fleet import Basis, FailureKind, Replica, ReplicaState, Source
from dashboard.fleet.formatting import FAILURE_WORDS, FEW, MANY, MOST, SOME, count, end_cut, iso, one_line, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, join_texts, page, plain, to_plain
from dashboard.rules.findings import Finding, OutcomeKind, Suppression
from dashboard.rules.policy import Policy, suppress
from dashboard.views import pages
from dashboard.views.blocks import Block, Cell, Entries, Entry, Paragraph, Table, Tone
from dashboard.views.finding_list import FindingList, side_of
from dashboard.views.finding_text import are_few, finding_fields, findings_data, remarks, where_of
from dashboard.views.names import brief, names_of, replica_text
from dashboard.views.since import SINCE, since_cell
from dashboard.views.table import Field, to_data, to_table

MOST_GROUPS = 24  # of replicas that are unreadable for the same reason
MOST_ROWS = 100  # of a table
DAYS = 90  # of an acceptance, unless another date is chosen
PARTIAL_REASON = "Answers, but its cache configuration could not be read."


def state_tone(state: ReplicaState) -> Tone:
    """Return the tone of a state. A state is no severity: findings have one."""
    return Tone.PLAIN if state is ReplicaState.UP else Tone.UNKNOWN


def reason(replica: Replica) -> str:
    return replica.failure.detail if replica.failure else PARTIAL_REASON


UNREAD = (  # for programs
    Field("name", key="replica"),
    Field("id", key="address"),
    Field("pool"),
    Field("state"),
    Field("", key="failure", value=lambda replica: replica.failure.kind.value if replica.failure else ""),
    Field("", key="reason", value=reason),
    Field("observed_at"),
)


def unread_entries(replicas: Iterable[Replica], most: int = MOST_GROUPS) -> tuple[Entries, ...]:
    """Return the replicas that are down or partial, grouped by reason, at most `most` groups; empty without any.

    Reasons that differ in the replica's address only are one.
    """
    groups: dict[tuple[ReplicaState, str, str], list[Replica]] = defaultdict(list)
    for replica in replicas:
        kind = FAILURE_WORDS[replica.failure.kind] if replica.failure else ""
        why = reason(replica).replace(replica.id.partition("://")[2], "the replica")
        why = f"{why[:1].upper()}{why[1:]}"
        groups[replica.state, kind, why].append(replica)
    items = [_unread(*key, members) for key, members in list(groups.items())[:most]]
    if rest := sum(map(len, list(groups.values())[most:])):
        items.append(Entry(Tone.UNKNOWN, (Piece(count(rest, "more replica"), link=page(pages.REPLICAS)),)))
    every = [replica for own in groups.values() for replica in own]
    return (Entries(tuple(items), partial(to_data, every, UNREAD, "not-read", "Incomplete data")),) if items else ()


def suppressed_blocks(fleet: Fleet, known: FindingList) -> tuple[Block, ...]:
    """Return the suppressed findings, the first to expire first, expired suppressions, and entries without effect."""
    expired = _expired(fleet.inspection.findings, known)
    warnings = (*fleet.inspection.notes, *fleet.unrecorded)
    notes: tuple[Block, ...] = (*expired, *(Paragraph(plain(note), Tone.WARNING) for note in warnings))
    if not known.suppressed:
        return (Paragraph(plain("No suppressed findings.")), *notes)
    found = sorted(known.suppressed, key=attrgetter("finding.suppression.until"))
    fields = [
        Field(
            "",
            "Finding",
            lambda row: f"{row.finding.severity}: {row.finding.rule} {row.finding.sentence}",
            tone=lambda row: Tone(row.finding.severity),
            link=lambda row: Link(Kind.FINDING, row.key),
        ),
        Field("", "Where", lambda row: _where(row.finding, known.names)),
        Field("", "Suppressed by", lambda row: _by(row.finding.suppression)),
        Field("", "Until", lambda row: f"{row.finding.suppression.until}"),
        Field("", "Reason", lambda row: one_line(row.finding.suppression.reason)),
        Field("", "File", lambda row: row.finding.suppression.file or fleet.policy.file),
    ]
    if any(each.sighting for each in found):
        fields.append(Field("", SINCE.title, lambda row: since_cell(row.sighting)))
    rest = "{:,} more not listed.".format
    table = to_table(found, fields, "suppressed", "Suppressed findings", most=MOST_ROWS, rest=rest)
    columns = (
        *finding_fields(known.names, known.sightings),
        Field("suppression.owner", key="owner"),
        Field("suppression.author", key="author"),
        Field("suppression.until", value=lambda finding: f"{finding.suppression.until}", key="until"),
        Field("suppression.reason", key="reason"),
    )
    findings = [each.finding for each in found]
    data = to_data(findings, columns, "suppressed", "Suppressed findings")
    return (replace(table, for_programs=lambda: data), *notes)


def _by(entry: Suppression) -> Cell:
    return Cell(brief(entry.owner), note=f"saved by {brief(entry.author)}" if entry.author else "")


def ignored_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    if not fleet.ignored:
        return ()
    pools = sum(bool(each.ignored) for each in fleet.pools)
    globs = join_texts(((Piece(glob, Style.CODE),) for glob in fleet.ignored), last=", ")
    differ = f"these differ in {count(pools, 'pool')}" if pools else "these differ in no pool"
    return (Paragraph((Piece("Ignored by fleet.yaml: "), *globs, Piece(f" ({differ})."))),)


def ignore_preview(fleet: Fleet, glob: str) -> str:
    """Return what an entry under `ignore` would hide: `Hides 3 settings, 2 with differences: a, b and c.`."""
    reported = {path for document in fleet.documents.values() for path in document.settings}
    differing = {each.path for pool in fleet.pools for each in pool.differences}
    hidden = sorted(
        (path for path in reported if fnmatchcase(path, glob)), key=lambda path: (path not in differing, path)
    )
    if not hidden:
        return "Hides nothing: no reported setting matches."
    differ = sum(path in differing for path in hidden)
    return f"Hides {count(len(hidden), 'setting')}, {differ:,} with differences: {shortlist(hidden, MANY)}."


def ignored_tables(fleet: Fleet) -> tuple[Table, ...]:
    """Return the differences that fleet.yaml ignores by pool; empty without any."""
    own = [pool for pool in fleet.pools if pool.ignored]
    fields = (
        Field("name", "Pool", lambda pool: brief(pool.name), link=lambda pool: Link(Kind.POOL, pool.name)),
        Field("", "Differences", value=lambda pool: len(pool.ignored), is_number=True),
        Field("", "Settings", lambda pool: shortlist(pool.ignored, MANY), lambda pool: tuple(pool.ignored)),
    )
    return (to_table(own, fields, "ignored", "Ignored differences", most=MOST_ROWS),) if own else ()


def _unread(state: ReplicaState, kind: str, why: str, members: Sequence[Replica]) -> Entry:
    names = replica_text([each.id for each in members], {each.id: each.name for each in members}, MANY)
    strong = (piece._replace(style=Style.STRONG) for piece in names)
    head = (*strong, Piece(f" {state}{f' · {kind}' if kind else ''}", Style.MUTED))
    side = count(len(members), "replica") if len(members) > 1 else ""
    lines: list[Text] = [plain(one_line(reason(members[0]) if len(members) == 1 else why))]
    if state is ReplicaState.DOWN and len(members) == 1 and members[0].observed_at is not None:
        lines.append(plain(f"Last read {iso(members[0].observed_at)} (values kept, marked stale)."))
    return Entry(state_tone(state), head, side, tuple(lines))


def _where(finding: Finding, names: Mapping[str, str]) -> str:
    in_order = [brief(name) for each in finding.cohorts for name in names_of(each.replicas, names)]
    many = "" if are_few(finding) else shortlist(in_order, MOST)
    return " · ".join(filter(None, (where_of(finding), to_plain(side_of([finding], names)), many)))


def _expired(findings: Iterable[Finding], known: FindingList) -> Iterator[Entries]:
    found = [each for each in findings if each.expired]
    items = tuple(
        Entry(
            Tone(each.severity),
            (Piece(where_of(each), Style.STRONG), Piece(f" {each.rule} {each.sentence}")),
            lines=(plain(one_line(remarks(each)[0])),),
        )
        for each in found
    )
    if items:
        yield Entries(items, partial(findings_data, found, known.names, known.sightings))


def scopes(fleet: Fleet, findings: Sequence[Finding]) -> Mapping[str, tuple[Suppression, ...]]:
    """Return what the entries of findings can cover, one each, by its name on the page.

    Of one finding: its replicas, common labels, the pool, or every pool; of several their replicas or pools.
    """
    own = [_scopes(fleet, each) for each in findings]
    if len(own) == 1:
        return {name: (entry,) for name, entry in own[0].items()}
    narrow, wide = ([list(each.values())[place] for each in own] for place in (0, -1))
    pools = sorted({pool for each in findings for pool in each.pools})
    named = {f"only {_covered(findings)}": narrow, f"every replica of {shortlist(pools, SOME) or 'the fleet'}": wide}
    return {
        name: tuple(each for place, each in enumerate(entries) if each not in entries[:place])
        for name, entries in named.items()
    }


def _scopes(fleet: Fleet, finding: Finding) -> Mapping[str, Suppression]:
    entry = Suppression(finding.rule, "", "", date.max, finding.pools[0] if len(finding.pools) == 1 else None)
    members = [each for each in fleet.replicas if each.id in finding.replicas]
    found = {}
    if members:
        names = tuple(each.name for each in members)
        found[f"only {shortlist(names, SOME)}"] = replace(entry, replicas=names)
        common = set.intersection(*(set(each.labels.items()) for each in members))
        for key, text in sorted(common):
            if key not in NAMING:
                found[f"replicas with {key}={text}"] = replace(entry, labels={key: text})
    found[f"pool {entry.pool}" if entry.pool else "every pool"] = entry
    return found


def default_until(today: date, days: int = DAYS) -> date:
    return today + timedelta(days=days)


def covered_text(fleet: Fleet, findings: Sequence[Finding], entries: Sequence[Suppression], today: date) -> str:
    """Return which active findings entries suppress until when, in other pools too, and what would stay active."""
    until = entries[0].until
    alone = replace(fleet, policy=Policy(suppressions=tuple(entries)))
    _, suppressed = suppress(fleet.inspection.findings, alone, (), until)
    these = {(each.id, each.subject) for each in findings}
    own = [each for each in suppressed if (each.id, each.subject) in these]
    others = [each for each in suppressed if (each.id, each.subject) not in these]
    left = {key for each in findings for key in each.replicas}.difference(*(each.replicas for each in own))
    what = "this finding" if len(findings) == 1 else f"these {count(len(findings), 'finding')}"
    texts = [f"Does not suppress {what}."]
    if own:
        except_on = f", not on {count(len(left), 'replica')}" if left else ""
        days = count((until - today).days, "day")
        texts = [f"Suppresses {what} on {_covered(own)} until {until} ({days}){except_on}."]
    if others:
        named = [f"{each.rule} in {', '.join(each.pools) or 'the fleet'}" for each in others]
        texts.append(f"Also suppresses {count(len(others), 'finding')}: {shortlist(named, SOME)}.")
    return " ".join(texts)


def _covered(findings: Iterable[Finding]) -> str:
    """Return on what findings are: `2 replicas of chat`."""
    found = list(findings)
    pools = sorted({pool for each in found for pool in each.pools})
    where = brief(pools[0]) if len(pools) == 1 else count(len(pools), "pool") if pools else "the fleet"
    replicas = {key for each in found for key in each.replicas}
    return f"{count(len(replicas), 'replica')} of {where}" if replicas else where


PROVIDER = "install or load the provider"
CREDENTIALS = "set a valid API key"
LONGEST_NAME = 60
LONGEST_REASON = 200  # characters of one
INEXACT = (Basis.ASSUMED, Basis.UNKNOWN)


def unknown_hint(fleet: Fleet) -> str:
    """Return what would answer what is unknown, and on which replicas; empty where nothing else helps.

    A replica without the provider counts only where something is unknown that it would report: a capacity, or what a
    rule needs in its pool.
    """
    read = [each for each in fleet.replicas if each.state is not ReplicaState.DOWN]
    locked = [each for each in fleet.replicas if is_locked(each)]
    # In which a rule lacks more than what unreachable replicas would report.
    unanswered = [each for each in fleet.inspection.outcomes if each.kind is OutcomeKind.SKIPPED or each.silent]
    pools: set[str | None] = {pool for each in unanswered for pool in each.pools}
    lacking = [
        each
        for each in read
        if each not in locked and _lacks_provider(each) and (each.pool in pools or not _has_exact_capacity(each))
    ]
    steps = [f"{CREDENTIALS} for {_names(locked, fleet)} (401)"] if locked else []
    steps += [f"{PROVIDER} on {_names(lacking, fleet)}"] if lacking else []
    return f"To answer what is unknown: {'; '.join(steps)}." if steps else ""


def is_locked(replica: Replica) -> bool:
    """Return whether a path of a replica needs an API key that is not configured."""
    return any(each.failure is not None and each.failure.kind is FailureKind.UNAUTHORIZED for each in replica.probes)


def _lacks_provider(replica: Replica) -> bool:
    """Return whether a replica could load the provider: Rust's frontend cannot. Copied settings are the provider's."""
    is_rust = replica.failure is not None and replica.failure.kind is FailureKind.FRONTEND
    return not is_rust and Source.PROVIDER not in replica.sources


def _has_exact_capacity(replica: Replica) -> bool:
    return bool(replica.engines) and all(each.basis not in INEXACT for each in replica.engines)


def _names(replicas: Sequence[Replica], fleet: Fleet) -> str:
    if len(replicas) == len(fleet.replicas) > 1:
        return f"all {count(len(replicas), 'replica')}"
    return shortlist((end_cut(each.name, LONGEST_NAME) for each in replicas), FEW)


def no_list_read(unread_lists: Sequence[str]) -> str:
    """Return that there are no targets because no target list could be read, and why."""
    return f"no target list could be read ({list_reasons(unread_lists)})"


def list_reasons(unread_lists: Sequence[str]) -> str:
    return shortlist((end_cut(each.rstrip("."), LONGEST_REASON) for each in unread_lists), SOME)
