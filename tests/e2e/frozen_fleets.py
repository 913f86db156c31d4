"""The frozen fleets of the browser tests, by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.demo import default_fleet
from dashboard.fleet import Baseline, FailureKind
from tests import builders
from tests.findings_builder import sighted
from tests.frozen import AT, frozen_fleet

STORY = "story"  # the simulated fleet, with findings in every pool
WAITING = "waiting"  # the first poll has not ended
NOTHING = "nothing"  # no target is configured
DOWN = "down"  # all replicas are unreachable, for different reasons
BARE = "bare"  # one pool without settings
AGREED = "agreed"  # the story, with a baseline
SEEN = "seen"  # the story, with a history
CLUSTERS = "clusters"  # one pool in three clusters: ap has an older version and another block size
UNIFORM = "uniform"  # one pool with identical replicas and no findings
NAME = "demo"
POLLED_AT = AT - timedelta(seconds=8)  # of fleets without a poll

REASONS = (
    (FailureKind.REFUSED, "Nothing listens there."),
    (FailureKind.TIMEOUT, "No answer within 5 s."),
    (FailureKind.UNAUTHORIZED, "401: an API key is wanted, and none is given for this target."),
    (FailureKind.DNS, "The name is not known."),
    (FailureKind.DECODE, "A page for people instead of metrics."),
)


@cache
def frozen(name: str) -> Fleet:
    """Return a fleet by its name. Each has its own generation, because pages are cached by generation and time."""
    number = list(_FLEETS).index(name)
    return replace(_FLEETS[name](), generation=number + 1)


def _waiting() -> Fleet:
    return empty_fleet(NAME)


def _nothing() -> Fleet:
    return builders.fleet(name=NAME, polled_at=POLLED_AT)


def _down() -> Fleet:
    members = [
        builders.down(f"{pool}-{number}", pool=pool, kind=kind, detail=detail)
        for pool in ("chat-70b", "embed-8b")
        for number, (kind, detail) in enumerate(REASONS)
    ]
    return builders.fleet(members, name=NAME, polled_at=POLLED_AT)


def _bare() -> Fleet:
    members = [builders.replica(f"chat-{number}") for number in range(1, 5)]
    return builders.fleet(members, name=NAME, polled_at=POLLED_AT)


def _uniform() -> Fleet:
    """Poll eight copies of the first replica of the story."""
    usual = next(each for each in default_fleet() if each.name == "chat-70b-01")
    return frozen_fleet(
        simulated=[replace(usual, name=f"chat-70b-{n:02}", address=f"127.1.0.{n}") for n in range(1, 9)],
        is_used=True,
    )


def _clusters() -> Fleet:
    """Poll four copies of the first replica of the story in each cluster; one of eu has another hash algorithm."""
    usual = next(each for each in default_fleet() if each.name == "chat-70b-01")
    odd = next(each for each in default_fleet() if each.name == "chat-70b-11").configuration
    blocks = (*usual.configuration.settings, ("cache_config.block_size", 32))
    old = replace(usual.configuration, version="0.32.0", settings=blocks)
    usual = replace(usual, configuration=replace(usual.configuration, version="0.32.1"))
    fleet = []
    for number, cluster in enumerate(("eu", "us", "ap")):
        for place in range(1, 5):
            one = replace(usual, name=f"{cluster}-{place}", address=f"127.1.{number}.{place}")
            one = replace(one, labels={"pool": "chat-70b", "cluster": cluster})
            fleet.append(replace(one, configuration=old) if cluster == "ap" else one)
    fleet[0] = replace(fleet[0], configuration=replace(odd, version="0.32.1"))
    return frozen_fleet(simulated=fleet, is_used=True)


def _agreed() -> Fleet:
    story = frozen(STORY)
    expected = {
        "cache_config.block_size": "16",
        "cache_config.prefix_caching_hash_algo": '"sha256_cbor"',
        "scheduler_config.max_num_seqs": "192",
    }
    baseline = Baseline("chat-70b", "chat-*", expected, file="baselines/chat-70b.yaml")
    return inspected(replace(story, policy=replace(story.policy, baselines=(baseline,))), AT)


def _seen() -> Fleet:
    return sighted(frozen(STORY))


_FLEETS: Mapping[str, Callable[[], Fleet]] = {
    STORY: partial(frozen_fleet, is_used=True),
    WAITING: _waiting,
    NOTHING: _nothing,
    DOWN: _down,
    BARE: _bare,
    UNIFORM: _uniform,
    CLUSTERS: _clusters,
    AGREED: _agreed,
    SEEN: _seen,
}
