"""One cause of the fix plan: its title, what is predicted, what to change where, and its findings."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Fix, Plan
from dashboard.analysis.patch import (
    LLM_D,
    PATCH_FILE,
    PRODUCTION_STACK,
    ChangeGroup,
    Patch,
    kubectl_texts,
    kubectl_warning,
    llm_d_values,
    production_stack_values,
)
from dashboard.fleet import Replica
from dashboard.fleet.formatting import SOME, count, joined, middle_cut, one_line, short, shortlist
from dashboard.fleet.pieces import (
    Kind,
    Link,
    Piece,
    Style,
    Text,
    join_texts,
    page,
    plain,
    pool,
    shortlist_texts,
    to_plain,
)
from dashboard.rules.apply_method import IMAGE_FIRST, ApplyMethod, removable_text
from dashboard.rules.findings import Finding, Snippet
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Section, Table, Tone
from dashboard.views.effect import cause_text
from dashboard.views.finding_list import text_of
from dashboard.views.finding_text import SNIPPETS, rule_step, rule_title, with_code
from dashboard.views.names import MOST_NAMED, brief, in_natural_order, names_of, replica_text
from dashboard.views.summary import found_text
from dashboard.views.table import Field, to_data

PLAN = "plan"  # anchor
MOST_POOLS = 2  # of a title by name
MOST_VALUES = 3  # flags and variables of a title
MOST_APART = 2  # values of one of them
MOST_STEPS = 5  # sentences and snippets of an action
LONGEST = 60  # characters of a path in a sentence
NOT_PREDICTED = "effect not predicted"
NOTHING_TO_PASTE = "Nothing to paste."
HERE = page(pages.OVERVIEW)  # where a cause opens, unless another page lists it
ANOTHER_LINE = " \\\n"  # all flags can be pasted behind `vllm serve`, one a line
NOTES = {
    ApplyMethod.BY_HAND: "Set by hand: {}. The value shown leaves out values of each replica.",
    ApplyMethod.CHOICE: "Choose a value within the agreed range: {}. The one shown is the nearest.",
    ApplyMethod.MISFIT: "Fix the baseline: it has text where vLLM has a number or a switch, for {}.",
    ApplyMethod.OPEN: "Remove from the baseline, or ignore, settings derived from several agreed values: {}.",
}


CHANGE_FIELDS = (  # of a cause, the replicas of a group of changes, and their patch
    Field("", key="cause", value=lambda row: row[0].key),
    Field("", key="severity", value=lambda row: row[0].severity.value),
    Field("", key="change", value=lambda row: to_plain(title_of(row[0]))),
    Field("", key="effect", value=lambda row: effect_text(row[0]).replace("\n", ", ")),
    Field("", key="replicas", value=itemgetter(1)),
    Field("", key="flags", value=lambda row: tuple(map(shlex.join, row[2].flags))),
    Field("", key="flags to remove", value=lambda row: row[2].removed),
    Field("", key="environment", value=lambda row: row[2].environment),
    Field("", key="image", value=lambda row: row[2].image),
)


def causes_data(causes: Iterable[Cause]) -> Table:
    """Return causes for programs: a row for each group of changes of the recommended fixes, or for an action."""
    rows: list[tuple[Cause, tuple[str, ...], Patch]] = []
    for each in causes:
        groups = each.fixes[0].groups if each.fixes else ()
        rows += [(each, group.replicas, group.patch) for group in groups] or [(each, each.replicas, Patch())]
    return to_data(rows, CHANGE_FIELDS, PLAN, "Fix plan")


def cause_link(number: int, cause: Cause, here: Link) -> Link:
    """Return the link that opens a cause on the page `here`; `number` is that in the plan."""
    return here._replace(choices=(*here.choices, (pages.CAUSE, cause.key)), anchor=f"cause-{number}")


def shared_text(fleet: Fleet, plan: Plan, cause: Cause, here: Link = HERE, *, is_numbered: bool = True) -> Text:
    """Return which other causes restart the same replicas, by number in the plan or by title; empty without any."""
    restarts, numbered = plan.own(cause.restarts), enumerate(plan.causes, 1)
    others = [each for each in numbered if each[1].key != cause.key and not restarts.isdisjoint(each[1].restarts)]
    if not others:
        return ()
    shared = {replica for _, each in others for replica in restarts & each.restarts}
    few = len(shared) <= MOST_NAMED
    which = replica_text(shared, fleet.names) if few else plain(f"{len(shared):,} of its replicas")
    links = [
        (Piece(str(number) if is_numbered else to_plain(title_of(each)), link=cause_link(number, each, here)),)
        for number, each in others
    ]
    if is_numbered:
        verb, causes = "restarts" if len(shared) == 1 else "restart", "cause" if len(others) == 1 else "causes"
        return (*which, Piece(f" also {verb} for {causes} "), *join_texts(links), Piece("."))
    verb = "restarts" if len(others) == 1 else "restart"
    of_each = "" if len(shared) == 1 else " of each"
    return (
        Piece(f"{count(len(others), 'more cause')} {verb} "),
        *which,
        Piece(": "),
        *join_texts(links),
        Piece(f". One restart{of_each} applies all changes."),
    )


def title_of(cause: Cause, where: Text = ()) -> Text:
    """Return what to do: `Restart 2 replicas of chat with --block-size 16`; of an action what it is about.

    `where` is written in place of the number of replicas and their pools.
    """
    where = where or (Piece(count(len(cause.replicas), "replica"), Style.STRONG), *_pools_text(cause))
    if not cause.fixes:
        sentences = {each.remedy.sentence.partition(". ")[0].partition(": ")[0] for each in cause.findings}
        step = sentences.pop().rstrip(".") if len(sentences) == 1 else rule_step(cause.findings[0].rule)
        *rest, last = with_code(step) if step else text_of(cause.findings)
        return (*rest, last._replace(text=last.text.removesuffix(".")), Piece(" · "), *where)
    return (Piece("Restart "), *where, *_values_text(cause.fixes[0]))


def part_text(plan: Plan, cause: Cause) -> Text:
    """Return `8 replicas of decode and 2 in 1 other pool` where the plan is that of a pool; empty for the fleet."""
    own = plan.own(frozenset(cause.replicas))
    others = [each for each in cause.replicas if each not in own]
    texts: list[Text] = []
    if plan.pool and own:
        texts.append((Piece(count(len(own), "replica"), Style.STRONG), Piece(f" of {brief(plan.pool)}")))
    if others:
        number = f"{len(others):,}" if texts else count(len(others), "replica")
        pools = {name for finding in cause.findings for name in finding.pools} - {plan.pool}
        texts.append(plain(f"{number} in {count(len(pools), 'other pool')}"))
    return join_texts(texts)


def _pools_text(cause: Cause) -> Text:
    names = sorted({each for finding in cause.findings for each in finding.pools})
    if not names:
        return ()
    if len(names) <= MOST_POOLS:
        return (Piece(" of "), *join_texts([(pool(each, brief(each)),) for each in names]))
    return (Piece(f" in {count(len(names), 'pool')}"),)


def _values_text(fix: Fix) -> Text:
    """Return what the replicas are restarted with and without."""
    pieces = list[Piece]()
    for word, values in (("with", _set_values(fix.groups)), ("without", _removed_names(fix.groups))):
        if values:
            pieces += (Piece(f" {word} "), *shortlist_texts(values, MOST_VALUES))
    return tuple(pieces) or plain(" with other settings")


def _set_values(groups: Iterable[ChangeGroup]) -> list[Text]:
    """Return the flags, variables and image to set: of two values each with its replicas, of more their number."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for group in groups:
        patch, number = group.patch, len(group.replicas)
        for name, *values in patch.flags:
            found[name][shlex.join([name, *values])] += number
        for variable in patch.variables:
            if variable.value is not None:
                found[variable.name][f"{variable.name}={shlex.quote(variable.value)}"] += number
        if patch.image:
            found["image"][f"image: {patch.image}"] += number
    texts: list[Text] = []
    for name, numbers in found.items():
        if len(numbers) > MOST_APART:
            texts.append((Piece(name, Style.CODE), Piece(f" ({len(numbers):,} values)")))
            continue
        for text, number in numbers.items():
            texts.append((Piece(text, Style.CODE), *(plain(f" on {number:,}") if len(numbers) > 1 else ())))
    return texts


def _removed_names(groups: Iterable[ChangeGroup]) -> list[Text]:
    patches = [each.patch for each in groups]
    flags = [flag for each in patches for flag in each.removed]
    variables = [variable.name for each in patches for variable in each.variables if variable.value is None]
    return [(Piece(each, Style.CODE),) for each in dict.fromkeys([*flags, *variables])]


def why_text(cause: Cause) -> Text:
    """Return the worst finding of a cause, or where several have other values its problem."""
    return text_of([each for each in cause.findings if each.rule == cause.findings[0].rule])


def effect_text(cause: Cause, pool_name: str = "") -> str:
    """Return what ends, and on more lines what else changes: `fixes 1 critical, 2 info`; in a pool before others."""
    if not cause.fixes:
        return NOT_PREDICTED
    fix, lines = cause.fixes[0], []
    for sentence, found in (("fixes {}", fix.fixed), ("{} new", fix.new)):
        own = [each for each in found if not pool_name or pool_name in each.pools]
        others = [each for each in found if pool_name and pool_name not in each.pools]
        lines += [sentence.format(found_text(own))] if own else []
        lines += [f"{sentence.format(found_text(others))} in other pools"] if others else []
    if (sharing := fix.gained_in(pool_name).sharing) > 0:
        lines.append(f"+{sharing:,} can share prefixes")
    gained = fix.gained_in("")
    if gained.least or gained.most:
        lines.append(f"{span_text(gained.least, gained.most)} KV tokens")
    return "\n".join(lines)


def span_text(least: int, most: int) -> str:
    """Write a change with its sign: `+21.6 k`, or from the least to the most: `+21.6 k to +22.2 k`."""
    signs = [("+" if number > 0 else "−") if number else "±" for number in (least, most)]
    sizes = [short(abs(number)) if number else "0" for number in (least, most)]
    return " to ".join(dict.fromkeys(f"{sign}{size}" for sign, size in zip(signs, sizes, strict=True)))


def cause_section(fleet: Fleet, plan: Plan, cause: Cause, number: int = 0, *, is_short: bool = False) -> Section:
    """Return one cause: why, what is predicted, what to change where, and its findings.

    Its `number` is that in the plan; 0 for one that is shown alone. `is_short`: without sections below, without
    Kubernetes and without the findings.
    """
    title = to_plain(title_of(cause, part_text(plan, cause)))
    anchor, data = f"cause-{number}", partial(causes_data, [cause])
    blocks: list[Block] = [Paragraph(why_text(cause), Tone(cause.severity))]
    blocks.append(Paragraph(plain(" ".join(_effect_sentences(fleet, cause)))))
    if measured := cause_text(fleet, cause, plan.pool, is_whole=True):
        blocks.append(Paragraph(plain(measured)))
    if shared := shared_text(fleet, plan, cause, is_numbered=number > 0):
        blocks.append(Paragraph(shared))
    if not cause.fixes:
        blocks += _action_blocks(cause, fleet.names, is_short=is_short)
    parts = []
    for place, fix in enumerate(cause.fixes):
        which = f"{'Or' if place else 'Recommended'}: {to_plain(_values_text(fix)).strip()}"
        name = which if len(cause.fixes) > 1 else ""
        own = [block for group in fix.groups for block in _group_blocks(fleet, group, data, is_short=is_short)]
        if is_short:
            blocks += [Paragraph((Piece(name, Style.STRONG),)), *own] if name else own
        else:
            parts.append(Section(f"{anchor}-change-{place}", name or "What to change", tuple(own)))
    if not is_short:
        heading, found = count(len(cause.findings), "finding"), Entries(tuple(map(_finding_entry, cause.findings)))
        parts.append(Section(f"{anchor}-findings", heading, (found,), is_aside=True))
    return Section(anchor, f"{number}. {title}" if number else title, tuple(blocks), tuple(parts))


def _effect_sentences(fleet: Fleet, cause: Cause) -> Iterator[str]:
    if not cause.fixes:
        yield "No setting of its replicas ends this: the effect is not predicted."
        return
    fix, gained = cause.fixes[0], cause.fixes[0].gained_in("")
    parts = [f"fixes {found_text(fix.fixed)}", f"{found_text(fix.new) or 'none'} new"]
    parts += [f"{len(fix.open):,} known only after the restart"] if fix.open else []
    parts += [f"KV cache {span_text(gained.least, gained.most)} tokens"] if gained.least or gained.most else []
    parts += [f"KV cache unknown on {count(gained.unknown_ranks, 'DP rank')}"] if gained.unknown_ranks else []
    yield f"Predicted: {'; '.join(parts)}."
    if gained.sharing > 0:
        yield f"{count(gained.sharing, 'more replica')} can share prefixes, as far as settings show."
    if loaded := sum(bool(fleet.by_id[each].adapters) for each in fix.replicas):
        yield f"LoRA adapters of {count(loaded, 'replica')} must be loaded again."


def _group_blocks(fleet: Fleet, group: ChangeGroup, data: Callable[[], Table], *, is_short: bool) -> Iterator[Block]:
    yield _replicas_paragraph(group.replicas, fleet.names, is_short=is_short)
    patch = group.patch
    typed = {
        "Image": patch.image,
        "Flags": ANOTHER_LINE.join(map(shlex.join, patch.flags)),
        "Flags to remove": "\n".join(patch.removed),
        "Environment variables": "\n".join(patch.environment),
    }
    entries = [Entry(Tone.PLAIN, plain(label), snippets=(text,)) for label, text in typed.items() if text]
    entries += () if is_short else _kubernetes_entries(patch, [fleet.by_id[each] for each in group.replicas])
    entries += _names_entries(group.replicas, fleet.names, is_short=is_short)
    yield Entries(tuple(entries), data)
    yield from (Paragraph(plain(each)) for each in group_notes(group))


def _replicas_paragraph(replicas: Sequence[str], names: Mapping[str, str], *, is_short: bool) -> Paragraph:
    """Return how many replicas and which; only the number where all names follow."""
    number = Piece(count(len(replicas), "replica"), Style.STRONG)
    is_listed = is_short and len(replicas) > MOST_NAMED
    return Paragraph((number, *(() if is_listed else (Piece(": "), *replica_text(replicas, names, MOST_NAMED)))))


def _names_entries(replicas: Sequence[str], names: Mapping[str, str], *, is_short: bool) -> Iterator[Entry]:
    """Yield names and addresses to copy; in short only names, where there are more than a line names."""
    if is_short and len(replicas) <= MOST_NAMED:
        return
    labels = ("Replica name", "Replica address") if len(replicas) == 1 else ("Replica names", "Replica addresses")
    lists = names_of(replicas, names), in_natural_order(replicas, names)
    for label, lines in list(zip(labels, lists, strict=True))[: 1 if is_short else 2]:
        yield Entry(Tone.PLAIN, plain(label), snippets=("\n".join(lines),), fold=label)


def _kubernetes_entries(patch: Patch, members: Sequence[Replica]) -> Iterator[Entry]:
    """Yield the same for Kubernetes, a file and its command to copy one by one, and for two Helm charts."""
    if texts := kubectl_texts(patch, members):
        warning, fold = plain(kubectl_warning(patch, members)), f"{PATCH_FILE} and its command"
        yield Entry(Tone.PLAIN, plain("kubectl patch"), lines=(warning,), snippets=texts, fold=fold)
    charts = ((PRODUCTION_STACK, production_stack_values(patch)), (LLM_D, llm_d_values(patch, members)))
    for chart, text in charts:
        if text:
            label = f"Helm values: {chart}"
            yield Entry(Tone.PLAIN, plain(label), snippets=(text,), fold=label)


def group_notes(group: ChangeGroup) -> Sequence[str]:
    """Return what cannot simply be pasted for a group now."""
    patch = group.patch
    if group.paths(ApplyMethod.IMAGE) and len(group.changes) > 1:
        notes = [IMAGE_FIRST]
    else:
        notes = [removable_text(patch.optional)] if patch.optional else []
        for method, note in NOTES.items():
            if paths := group.paths(method):
                notes.append(note.format(shortlist((middle_cut(one_line(each), LONGEST) for each in paths), SOME)))
    return [*notes, NOTHING_TO_PASTE] if patch.is_empty else notes


def _action_blocks(cause: Cause, names: Mapping[str, str], *, is_short: bool) -> Iterator[Block]:
    steps: dict[str, set[str]] = defaultdict(set)
    snippets: dict[Snippet, set[str]] = defaultdict(set)
    for each in cause.findings:
        steps[each.remedy.sentence].update(each.replicas)
        for snippet in each.remedy.snippets:
            snippets[snippet].update(each.replicas)
    if cause.replicas:
        yield _replicas_paragraph(cause.replicas, names, is_short=is_short)
    items = [Entry(Tone.PLAIN, with_code(each)) for each in list(steps)[:MOST_STEPS]]
    for snippet, ids in list(snippets.items())[:MOST_STEPS]:
        label = (Piece(f"{SNIPPETS[snippet.kind]} for ", Style.MUTED), *replica_text(ids, names))
        items.append(Entry(Tone.PLAIN, label if ids else plain(SNIPPETS[snippet.kind]), snippets=(snippet.text,)))
    items += _names_entries(cause.replicas, names, is_short=is_short) if cause.replicas else ()
    yield Entries(tuple(items), partial(causes_data, [cause]))


def _finding_entry(finding: Finding) -> Entry:
    where = joined([brief(each) for each in finding.pools[:MOST_POOLS]]) or "fleet"
    link = Link(Kind.FINDING, finding.id)
    head = (Piece(where, Style.STRONG, link), Piece(" "), *finding.text)
    return Entry(Tone(finding.severity), head, lines=((Piece(rule_title(finding.rule), Style.MUTED),),))
