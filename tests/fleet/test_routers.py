"""The facts of a pool are those of its routers, in the order of the options."""

from datetime import UTC, datetime, timedelta

from dashboard.fleet import FactName, RouterConfig, RouterFact, RouterKind
from dashboard.fleet.routers import facts_of_pool

AT = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


def router(value: str, *pools: str) -> RouterConfig:
    return RouterConfig("a", RouterKind.LLM_D, pools, (RouterFact(FactName.BLOCK_SIZE, value, "http://a:80", AT),))


def test_routers_name_pools_or_globs() -> None:
    routers = (router("16", "chat"), router("32", "batch", "ch*"), router("64", "*"), router("128", "Chat", "c[h]"))
    assert [each.value for each in facts_of_pool(routers, "chat")] == ["16", "32", "64"]
    assert [each.value for each in facts_of_pool(routers, "c[h]")] == ["64", "128"]


def test_facts_are_equal_at_any_time() -> None:
    later = RouterFact(FactName.BLOCK_SIZE, "16", "http://a:80", AT + timedelta(hours=1))
    assert (later,) == router("16").facts
    assert RouterFact(FactName.BLOCK_SIZE, "32", "http://a:80", AT) != later
