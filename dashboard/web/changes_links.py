"""Where what changed leads: settings, rules and pools to the pages of the fleet that has them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.analysis.changes import Changes, SettingGroup, Side
from dashboard.fleet.formatting import one_line
from dashboard.fleet.pieces import section
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Line, Section
from dashboard.views.changes_text import pool_name
from dashboard.views.finding_entries import rule_words
from dashboard.web import links
from dashboard.web.review_blocks import LinkMap, by_name

BEFORE = frozenset({"gone-findings", "unjudged-findings"})  # parts that speak of what only the first side has


def at(side: Side, page: str, **choices: str | None) -> str:
    """Return the address of a page of one side."""
    return links.live(page, **{pages.SNAPSHOT: side.snapshot, **choices})


def leads(changes: Changes) -> LinkMap:
    """Return where all that is marked by `linked` leads, the parts of the page themselves, and pools in tables."""
    after, findings = changes.after, changes.findings
    here = {anchor: f"#{section_id(anchor)}" for anchor in ("findings", "settings", "replicas", "capacity")}
    then = {
        _mark(rule_words(each.finding.rule), is_before=True): at(
            changes.before, pages.FINDINGS, **{pages.RULE: each.finding.rule}
        )
        for each in findings.gone
    }
    found = [*(each.finding for each in findings.new), *(each.after for each in findings.kept)]
    now = {
        _mark(rule_words(each.rule), is_before=False): at(after, pages.FINDINGS, **{pages.RULE: each.rule})
        for each in found
    }
    settings = {
        _mark(path, pool=pool): at(after, pages.COMPARE, pool=pool, path=path)
        for group in changes.settings.groups
        if (pool := group.pools[1]) is not None
        for path in (change.path for change in group.changes)
    }
    pools = {each.pool for each in changes.capacity.pools if each.pool is not None and each.after.ranks}
    rows = {pool_name(pool): at(after, pages.COMPARE, pool=pool) for pool in pools}
    return LinkMap({**here, **then, **now, **settings}, rows, _replicas(changes))


def _replicas(changes: Changes) -> dict[str, str]:
    """Return where replicas lead by name: to the second side, those that went to the first; none of equal names."""
    after = [*(each.after for each in changes.replicas.both), *changes.replicas.added]
    sides = [(changes.after, each) for each in after] + [(changes.before, each) for each in changes.replicas.removed]
    return by_name((each.name, at(side, pages.REPLICA_PAGE, replica=each.id)) for side, each in sides)


def section_id(anchor: str) -> str:
    """Return the id of a part of the page."""
    return f"changes-{anchor}"


def linked(part: Section, changes: Changes) -> Section:
    """Mark in a part of the report what leads somewhere."""
    if part.anchor == "settings":
        return replace(part, blocks=tuple(_settings(part.blocks, changes.settings.groups)))
    is_before = part.anchor in BEFORE
    return replace(
        part,
        blocks=tuple(_rules(each, is_before=is_before) if isinstance(each, Entries) else each for each in part.blocks),
        parts=tuple(linked(each, changes) for each in part.parts),
    )


def _settings(blocks: Sequence[Block], groups: Sequence[SettingGroup]) -> Iterator[Block]:
    """Mark the settings of each entry with the pool that it speaks of first: one entry tells equal changes once."""
    pools: dict[object, str | None] = {}
    for group in groups:
        pools.setdefault(group.changes, group.pools[1])
    for block in blocks:
        if not isinstance(block, Entries):
            yield block
            continue
        paths = {one_line(change.path): change.path for group in groups for change in group.changes}
        yield Entries(
            tuple(_marked(entry, paths, pool) for entry, pool in zip(block.items, pools.values(), strict=False))
        )


def _marked(entry: Entry, paths: Mapping[str, str], pool: str | None) -> Entry:
    def line(told: Line) -> Line:
        return tuple(
            each._replace(target=section(_mark(paths[each.text], pool=pool))) if each.text in paths else each
            for each in told
        )

    return replace(entry, lines=tuple(map(line, entry.lines)))


def _rules(block: Entries, *, is_before: bool) -> Entries:
    def line(told: Line) -> Line:
        return tuple(each._replace(target=section(_mark(each.text, is_before=is_before))) for each in told)

    return Entries(tuple(replace(each, lines=tuple(map(line, each.lines))) for each in block.items))


def _mark(text: str, **where: object) -> str:
    """Name a piece of text; what no address is known of stays text."""
    return f"{sorted(where.items())} {text}"
