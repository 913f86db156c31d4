"""ApplyMethod a setting takes its value, and which values are left to people."""

import pytest

from dashboard.fleet import Baseline, Setting, SettingValue, Source, State, Tolerance
from dashboard.rules.apply_method import ApplyMethod, apply_methods, derived_paths, is_misfit, manual_methods
from dashboard.rules.remedy import pasteable
from dashboard.vllm.canonical import canonical_text


def told(*values: str) -> list[SettingValue]:
    """Return values as they are told."""
    return [SettingValue(each, State.REPORTED) for each in values]


@pytest.mark.parametrize(
    ("path", "wanted", "others", "is_one"),
    [
        ("cache_config.block_size", '"sixteen"', ("16", "32"), True),
        ("cache_config.block_size", "true", ("16",), True),
        ("cache_config.enable_prefix_caching", '"yes"', ("true", "false"), True),
        ("cache_config.block_size", "64", ("16",), False),
        ("model_config.dtype", '"half"', ('"auto"',), False),
        ("a.b", '"auto"', ("1", '"auto"'), False),
        ("a.b", '"x"', (), False),
        ("compilation_config.cudagraph_mode", '"FULL"', ("2",), False),
        ("compilation_config.pass", '"x"', ("[1]",), False),
    ],
)
def test_a_text_where_all_tell_a_number_or_a_switch_is_no_value(
    path: str, wanted: str, others: tuple[str, ...], *, is_one: bool
) -> None:
    """What stands for a number by its name is one, and so is what another replica tells as text."""
    assert is_misfit(path, told(wanted)[0], told(*others)) is is_one


def test_what_is_not_set_fits_everywhere() -> None:
    """To take an option away is to set no wrong value."""
    assert not is_misfit("cache_config.block_size", SettingValue("null", State.NULL), told("16"))


def test_only_ranges_without_a_usual_value_and_misfits_are_manual_methods() -> None:
    """A set has a first value to propose."""
    baseline = Baseline(
        "agreed",
        "chat",
        {"a.size": '"sixteen"', "a.seed": "1"},
        {"a.low": Tolerance((), 1, 2), "a.high": Tolerance((), 1, 2), "a.set": Tolerance(("1", "2"))},
    )
    paths = [*baseline.expected, *baseline.tolerated, "other.inner"]

    assert manual_methods(baseline, {"a.high": told("2")[0]}, lambda _: told("16"), paths) == {
        "a.size": ApplyMethod.MISFIT,
        "a.low": ApplyMethod.CHOICE,
    }


SEQS, TOKENS = "scheduler_config.max_num_seqs", "scheduler_config.max_num_batched_tokens"
SIZES, LARGEST = "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size"
OWN = canonical_text([1, 2, 4, *range(8, 257, 8)])  # what vLLM derives of 128 requests


def left_of(expected: dict[str, str], tolerated: dict[str, Tolerance], *ignored: str, seqs: str = "64") -> set[str]:
    """Return which of the expected paths cannot be agreed on, in a pool that tells this limit of requests."""
    baseline = Baseline("agreed", "chat", expected, tolerated, ignored)
    pool = {SEQS: told(seqs), TOKENS: told("8192")}
    left = manual_methods(baseline, {}, lambda path: pool.get(path, []), list(expected))
    return {path for path, how in left.items() if how is ApplyMethod.OPEN}


@pytest.mark.parametrize(
    "tolerance",
    [Tolerance(("64", "128")), Tolerance((), 64, 128), Tolerance((), 128), Tolerance((), None, 128)],
)
def test_sizes_that_follow_from_a_tolerated_limit_cannot_be_agreed_on(tolerance: Tolerance) -> None:
    assert left_of({SIZES: OWN, LARGEST: "256", TOKENS: "8192"}, {SEQS: tolerance}) == {SIZES, LARGEST}


def test_so_it_is_with_a_limit_that_is_ignored_or_that_the_pool_tells() -> None:
    assert left_of({SIZES: OWN, SEQS: "128"}, {}, "scheduler_*") == {SIZES}
    assert left_of({SIZES: OWN}, {}, SEQS, seqs="128") == {SIZES}
    assert left_of({SIZES: OWN}, {SEQS: Tolerance((), 1, float("inf"))}, seqs="128") == {SIZES}


def test_sizes_that_people_chose_or_of_one_agreed_limit_can_be_agreed_on() -> None:
    """Of any limit that is allowed vLLM derives others, so they are set by hand."""
    assert left_of({SIZES: "[1,2,4]", LARGEST: "4"}, {SEQS: Tolerance(("64", "128"))}) == set()
    assert left_of({SIZES: OWN, SEQS: "128"}, {}) == set()


def test_what_else_follows_from_a_tolerated_limit_cannot_be_agreed_on_unless_it_is_set() -> None:
    ranges, scheduled = "compilation_config.compile_ranges_endpoints", "scheduler_config.max_num_scheduled_tokens"

    assert left_of({ranges: "[4096]", scheduled: "100"}, {TOKENS: Tolerance(("4096", "8192"))}) == {ranges}


def test_what_is_manual_methods_goes_before_how_it_could_be_set() -> None:
    """And no other path is spoken of."""
    wanted = {"cache_config.block_size": told("16")[0]}

    assert apply_methods(wanted, derives_sizes=True) == {"cache_config.block_size": ApplyMethod.FLAG}
    left = {"cache_config.block_size": ApplyMethod.CHOICE, "seed": ApplyMethod.MISFIT}
    assert apply_methods(wanted, derives_sizes=True, left=left) == {"cache_config.block_size": ApplyMethod.CHOICE}


@pytest.mark.parametrize("off", ["false", "0", '"0"'])
def test_development_mode_is_switched_off_in_one_way(off: str) -> None:
    """The variable is taken away, as CO-14 says it; other variables are set to 0."""
    (value,) = told(off)
    snippet = pasteable("env.VLLM_SERVER_DEV_MODE", value)

    assert snippet is not None
    assert snippet.text == "unset VLLM_SERVER_DEV_MODE"
    assert apply_methods({"env.VLLM_SERVER_DEV_MODE": value}, derives_sizes=True) == {
        "env.VLLM_SERVER_DEV_MODE": ApplyMethod.NO_VARIABLE
    }
    other = pasteable("env.VLLM_X", value)
    assert other is not None
    assert other.text == "export VLLM_X=0"


def test_plugins_stand_in_one_order() -> None:
    """However a replica tells them: vLLM only asks whether a name is among them."""
    texts = {pasteable("env.VLLM_PLUGINS", each).text for each in told('["b","a"]', '["a","b"]')}  # type: ignore[union-attr]

    assert texts == {"export VLLM_PLUGINS=a,b"}
    order = pasteable("env.VLLM_OTHER", told('["b","a"]')[0])
    assert order is not None
    assert order.text == "export VLLM_OTHER=b,a"


def test_a_value_that_follows_from_another_setting_is_derived() -> None:
    def setting(value: object) -> Setting:
        return Setting(canonical_text(value), State.REPORTED, Source.SERVER_INFO)

    names, name = "served_model_names", "model_config.served_model_name"

    assert derived_paths({names: setting(["chat", "gpt"]), name: setting("chat")}) == {name}
    assert derived_paths({names: setting(["chat", "gpt"]), name: setting("gpt")}) == set()
