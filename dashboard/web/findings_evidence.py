"""What a finding rests on, as a table: each setting, its values, who told them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from dashboard.fleet import State
from dashboard.fleet.formatting import STATE_WORDS, count, middle_cut, natural, one_line, whole_text
from dashboard.rules.findings import Evidence, Finding
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import links, markup

HEAD = (("Setting", ""), ("Value", ""), ("Told by", ""))
ROUTER = "router"  # the holder of what a router was configured with
LONGEST_VALUE = 160  # characters of a value; Compare shows it whole
MOST_ODD, MOST_OF_REFERENCE = 12, 3  # replicas named: those that differ, those that agree with most
MOST_ROWS = 24  # values of one finding; Compare shows all
MOST_COHORTS = 12  # lines of cohorts, the largest first
# Where a value is shown that is no setting, by the first part of its path.
ELSEWHERE = {
    "engines": (pages.CAPACITY, "Open in Capacity"),
    "devices": (pages.CAPACITY, "Open in Capacity"),
    "replicas": (pages.REPLICAS, "Open in Replicas"),
}


class People(NamedTuple):
    """Names, pools and letters of replicas, by id, and which settings Compare knows, by pool."""

    names: Mapping[str, str]
    pools: Mapping[str, str]
    letters: Mapping[str, str]
    compared: Mapping[str, Collection[str]]


def evidence_table(finding: Finding, people: People) -> str:
    """Draw the evidence; the reference is marked, and what differs from it is tinted. HTML."""
    by_path: dict[str, list[Evidence]] = defaultdict(list)
    for each in finding.evidence:
        by_path[each.path].append(each)
    rows = [
        (_setting(path, finding, people, is_first=number == 0), _value(each, finding), _who(each, people))
        for path, told in by_path.items()
        for number, each in enumerate(told)
    ]
    left = len(rows) - MOST_ROWS
    more = f'<div class="foot">and {left:,} more values; Compare shows all.</div>' if left > 0 else ""
    return f'<div class="evidence">{markup.table("Evidence", HEAD, rows[:MOST_ROWS])}{more}</div>'


def compare_links(finding: Finding, people: People) -> str:
    """Link each setting that Compare knows, in each pool of the finding. HTML, empty where there is none."""
    shown = [
        _compare(pool, path, f"{markup.code(path)}{_of(pool) if len(finding.pools) > 1 else ''}")
        for path in finding.paths
        for pool in finding.pools
        if path in people.compared.get(pool, ())
    ]
    return " · ".join(shown[:MOST_ROWS])


def replicas_html(replicas: Iterable[str], people: People, most: int) -> str:
    """Write replicas by cohort: its letter, how many, and the first names as links to their pages. HTML.

    A name that stands for its whole cohort is always written; the rest of a cohort is one link to all of it.
    """
    by_cohort: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in replicas:
        by_cohort[people.letters.get(each, ""), people.pools.get(each, "")].append(each)
    words, left = [], most
    order = sorted(by_cohort, key=lambda cohort: (not cohort[0], len(cohort[0]), cohort))  # never read comes last
    for letter, pool in order[:MOST_COHORTS]:
        members = sorted(by_cohort[letter, pool], key=lambda each: natural(people.names.get(each, each)))
        shown = members if len(members) == 1 else members[:left]
        left = max(left - len(shown), 0)
        named = ", ".join(_replica(each, people.names.get(each, each)) for each in shown)
        rest = _rest(letter, pool, len(members) - len(shown), "more" if shown else "")
        words.append(" ".join(filter(None, (_letter(letter, len(members), named), rest))))
    beyond = sum(len(by_cohort[cohort]) for cohort in order[MOST_COHORTS:])
    words += [markup.muted(f"and {count(beyond, 'replica')} of other cohorts")] if beyond else []
    return "<br>".join(words)


def _rest(letter: str, pool: str, number: int, more: str) -> str:
    """Link the replicas of a cohort that are not named; those that were never read stand on Replicas."""
    if not number:
        return ""
    words = f"and {number:,} {more}" if more else "show them"
    if not pool:
        return markup.muted(words) if more else ""
    whole = links.to(pages.COMPARE, pool=pool, cohort=letter) if letter else links.to(pages.REPLICAS, pool=pool)
    return markup.link(whole, words, title="All of this cohort" if letter else "All of this pool")


def _setting(path: str, finding: Finding, people: People, *, is_first: bool) -> str:
    """Name a setting, as a link to where it is shown; it may break after dots and underscores, and nowhere else."""
    if not is_first:
        return markup.said(path)
    pool = next((each for each in finding.pools if path in people.compared.get(each, ())), None)
    name = f"<code>{markup.text(path).replace('.', '.<wbr>').replace('_', '_<wbr>')}</code>"
    if pool:
        return _compare(pool, path, name)
    page, title = ELSEWHERE.get(path.partition(".")[0], ("", ""))
    return markup.link(links.to(page, pool=next(iter(finding.pools), None)), name, title=title) if page else name


def _compare(pool: str, path: str, content: str) -> str:
    return markup.link(links.to(pages.COMPARE, pool=pool, path=path), content, title="Open in Compare")


def _of(pool: str) -> str:
    return f" in {markup.text(brief(pool))}"


def _value(evidence: Evidence, finding: Finding) -> str:
    """Write a value; one that differs from a reference has the severity's tint."""
    tag = ' <span class="tag">reference</span>' if evidence.is_reference else ""
    if evidence.state in STATE_WORDS:
        return f"<em>{markup.text(STATE_WORDS[evidence.state])}</em>{tag}"
    text = markup.code(middle_cut(one_line(whole_text(evidence.value, evidence.state)), LONGEST_VALUE))
    hint = f" {markup.muted('not set')}" if evidence.state is State.NULL else ""
    references = {each.path for each in finding.evidence if each.is_reference}
    is_odd = not evidence.is_reference and evidence.path in references
    return f'<span class="odd {finding.severity}">{text}</span>{hint}' if is_odd else f"{text}{hint}{tag}"


def _who(evidence: Evidence, people: People) -> str:
    most = MOST_OF_REFERENCE if evidence.is_reference else MOST_ODD
    holder = "the router, as fleet.yaml says" if evidence.holder == ROUTER else evidence.holder
    said = markup.muted(brief(holder)) if holder else ""
    comment = markup.text(f"“{middle_cut(one_line(evidence.comment), LONGEST_VALUE)}”") if evidence.comment else ""
    return "<br>".join(filter(None, (said, comment, replicas_html(evidence.replicas, people, most))))


def _letter(letter: str, number: int, named: str) -> str:
    mark = markup.letter(letter) if letter else markup.muted("not read")
    return " ".join(filter(None, (mark, f"×{number:,}" if number > 1 or not named else "", named)))


def _replica(replica: str, name: str) -> str:
    return markup.link(links.to(pages.REPLICA_PAGE, replica=replica), markup.text(brief(name)), title=name)
