"""In which settings a document differs from the majority of its pool."""

from dashboard.fleet import Setting, SettingValue, Source, State
from dashboard.report.replicas.differences import Apart, apart_from_majority, numbers
from tests.builders import alike, document, fleet, replica

USUAL = document()
OTHER = document({"cache_config.block_size": 32, "model_config.max_logprobs": 5})


def test_every_value_that_is_not_the_majority_s_counts() -> None:
    one = fleet([*alike("chat", 4, USUAL), replica("odd", document=OTHER)], [USUAL, OTHER])
    (pool,) = one.pools
    assert apart_from_majority(pool, OTHER) == (
        Apart("cache_config.block_size", SettingValue("16", State.REPORTED)),
        Apart("model_config.max_logprobs", SettingValue("20", State.REPORTED)),
    )
    assert apart_from_majority(pool, USUAL) == ()


def test_of_a_tie_every_value_is_marked_and_none_counts() -> None:
    """One against one: nobody knows which is right, so nobody is called equal, and nobody is called odd."""
    tied = fleet([replica("a", document=USUAL), replica("b", document=OTHER)], [USUAL, OTHER])
    (pool,) = tied.pools
    assert [each.majority for each in apart_from_majority(pool, USUAL)] == [None, None]
    assert len(apart_from_majority(pool, OTHER)) == 2
    assert numbers(tied.pools, tied.documents) == {("chat", USUAL.id): 0, ("chat", OTHER.id): 0}


def test_what_a_document_does_not_tell_is_not_counted() -> None:
    silent = document({"cache_config.block_size": Setting('"x"', State.REDACTED, Source.METRICS)})
    (pool,) = fleet([*alike("chat", 4, USUAL), replica("odd", document=OTHER)], [USUAL, OTHER]).pools
    assert apart_from_majority(pool, silent) == ()


def test_an_option_that_is_not_set_differs_from_one_that_is() -> None:
    unset = document({"model_config.max_logprobs": None})
    (pool,) = fleet([*alike("chat", 4, USUAL), replica("odd", document=unset)], [USUAL, unset]).pools
    assert [each.path for each in apart_from_majority(pool, unset)] == ["model_config.max_logprobs"]


def test_a_section_that_is_null_is_told_by_its_leaves() -> None:
    """`kv_events_config: null` says that no publisher is set."""
    base = {path: value for path, value in USUAL.settings.items() if not path.startswith("kv_events_config")}
    null = document({**base, "kv_events_config": None}, base={})
    (pool,) = fleet([*alike("chat", 4, USUAL), replica("odd", document=null)], [USUAL, null]).pools
    assert [each.path for each in apart_from_majority(pool, null)] == ["kv_events_config.publisher"]


def test_differences_are_counted_once_per_document() -> None:
    one = fleet([*alike("chat", 4, USUAL), replica("odd", document=OTHER)], [USUAL, OTHER])
    assert numbers(one.pools, one.documents) == {("chat", USUAL.id): 0, ("chat", OTHER.id): 2}
