"""What fleet.yaml says of a pool holds under its own name first, else under the first glob."""

import pytest

from dashboard.rules.domain import Declared, Router
from dashboard.rules.policy import Policy

NAMED, FIRST, SECOND = (Declared(router=router) for router in (Router.NONE, Router.KV_EVENTS, Router.APPROXIMATE))


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("chat-70b", NAMED),
        ("chat-8b", FIRST),
        ("embed", SECOND),
        ("CHAT-8B", SECOND),
        ("[odd]", NAMED),
    ],
)
def test_the_name_goes_before_globs_and_an_earlier_glob_before_a_later(pool: str, said: Declared) -> None:
    policy = Policy(pools={"chat-*": FIRST, "*": SECOND, "chat-70b": NAMED, "[odd]": NAMED})

    assert policy.declared(pool) == said


def test_of_a_pool_that_nothing_matches_nothing_is_said() -> None:
    assert Policy(pools={"chat": NAMED}).declared("embed") == Declared()
