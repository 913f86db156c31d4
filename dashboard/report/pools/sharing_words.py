"""Who of a pool can share prefixes with whom, in words: between two cohorts, and of very many as lines."""

from collections.abc import Iterator

from dashboard.compare import PoolSharing, Share
from dashboard.compare.sharing import within
from dashboard.fleet.formatting import count, first_of

MOST_GROUPS = 8  # lines of the list; the rest is counted
MOST_LETTERS = 12  # of one group, before the rest is counted
SHARE_WORDS = {Share.YES: "yes", Share.NO: "no", Share.PARTLY: "partly", Share.UNKNOWN: "not known"}
SPLIT = {Share.NO, Share.PARTLY}
ABOUT = "This is about equal tokens: LoRA adapters, multimodal inputs and cache salts go into the hashes as well."


def group_lines(sharing: PoolSharing) -> list[str]:
    """List which cohorts share, the group with the largest cohort first, and which do not share within themselves."""
    lines = [first_of(letters, MOST_LETTERS) for letters in sharing.groups if len(letters) > 1]
    more = len(lines) - MOST_GROUPS
    said = [f"{line} hash alike" for line in lines[:MOST_GROUPS]]
    said += [f"{count(more, 'more group')} of cohorts that hash alike"] if more > 0 else []
    return [*said, *_exceptions(sharing)]


def _exceptions(sharing: PoolSharing) -> Iterator[str]:
    alone = [letters[0] for letters in sharing.groups if len(letters) == 1]
    split = [each.letter for each in sharing.cohorts if within(each).share in SPLIT]
    silent = [each.letter for each in sharing.cohorts if not each.tells]
    if alone:
        yield f"{first_of(alone, MOST_LETTERS)} can share with no other whole cohort"
    if split:
        yield f"not all replicas within {first_of(split, MOST_LETTERS)} can share with each other"
    if silent and len(silent) < len(sharing.cohorts):
        yield f"{first_of(silent, MOST_LETTERS)} {'does' if len(silent) == 1 else 'do'} not tell block hashes"
    partly = [each.letter for each in sharing.cohorts if each.silent and each.tells and each.letter not in split]
    if partly:
        yield f"not all replicas within {first_of(partly, MOST_LETTERS)} tell block hashes"
