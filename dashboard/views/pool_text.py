"""What is said of a pool: router, KV store, rollout, traits of some replicas, prefix sharing, and which is urgent."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.sharing_text import cause_text
from dashboard.compare import Share, SharingCell, SharingVerdict
from dashboard.compare.cohorts import Trait, shared_traits
from dashboard.compare.encoding import is_comparable, lookup_value
from dashboard.compare.hashes import SharingCause
from dashboard.compare.sharing import DECIDING_PATHS, MOST_COHORTS
from dashboard.fleet import (
    Cohort,
    Difference,
    FactName,
    Pool,
    Replica,
    ReplicaState,
    RouterConfig,
    RouterFact,
    facts_of_pool,
)
from dashboard.fleet.formatting import MOST, SOME, count, iso, middle_cut, one_line, shortlist
from dashboard.fleet.history import Rollout
from dashboard.fleet.pieces import Piece, Style, Text, join_texts
from dashboard.rules.domain import CERTAIN, Domain, ImpactContext, Origin, Store
from dashboard.rules.findings import Finding, Inspection, Severity
from dashboard.rules.routing.blocks import BLOCK_SIZE, tokens_of_block
from dashboard.rules.sentences import capital
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, Tone
from dashboard.views.names import brief
from dashboard.views.table import Field, to_table

NOTHING = "-"
MOST_TRAITS = 6
PAIR = 2  # replicas, which `both` names
LONGEST = 60  # characters of a foreign text
BASES = {Origin.READ: "read", Origin.DECLARED: "fleet.yaml", Origin.DETECTED: "detected", Origin.ASSUMED: "assumed"}


def context_text(finding: Finding, inspection: Inspection) -> str:
    """Return the impact context of a finding and how it is known; empty if the finding matters in any pool."""
    domains = [inspection.domains[pool] for pool in finding.pools if pool in inspection.domains]
    domain = next((each for each in domains if finding.context in each.contexts), None)
    return domain_text(domain, finding.context) if domain and finding.context else ""


def domain_text(domain: Domain, context: ImpactContext) -> str:
    """Return one impact context of a pool: `Router: prefix-hash (fleet.yaml).`; empty for that of any pool."""
    if context is ImpactContext.MODEL:
        return ""
    if context is ImpactContext.KV_STORE:
        text, basis = _store(domain), domain.kv_store_basis
    elif context is ImpactContext.DISAGGREGATED:
        text, basis = f"prefill and decode: separate ({BASES[domain.disaggregated_basis]})", Origin.DECLARED
    else:
        text, basis = _router(domain), domain.router_basis
    return f"{capital(text)}{'; if not, declare it under pools in fleet.yaml' if basis not in CERTAIN else ''}."


def shared_texts(domain: Domain) -> list[str]:
    """Return the router and the KV store of a pool: `router: prefix-hash (fleet.yaml)`."""
    return [_router(domain), *([_store(domain)] if domain.kv_store is not Store.NONE else [])]


def rollout_text(rollout: Rollout) -> str:
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"Rollout {rollout.old} -> {rollout.new}: {moved} moved, the last one started {iso(rollout.last)}. "
        "Severity is one step lower during a rollout."
    )


def _router(domain: Domain) -> str:
    fact = domain.fact(FactName.ROUTING)
    source = f"read from {brief(fact.source)}" if fact else BASES[domain.router_basis]
    return f"router: {domain.router} ({source})"


def _store(domain: Domain) -> str:
    return f"KV store: {domain.kv_store} ({BASES[domain.kv_store_basis]})"


LABELS = {
    FactName.BLOCK_SIZE: "block_size (tokens)",
    FactName.LEAST_BLOCK_SIZE: "least block_size (tokens)",
    FactName.CHUNK_SIZE: "chunk_size (tokens)",
}


def router_section(fleet: Fleet, pool: Pool) -> tuple[Section, ...]:
    """Return what the routers of a pool report next to its cohorts; empty where none is read."""
    facts = tuple(facts_of_pool(fleet.routers, pool.name))
    if not facts:
        return ()
    fields = [
        Field("name", "Fact", lambda fact: LABELS.get(fact.name, str(fact.name)), is_code=True),
        Field("", "Router", _value_cell, is_code=True),
    ]
    for cohort in pool.cohorts:
        title = f"{cohort.letter} ×{len(cohort.replicas):,}"
        fields.append(Field("", title, partial(_cohort_cell, cohort=cohort), is_code=True))
    fields += [Field("source", "Source", lambda fact: fact.source), Field("observed_at", "Read")]
    note = "What a router reports replaces what fleet.yaml declares. Of several sources the first counts."
    return (Section("router", "Router", (to_table(facts, fields, "router", f"Routers of {pool.name}", note),)),)


def _value_cell(fact: RouterFact) -> Cell:
    loaded = json.loads(fact.value)
    if not isinstance(loaded, list):
        return Cell(_fact_text(loaded))
    named = shortlist(map(_fact_text, loaded), SOME)
    return Cell(named or NOTHING, hint=", ".join(map(_fact_text, loaded[:100])))


def _cohort_cell(fact: RouterFact, cohort: Cohort) -> Cell:
    """Return what a cohort has in place of a fact; marked where it is another value."""
    found = lookup_value(cohort.settings, BLOCK_SIZE) if fact.name is FactName.BLOCK_SIZE else None
    if found is None:
        return Cell(NOTHING)
    own = tokens_of_block(found, cohort.settings)
    return Cell(_fact_text(json.loads(own.value)), Tone.PLAIN if own.value == fact.value else Tone.WARNING)


def _fact_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def routers_section(routers: Sequence[RouterConfig]) -> tuple[Section, ...]:
    """Return all routers of the options: where, for which pools, how much they report, and what cannot be read."""
    if not routers:
        return ()
    fields = (
        Field("name", "Router", lambda router: router.name),
        Field("kind", "Kind"),
        Field("", "Pools", lambda router: ", ".join(router.pools)),
        Field("", "Facts", value=lambda router: len(router.facts), is_number=True),
        Field(
            "",
            "Last read",
            lambda router: iso(max(fact.observed_at for fact in router.facts)) if router.facts else NOTHING,
        ),
        Field(
            "",
            "Error",
            lambda router: "; ".join(router.failures) or NOTHING,
            tone=lambda router: Tone.WARNING if router.failures else Tone.PLAIN,
        ),
    )
    return (Section("routers", "Routers", (to_table(routers, fields, "routers", "Routers and stores"),)),)


def trait_paragraphs(fleet: Fleet, group: Collection[str], pools: Collection[str]) -> tuple[Paragraph, ...]:
    """Return what all replicas of a group share and the rest of these pools does not; empty without such a trait.

    A line for each number of others: `All 3: image 4f2, started 2026-03-02 14:00 to 14:36 UTC; none of the other 37.`
    """
    own = [each for each in fleet.replicas if each.id in group]
    rest = [each for each in fleet.replicas if each.pool in pools and each.id not in group]
    traits = islice(shared_traits(own, rest), MOST_TRAITS)
    head = Piece(f"All {len(own):,}: " if len(own) > PAIR else "Both: ", Style.STRONG)
    lines = [
        (head, *join_texts(map(_trait, same), last=", "), Piece(f"; {_others_text(*numbers, len(rest))}."))
        for numbers, same in groupby(traits, key=lambda each: (each.others, each.known))
    ]
    return (Paragraph(join_texts(lines, "\n", "\n")),) if lines else ()


def _trait(trait: Trait) -> Text:
    if trait.name == "started" and not trait.is_label:
        return (Piece(f"{trait.name} {trait.value}"),)
    name, value = (middle_cut(one_line(text), LONGEST) for text in (trait.name, trait.value))
    return (Piece(f"{name} "), Piece(value, Style.CODE))


def _others_text(others: int, known: int, rest: int) -> str:
    """Return how many of the rest have it as well, and of how many that is not known."""
    number = f"{others:,}" if others else "none"
    return f"{number} of the other {known:,}" + (f" (not reported by {rest - known:,} more)" if known < rest else "")


MOST_GROUPS = 8  # lines of the list of groups; the rest is counted
MOST_VERSIONS = 2  # versions that are named; of more, the lowest and the highest
SHARE_WORDS = {Share.YES: "yes", Share.NO: "no", Share.PARTLY: "partly", Share.UNKNOWN: "unknown"}
SPLIT = {Share.NO, Share.PARTLY}
ABOUT = "For identical prompts without LoRA, multimodal input or cache salt."
MEASURED_IN_PART = "hash alike where measured"  # as the sentence about the pool says


def sharing_severity(verdict: SharingVerdict, named: Mapping[str, Severity]) -> str:
    """Return the severity of a verdict: that of the worst finding on a setting that decides it.

    Without such a finding a different version alone is a warning: it may or may not hash differently.
    """
    if not verdict.is_split:
        return "good" if verdict.share is Share.YES else "unknown"
    worst = min(
        (named[path] for path in (*DECIDING_PATHS, FINGERPRINT) if path in named),
        key=lambda each: each.rank,
        default=None,
    )
    return worst or ("info" if verdict.is_certain else "warning")


def verdict_text(verdict: SharingVerdict) -> str:
    """Write the verdict for a table's cell: `B and C differ from A`."""
    if verdict.is_off:
        return "prefix caching off"
    if verdict.share is Share.YES:
        total = sum(each.replicas for each in verdict.cohorts)
        return f"all {total:,} share" if total > 1 else "shared"
    if not verdict.is_split:
        return "probably not shared" if verdict.is_doubted else _unknown(verdict)
    if not verdict.is_certain:
        return "versions differ"
    if verdict.cells and all(cell.share is Share.NO for cell in verdict.cells):
        return "no two replicas share"
    split = [f"not all of {shortlist(verdict.split, SOME)} share"] if verdict.split else []
    return "; ".join([*split, *_differing(verdict)]) or "cohorts differ"


def group_lines(verdict: SharingVerdict) -> list[str]:
    """List the cohorts that hash alike, the group with the largest cohort first, and the exceptions."""
    groups = [shortlist(letters, MOST) for letters in verdict.groups if len(letters) > 1]
    lines = [f"{group} hash alike" for group in groups[:MOST_GROUPS]]
    if (more := len(groups) - MOST_GROUPS) > 0:
        lines.append(f"{count(more, 'more group')} of cohorts that hash alike")
    return [*lines, *_exceptions(verdict)]


def _exceptions(verdict: SharingVerdict) -> Iterator[str]:
    alone = [letters[0] for letters in verdict.groups if len(letters) == 1]
    split = [each.letter for each in verdict.cohorts if verdict.cell(each, each).share in SPLIT]
    silent = [each.letter for each in verdict.cohorts if not each.is_reporting]
    partly = [each.letter for each in verdict.cohorts if each.silent and each.is_reporting and each.letter not in split]
    if alone:
        yield f"{shortlist(alone, MOST)} {'shares' if len(alone) == 1 else 'share'} with no other whole cohort"
    if split:
        yield f"not all replicas of {shortlist(split, MOST)} share with each other"
    if silent and len(silent) < len(verdict.cohorts):
        yield f"block hashes of {shortlist(silent, MOST)} are not reported"
    if partly:
        yield f"block hashes of {shortlist(partly, MOST)} are not reported by all replicas"


def _differing(verdict: SharingVerdict) -> list[str]:
    """Name the cohorts that do not share with the one that others are compared with."""
    deciding = [each for each in verdict.pool.differences if each.path in DECIDING_PATHS]
    if deciding and not verdict.is_measured and all(map(_is_tie, deciding)):
        return ["cohorts differ, no majority"]
    base = verdict.base
    others = [each for each in verdict.cohorts if each is not base and each.letter not in verdict.split]
    apart = [each.letter for each in others if verdict.cell(base, each).share is Share.NO]
    verb = "differs" if len(apart) == 1 else "differ"
    return [f"{shortlist(apart, SOME)} {verb} from {base.letter}"] if apart else []


def _is_tie(difference: Difference) -> bool:
    counts = sorted(value.count for value in difference.values if is_comparable(value.state))
    return len(counts) > 1 and counts[-1] == counts[-2]


def _unknown(verdict: SharingVerdict) -> str:
    total = len(verdict.pool.replicas)
    if len(verdict.cohorts) and total == 1:
        return "one replica"
    return f"unknown for {verdict.not_known:,}" if 0 < verdict.not_known < total else "unknown"


def sharing_blocks(sharing: SharingVerdict, slug: str, kind: str) -> tuple[Block, ...]:
    """Return the cohorts against each other where anything is known; of very many, the groups as lines.

    `kind` is the severity of the verdict: cohorts that do not share have its colour.
    """
    about = Paragraph((Piece(ABOUT, Style.MUTED),))
    if len(sharing.cohorts) > MOST_COHORTS:
        lines = [Paragraph((Piece(f"{line}."),)) for line in group_lines(sharing)]
        return (*lines, about) if lines else ()
    is_split = any(cell.share in SPLIT for cell in sharing.cells)
    is_measured = any(each.is_reporting for each in sharing.cohorts)
    is_shown = is_split or (len(sharing.cohorts) > 1 and is_measured)
    return (_sharing_table(sharing, slug, Tone(kind)), about) if is_shown else ()


def _sharing_table(sharing: SharingVerdict, slug: str, worst: Tone) -> Table:
    is_mixed = len({cell.is_measured for cell in sharing.cells if cell.share is not Share.UNKNOWN}) > 1
    rows = []
    for own in sharing.cohorts:
        row = [Cell("", letter=own.letter)]
        for other in sharing.cohorts:
            found = sharing.cell(own, other)
            is_one = own is other and own.replicas == 1 and found.share not in SPLIT
            row.append(Cell("one replica") if is_one else _sharing_cell(found, worst, is_mixed=is_mixed))
        rows.append(tuple(row))
    return Table(
        name=f"prefix-sharing-{slug}",
        caption="Which cohorts can share prefixes",
        columns=(Column("Can share with"), *(Column(f"{each.letter} ×{each.replicas:,}") for each in sharing.cohorts)),
        rows=tuple(rows),
    )


def _sharing_cell(cell: SharingCell, worst: Tone, *, is_mixed: bool) -> Cell:
    source = "" if cell.share is Share.UNKNOWN else "measured" if cell.is_measured else "derived from settings"
    derived = ", derived" if is_mixed and source and not cell.is_measured else ""
    hint = ", ".join(filter(None, (source, cause_text(cell))))
    word = MEASURED_IN_PART if cell.cause is SharingCause.SOME_SILENT else f"{SHARE_WORDS[cell.share]}{derived}"
    tones = {Share.YES: Tone.GOOD, Share.UNKNOWN: Tone.UNKNOWN}
    return Cell(word, tones.get(cell.share, worst), hint=hint)


def pools_by_urgency(fleet: Fleet) -> list[Pool]:
    """Sort pools by urgency: findings, prefixes not shared, number of cohorts, replicas down, size."""
    down = {replica.pool for replica in fleet.replicas if replica.state is ReplicaState.DOWN}

    def urgency(pool: Pool) -> tuple[object, ...]:
        tally = fleet.inspection.tallies[pool.name]
        agrees = not fleet.sharing[pool.name].is_split or not fleet.uses_prefixes(pool.name)
        wrong = (-tally.critical, -tally.warning, agrees, -max(len(pool.cohorts), 1), pool.name not in down)
        return (*wrong, -len(pool.replicas), pool.name)

    return sorted(fleet.pools, key=urgency)


def versions_text(members: Iterable[Replica]) -> str:
    """Write the versions of some replicas, the lowest first: `0.31.0 -> 0.32.0`; empty if none is known."""
    versions = sorted({replica.version for replica in members if replica.version}, key=_version_key)
    return " -> ".join(versions if len(versions) <= MOST_VERSIONS else [versions[0], "…", versions[-1]])


def _version_key(version: str) -> list[tuple[bool, int, str]]:
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in version.split(".")]
