"""The page Help: what each page answers, how to use it, keys; and the terms, which exports explain at their end."""

from collections.abc import Iterable, Mapping
from operator import itemgetter

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.pieces import Piece, Style, page, plain
from dashboard.views import pages
from dashboard.views.blocks import Paragraph, Section, Table, View, quiet_paragraph
from dashboard.views.context import context_of
from dashboard.views.table import Field, to_table

TERMS: Mapping[str, str] = {
    "replica": "One vLLM API server behind one address.",
    "pool": "A group of interchangeable replicas: the same model in the same role.",
    "cluster": "Pools with one value of the label cluster, which begins their names; "
    "Compare has clusters side by side.",
    "cohort": "Replicas of a pool with identical settings, which keep their letter.",
    "reference": "What a pool is compared with: its majority, a cohort, a replica or a baseline.",
    "majority": "The value of more than half of at least three replicas.",
    "baseline": "The agreed settings of a pool, in a YAML file.",
    "setting": "One value of a replica's configuration, under vLLM's name for it.",
    "finding": "A difference or a value with an impact, and how to fix it.",
    "block size": "Tokens that are hashed and cached as one block; replicas with different sizes share no prefixes.",
    "hash algorithm": "How vLLM computes the key of a block from its tokens; with another one equal tokens have other "
    "keys.",
    "prefix sharing": "Whether identical prompts hit the cache on every replica of the pool.",
    "share of replicas": "Replicas whose block hashes prove that they share prefixes with most of their pool; unknown "
    "counts as no.",
    "prefix hit rate": "Prompt tokens that the prefix cache had, as a share of those looked up in a window.",
    "DP rank": "One data-parallel engine of a replica, with its own KV cache.",
    "KV cache group": "Layers of a model with the same kind of KV cache; a hybrid model has several groups.",
    "capacity": "Tokens of KV cache of an engine, or the requests of one length that fit at a time.",
    "basis": "Source of a capacity: reported by vLLM, derived by its formula, assumed (an upper bound), or unknown.",
    "naive tokens": "Blocks × block size: right for uniform models, too much for hybrids.",
    "coverage": "How many of the polled replicas answered, in full or in part.",
    "snapshot": "A permanent copy of the fleet at one time, with an id.",
    "suppressed": "A finding that an owner has accepted until a date; counted separately.",
    "rollout": "One version of a pool replacing another.",
    "A ×14": "The 14 replicas of cohort A; a pool with one cohort is uniform, one with several is split.",
    "severity": "Critical breaks something now, a warning costs something or soon will, info is worth knowing.",
    "requests": "How many requests of the length in the heading fit into the KV cache of a rank at the same time.",
    "outlier": f"A DP rank with over {TOLERANCE * 100:.0f}% less or more KV cache than the median of its pool and "
    "kind of device.",
    "reported": "A value that vLLM reports.",
    "derived": "A value computed by vLLM's formula from reported ones.",
    "assumed": "An upper bound: a part of the formula is not reported.",
    "unknown": "Not reported and not computable; never taken for zero.",
}
REVIEW_TERMS = (
    *("replica", "pool", "cohort", "A ×14", "reference", "severity", "suppressed", "prefix sharing"),
    *("share of replicas", "prefix hit rate", "DP rank", "capacity", "basis", "requests", "outlier"),
)


TOPICS: Mapping[str, tuple[str, str]] = {  # of each page: the question that it answers, and its use
    pages.OVERVIEW: (
        "Is the fleet healthy, and what is first?",
        (
            "The numbers are of replicas that share prefixes with their pool. A cause of the fix plan opens "
            "with its patch, the text for a ticket, and how to accept it. The map has a cell for each replica by its "
            "worst finding or its prefix hit rate: Tab, arrow keys, Enter. The estimate of recomputed tokens assumes "
            "equal prompts. A click on a column title sorts the pools."
        ),
    ),
    pages.FINDINGS: (
        "What is wrong, on which replicas, with which effect and fix?",
        (
            "A finding has its measured effect, evidence, remedy, rule, and the form to accept it until a date. With a "
            "history it has its age, and New keeps what came in the last hour, 24 h or 7 days. The lists below have "
            "the rules that passed, were skipped (with the reason) or do not apply."
        ),
    ),
    pages.COMPARE: (
        "Which settings differ within a pool, and can its replicas share prefixes?",
        (
            "A column is a cohort or a replica, the reference is first. The first rows are its traffic. A click on a "
            "value shows its replicas, its origin and what vLLM declares. Plan the fix lists the causes of the pool: "
            "what to paste, and what it ends."
        ),
    ),
    pages.CAPACITY: (
        "How much KV cache do each rank, GPU and pool have?",
        (
            "Hatched bars are upper bounds, inner bars the KV cache in use. A rank that is short has its memory by "
            "part next to the median engine."
        ),
    ),
    pages.REPLICAS: (
        "Which replicas exist, and what does each of them report?",
        (
            "A click on a name opens the replica; ticks compare up to 12. A replica that is down opens on its probes. "
            "Filter has the columns: hit rate, requests, time to first token, preemptions."
        ),
    ),
    pages.SETTINGS: (
        "What value does any setting have, on every replica of the fleet?",
        "The rarest value of a pool is first. The origin says whether an argument set it, with the provider.",
    ),
    pages.REVIEW: (
        "What does a meeting have to know and to decide?",
        "Share opens it and saves a snapshot. Notes and owners are kept with it.",
    ),
    pages.SNAPSHOTS: (
        "What was the state before, and what has changed since?",
        (
            "A snapshot opens every page unchanged, Time in the header a past time. An id, its first ten digits or a "
            "link opens one."
        ),
    ),
    pages.TIMELINE: (
        "When did cohorts form, what restarted, and how did hit rates change?",
        (
            "A click on a time or a mark opens the page as it was then. Dragging selects a range for Changes. Who "
            "changed what lists snapshots, notes and accepted findings by visitor."
        ),
    ),
    pages.CHANGES: (
        "What changed between two times?",
        "It compares any two of a snapshot, a time and the live fleet, and lists what happened in between.",
    ),
    pages.STATUS: (
        "Where do targets come from, what is in force, and which facts are missing?",
        "Assumptions have the line for fleet.yaml that declares them. Coverage says what reveals a missing fact.",
    ),
}
KEYS = (
    ("Ctrl-K or /", "search; Up and Down select a hit, Enter opens it, Esc returns"),
    ("?", "this list"),
    ("j, k", "next and previous finding, cause or row of a table"),
    ("Esc", "close a dialog, a tooltip or the open finding"),
    ("Enter", "open the focused finding, cause, row or cell"),
    ("Arrow keys", "on the map of Overview and in the settings of Compare: next cell"),
    ("Home, End", "there: first and last cell of the row"),
    ("Ctrl-Enter", "save the focused note of a review"),
    ("Right, Left", "in meeting mode: next and previous section; Page Down scrolls first, Esc leaves"),
)
FIRST, SECOND = itemgetter(0), itemgetter(1)
KEY_FIELDS = (Field("", "Key", FIRST, is_code=True), Field("", "Use", SECOND))
TERM_FIELDS = (Field("", "Term", FIRST), Field("", "Meaning", SECOND))


def glossary(terms: Iterable[str]) -> Section:
    """Return terms with their explanations, for exports."""
    lines = [(Piece(f"{term[:1].upper()}{term[1:]}. ", Style.STRONG), Piece(TERMS[term])) for term in terms]
    return Section("words", "Glossary", tuple(map(Paragraph, lines)), is_exported_only=True)


def help_report(fleet: Fleet, about: str | None = None) -> View:
    """Return the help; the page `about`, if it has a topic, is first."""
    order = sorted(TOPICS, key=lambda each: each != about)
    keys = Section("keys", "Keys", (keys_table(),))
    return View(
        title="Help",
        headline="Help",
        lead="Read-only towards replicas: only GET; and, where grpc_port is set, four read-only gRPC methods. "
        "Every choice on a page is in its URL.",
        context=context_of(fleet),
        parts=(*map(_topic, order), keys, _terms()),
    )


def keys_table() -> Table:
    return to_table(KEYS, KEY_FIELDS, "keys", "Keys")


def _topic(name: str) -> Section:
    question, use = TOPICS[name]
    opened = Piece(pages.TITLES[name], Style.STRONG, page(name))
    blocks = (Paragraph((opened, Piece(f": {question}"))), quiet_paragraph(use))
    return Section(f"help-{name or 'overview'}", pages.TITLES[name], blocks)


def _terms() -> Section:
    rules = (
        Piece("Every rule has a page: see the lists on "),
        Piece("Findings", link=page(pages.FINDINGS)),
        Piece("."),
    )
    table = to_table(TERMS.items(), TERM_FIELDS, "terms", "Terms")
    return Section("terms", "Terms", (table, Paragraph(rules), Paragraph(plain("Options: fleet.example.yaml."))))
