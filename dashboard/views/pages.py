"""Names of the pages and of the choices in their URLs: the one place that has them.

`pieces.page(FINDINGS, search="severity:critical")` makes a link of them; `web/links.py` makes a URL of a link.
"""

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import short_id
from dashboard.fleet.times import write_time

OVERVIEW, FINDINGS, COMPARE, CAPACITY = "", "findings", "compare", "capacity"
REPLICAS, REPLICA_PAGE, SETTINGS = "replicas", "replica", "settings"
TIMELINE, CHANGES, SNAPSHOTS = "timeline", "changes", "snapshots"
REVIEW, STATUS, HELP = "review", "status", "help"

TITLES = {
    OVERVIEW: "Overview",
    FINDINGS: "Findings",
    COMPARE: "Compare",
    CAPACITY: "Capacity",
    REPLICAS: "Replicas",
    SETTINGS: "Settings",
    TIMELINE: "Timeline",
    CHANGES: "Changes",
    SNAPSHOTS: "Snapshots",
    REVIEW: "Review",
    STATUS: "Status",
    HELP: "Help",
    REPLICA_PAGE: "Replica",
}

# The entries of the navigation. One leads to its first page; pages of one entry have links to each other.
NAVIGATION = {
    "Overview": (OVERVIEW,),
    "Findings": (FINDINGS,),
    "Compare": (COMPARE,),
    "Capacity": (CAPACITY,),
    "Inventory": (REPLICAS, SETTINGS),
    "History": (TIMELINE, CHANGES, SNAPSHOTS),
}
PARENTS = {REPLICA_PAGE: REPLICAS}  # pages of an entry that need a choice, each with the page that offers it


def entry_of(page: str) -> tuple[str, ...]:
    """Return the pages of the entry of the navigation that a page belongs to; none for a page outside of it."""
    own = PARENTS.get(page, page)
    return next((group for group in NAVIGATION.values() if own in group), ())


# Choices. A widget whose value is in the URL has the name as its key.
POOL = "pool"
CLUSTER = "cluster"
ACROSS = "across"  # of Compare: pools of one name across clusters; the value is CLUSTER
REPLICA = "replica"
PATH = "path"
COHORT = "cohort"
SHOW = "show"
SECTION = "section"
ABOUT = "about"  # the page that help is asked for
SEARCH = "search"  # words and filters: views/filters.py
SETTING = "setting"  # a search of its own: a search among replicas means nothing among settings
TAB = "tab"
REFERENCE = "reference"
COLUMNS = "columns"
ORIGIN = "origin"  # whether a setting was set
CHOSEN = "replicas"  # percent-encoded ids of those to compare, with commas between; `id@snapshot`: as it was then
MEASURE = "measure"
LENGTH = "length"
PER = "per"
VERSION, ROLE, LABEL = "version", "role", "label"
SORT = "sort"  # a column; after `-` from its largest value
FINDING = "finding"
NEW = "new"  # a range of time in which findings and differences came
RULES = "rules"  # outcomes of rules to list
FROM, TO = "from", "to"  # the two fleets of a comparison: the id of a snapshot, a time, or live
MANAGE = "manage"  # the snapshot whose dialog is open
CHECK, BASELINE = "check", "baseline"  # the dialog for baselines is open
CAUSE = "cause"  # of the fix plan: the key of the one that is open
ORDER = "order"  # of the fix plan: by its effect
MAP = "map"  # how the map of the fleet is coloured: by hit rate
RANGE = "range"  # of a timeline
AUDIT = "audit"  # shown in place of a timeline: who changed what
WHO, ACTION = "who", "action"  # in the audit log: a part of a name, and what was done
MEETING = "meeting"  # of the review: one section a screen, named by SECTION

# Choices that a page reads, besides the pool; it ignores all others.
_OWN: dict[str, set[str]] = {
    OVERVIEW: {SORT, CAUSE, ORDER, MAP},
    FINDINGS: {SEARCH, RULES, FINDING, SORT},
    COMPARE: {CHOSEN, SHOW, SEARCH, SECTION, ORIGIN, REFERENCE, COLUMNS, PATH, COHORT, CHECK, CAUSE, RANGE, ACROSS},
    CAPACITY: {MEASURE, LENGTH, PER},
    REPLICAS: {SEARCH, SORT, COLUMNS},
    SETTINGS: {SEARCH, PATH, VERSION, ROLE, LABEL, RANGE, SORT},
    STATUS: set(),
    HELP: {ABOUT},
    REPLICA_PAGE: {REPLICA, TAB, SETTING, SECTION, SHOW, RANGE},
    REVIEW: {FROM, NEW, SORT, MEETING, SECTION, CAUSE},
    SNAPSHOTS: {SEARCH, MANAGE},
    TIMELINE: {RANGE, SHOW, WHO, ACTION},
    CHANGES: {FROM, TO, PATH, REPLICA},
}
KNOWN = {page: {POOL, CLUSTER, *own} for page, own in _OWN.items()}  # both are scopes of all pages, in the header
SCOPED = {OVERVIEW, FINDINGS, COMPARE, CAPACITY, REPLICAS, SETTINGS, TIMELINE, CHANGES}  # of all pools or of one
CLUSTERED = {*SCOPED, REPLICA_PAGE, REVIEW}  # of all clusters or of one

# Choices that open a dialog.
DIALOGS = {OVERVIEW: (CAUSE,), COMPARE: (PATH, COHORT, CHECK, CAUSE), REVIEW: (CAUSE,), SNAPSHOTS: (MANAGE,)}

# Choices that every page reads: navigate.js and `links.to` add them to each link.
SNAPSHOT = "snapshot"  # the snapshot to show
AT = "at"  # the past time to show
SCREENSHOT = "screenshot"  # the clock stops and nothing moves
STILL = (SNAPSHOT, AT)  # which fleet is shown; links name it themselves, and may leave it
CARRIED = (*STILL, SCREENSHOT)

LIVE = "live"  # in place of a snapshot's id: the newest poll


def choices_of(fleet: Fleet) -> dict[str, str]:
    """Return the choices that open a fleet; none for the live one. The first digits of an id open a snapshot."""
    if fleet.snapshot is not None:
        return {SNAPSHOT: short_id(fleet.snapshot)}
    return {AT: write_time(fleet.past.at)} if fleet.past is not None else {}


def side_of(fleet: Fleet) -> str:
    """Return the name of a fleet as a side of a comparison: the id of its snapshot, its past time, or live."""
    return next(iter(choices_of(fleet).values()), LIVE)
