"""What the page Findings says in words: its head, who is concerned, why a domain makes it bad."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from dashboard.models import ReplicaState, State
from dashboard.report.finding_words import answered
from dashboard.report.judged_rules import judged_rules, rules_words
from dashboard.rules.domain import Basis, Facet, Router, Store
from dashboard.rules.rollup import of_fleet
from dashboard.ui import links, markup
from dashboard.wording import count, iso, joined, middle_cut, one_line, told_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dashboard.fleet import Fleet
    from dashboard.report.judged_rules import JudgedRules
    from dashboard.rules.domain import Domain
    from dashboard.rules.findings import CohortShare, Evidence, Inspection, Rollout, Severity, Tally

MOST_NAMED = 3  # replicas whose names stand in a list; more are counted
LONGEST_NAME = 40  # characters of a replica's or pool's name in a list
MOST_CHIPS = 4  # cohorts of one finding that a list shows
ROUTERS = {
    Router.PREFIX_HASH: "a router that hashes prefixes",
    Router.KV_EVENTS: "a router that follows KV events",
    Router.APPROXIMATE: "a router that remembers where it sent what",
    Router.NONE: "a router that does not look at prefixes",
}
STORES = {
    Store.NONE: "no shared KV store",
    Store.LMCACHE: "a KV store shared through LMCache",
    Store.MOONCAKE: "a KV store shared through Mooncake",
    Store.FILE: "a KV store shared through files",
    Store.P2P: "KV cache that replicas fetch from each other",
}
PAIR = "prefill and decode on replicas of their own"
HOW_KNOWN = {Basis.DECLARED: "fleet.yaml says", Basis.INFERRED: "seen in its settings", Basis.ASSUMED: "assumed"}
WORDS_OF = ("/", "replicas.")  # paths of evidence that is no setting: a route, a replica's own state
SHORT = {Basis.DECLARED: "fleet.yaml", Basis.INFERRED: "seen in its settings", Basis.ASSUMED: "assumed"}
SAY_SO = "; if that is wrong, say so in fleet.yaml under pools"


def title(inspection: Inspection) -> str:
    """Say the worst first: `2 critical, 3 warnings`; without a finding, whether anything was judged at all."""
    if inspection.findings:
        return tally_words(of_fleet(inspection))
    return "No finding" if judged_rules(inspection).judged else "Nothing could be judged"


def tally_words(tally: Tally) -> str:
    """Write counts by severity, the worst first."""
    words = [f"{tally.critical:,} critical"] if tally.critical else []
    words += [count(tally.warning, "warning")] if tally.warning else []
    words += [f"{tally.info:,} info"] if tally.info else []
    return ", ".join(words)


def lead(fleet: Fleet) -> str:
    """Say what the title rests on: rules, answers, what is suppressed."""
    parts = [rules_words(fleet.inspection), answered(fleet)]
    parts += [f"{len(fleet.inspection.suppressed):,} suppressed"] if fleet.inspection.suppressed else []
    if fleet.inspection.notes:
        parts.append(f"{count(len(fleet.inspection.notes), 'entry', 'entries')} of fleet.yaml without effect")
    return " · ".join(parts)


def calm_words(fleet: Fleet, told: JudgedRules) -> str:
    """Say of a fleet without findings how far that goes."""
    silent = sum(replica.state is ReplicaState.DOWN for replica in fleet.replicas)
    words = [f"That holds for {count(told.judged, 'rule')} on what the replicas told."]
    words += [f"{count(told.open, 'rule')} could not be judged everywhere."] if told.open else []
    words += [f"{count(silent, 'replica')} did not answer and may hide something."] if silent else []
    return " ".join(words)


def sentence_html(sentence: str, evidence: Iterable[Evidence]) -> str:
    """Escape a sentence, with the values that its evidence holds in monospace.

    A value is marked as often as the evidence holds it: what follows may be a number of replicas that looks the same.
    """
    left = Counter(text for each in evidence for text in _spellings(each))
    if not left:
        return markup.text(sentence)
    spelled = "|".join(re.escape(text) for text in sorted(left, key=len, reverse=True))
    html, at = "", 0
    for found in re.finditer(rf"(?<![\w.])(?:{spelled})(?!\w|\.\w)", sentence):
        html += markup.text(sentence[at : found.start()])
        text, at = found.group(), found.end()
        html += markup.code(text) if left[text] > 0 else markup.text(text)
        left[text] -= 1
    return html + markup.text(sentence[at:])


def chips(shares: Iterable[CohortShare], pools: int) -> str:
    """Show cohorts as `B ×2`, or `B` for one replica, with their pool where there are several. HTML."""
    shown = list(shares)
    words = [_chip(share, pools) for share in shown[:MOST_CHIPS]]
    words += [markup.muted(f"and {len(shown) - MOST_CHIPS:,} more cohorts")] if len(shown) > MOST_CHIPS else []
    return " ".join(f'<span class="chip">{word}</span>' for word in words)


def brief(name: str) -> str:
    """Cut a name for a list; what a list shows stays on its line."""
    return middle_cut(one_line(name), LONGEST_NAME)


def names_of(replicas: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return the names of replicas in the order in which people count."""
    return sorted((names.get(each, each) for each in replicas), key=markup.natural)


def domain_words(domain: Domain, facet: Facet) -> str:
    """Say what about a pool makes a difference hurt, and how that is known; nothing of what hurts in any pool."""
    if facet is Facet.MODEL:
        return ""
    if facet is Facet.KV_STORE:
        what, basis = STORES[domain.kv_store], domain.kv_store_basis
    elif facet is Facet.DISAGGREGATED:
        what, basis = PAIR, domain.disaggregated_basis
    else:
        what, basis = ROUTERS[domain.router], domain.router_basis
    words = f"{HOW_KNOWN[basis]}: {what}{SAY_SO if basis is Basis.ASSUMED else ''}."
    return words if basis is Basis.DECLARED else words[0].upper() + words[1:]


def shared_words(domain: Domain) -> list[str]:
    """Say in a few words what a pool shares, and how that is known: `a router that hashes prefixes (assumed)`.

    What is only assumed not to be there is not spoken of.
    """
    words = [f"{ROUTERS[domain.router]} ({SHORT[domain.router_basis]})"]
    if domain.kv_store is not Store.NONE:
        words.append(f"{STORES[domain.kv_store]} ({SHORT[domain.kv_store_basis]})")
    return words


def rollout_words(rollout: Rollout) -> str:
    """Say which rollout a finding runs along, and what that changes."""
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"It runs along a rollout from {rollout.old} to {rollout.new}: {moved} moved, the last one started "
        f"{iso(rollout.last)}. While that goes on it counts one step milder."
    )


def severity_mark(severity: Severity) -> str:
    """Draw a severity: colour, glyph and word. HTML."""
    return f'{markup.glyph(severity, "")}<span class="severity">{severity}</span>'


def pool_links(pools: Iterable[str]) -> str:
    """Link pools to Compare. HTML."""
    shown = [markup.link(links.to(links.COMPARE, pool=pool), markup.text(brief(pool)), title=pool) for pool in pools]
    return joined(shown)


def _chip(share: CohortShare, pools: int) -> str:
    letter = markup.letter(share.letter) if share.letter else markup.muted("not read")
    where = f"{markup.text(brief(share.pool))} " if pools > 1 and share.pool else ""
    return f"{where}{letter} ×{share.number:,}" if share.number > 1 else f"{where}{letter}"


def _spellings(evidence: Evidence) -> list[str]:
    """Return the ways in which a sentence may write a value; none for words that only tell what became of a request."""
    if evidence.state is not State.REPORTED or evidence.path.startswith(WORDS_OF):
        return []
    loaded = json.loads(evidence.value)
    plain = loaded if isinstance(loaded, str) else evidence.value
    return list(dict.fromkeys(text for text in (told_text(evidence.value, evidence.state), plain) if text.strip()))
