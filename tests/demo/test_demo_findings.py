"""What the dashboard finds in the simulated fleet: the story, and nothing beside it that would hide it."""

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, Source
from dashboard.rules.findings import Finding


def _named(fleet: Fleet) -> dict[str, Replica]:
    return {replica.name: replica for replica in fleet.replicas}


def _finding(fleet: Fleet, rule: str, pool: str) -> Finding:
    [found] = [each for each in fleet.inspection.findings if each.rule == rule and each.pools == (pool,)]
    return found


def _digests(fleet: Fleet, pool: str) -> list[str | None]:
    prints = [engine.fingerprint for each in fleet.replicas if each.pool == pool for engine in each.engines]
    return [told.engine if told else None for told in prints]


def test_three_things_are_critical_in_two_pools(demo_fleet: Fleet) -> None:
    found = [(each.rule, each.pools) for each in demo_fleet.inspection.findings if each.severity == "critical"]
    assert sorted(found) == [
        ("RT-01", ("chat-70b",)),
        ("RT-05", ("chat-70b",)),
        ("RT-06", ("deepseek-v3/decode",)),
    ]


def test_equal_settings_hide_that_no_two_ranks_of_the_decode_pool_can_share(demo_fleet: Fleet) -> None:
    """One cohort, no difference, eight digests: only the fingerprint shows it."""
    [pool] = [each for each in demo_fleet.pools if each.name == "deepseek-v3/decode"]
    assert (len(pool.cohorts), pool.differences) == (1, ())
    assert len(set(_digests(demo_fleet, pool.name)) - {None}) == len(pool.replicas) == 8
    assert set(_finding(demo_fleet, "RT-06", pool.name).replicas) == set(pool.replicas)


def test_both_ranks_of_a_prefill_replica_are_read_and_hash_differently(demo_fleet: Fleet) -> None:
    engines = _named(demo_fleet)["deepseek-v3-prefill-1"].engines
    assert [(engine.dp_rank, engine.basis) for engine in engines] == [(0, "reported"), (1, "reported")]
    assert len(set(_digests(demo_fleet, "deepseek-v3/prefill")) - {None}) == 4


def test_two_public_answers_of_one_replica_contradict_each_other_and_the_provider_is_kept(demo_fleet: Fleet) -> None:
    finding = _finding(demo_fleet, "ID-06", "gemma-27b")
    replica = _named(demo_fleet)["gemma-27b-03"]
    assert finding.replicas == (replica.id,)
    [contradiction] = replica.contradictions
    assert (contradiction.kept.source, contradiction.other.source) == (Source.PROVIDER, Source.PLUGIN)
    assert int(contradiction.other.value) > 4 * int(contradiction.kept.value)
    assert replica.engines[0].kv_cache_size_tokens == int(contradiction.kept.value)


def test_the_replica_without_prefix_cache_is_one_that_somebody_answers_for(demo_fleet: Fleet) -> None:
    [fingerprint] = [engine.fingerprint for engine in _named(demo_fleet)["gemma-27b-03"].engines]
    assert fingerprint is not None
    assert (fingerprint.engine, fingerprint.reason) == (None, "prefix caching is off, so this engine hashes no blocks")
    suppressed = [each for each in demo_fleet.inspection.suppressed if each.rule == "RT-13"]
    assert [each.pools for each in suppressed] == [("gemma-27b",)]


def test_two_versions_of_the_hybrid_pool_are_told_apart_and_known_to_hash_alike(demo_fleet: Fleet) -> None:
    one, other = (_named(demo_fleet)[name] for name in ("gemma-27b-04", "gemma-27b-05"))
    assert (one.version, other.version) == ("0.32.1", "0.32.0")
    assert [engine.fingerprint for engine in one.engines] == [engine.fingerprint for engine in other.engines]


def test_the_chat_pool_is_three_cohorts_though_all_tell_everything(demo_fleet: Fleet) -> None:
    [pool] = [each for each in demo_fleet.pools if each.name == "chat-70b"]
    assert [len(cohort.replicas) for cohort in pool.cohorts] == [14, 1, 1]
    assert {Source.PROVIDER in each.sources for each in demo_fleet.replicas if each.id in pool.cohorts[0].replicas} == {
        True
    }
