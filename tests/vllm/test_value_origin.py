"""Whether a value was set, is a default, or was derived: by argument, version, and field reference."""

import pytest

from dashboard.fleet import Argument, SettingValue, State
from dashboard.vllm.value_origin import ValueOrigin, declaration, is_set, setting_arguments, value_origin

UTILIZATION, SIZE = "cache_config.gpu_memory_utilization", "cache_config.block_size"
CACHING = "cache_config.enable_prefix_caching"


def arguments(*names: str) -> tuple[Argument, ...]:
    return tuple(Argument(name, "command_line") for name in names)


def origin(path: str, text: str, given: tuple[Argument, ...] | None, version: str | None = "0.32.0") -> ValueOrigin:
    state = State.NULL if text == "null" else State.REPORTED
    return value_origin(path, SettingValue(text, state), version, given)


@pytest.mark.parametrize(
    ("path", "text", "names", "expected"),
    [
        (UTILIZATION, "0.92", ("--gpu-memory-utilization",), ValueOrigin.SET),  # also the default
        (UTILIZATION, "0.92", ("--device-memory-utilization",), ValueOrigin.SET),
        (UTILIZATION, "0.92", (), ValueOrigin.DEFAULT),
        (UTILIZATION, "0.8", (), ValueOrigin.DERIVED),
        (SIZE, "null", (), ValueOrigin.DEFAULT),
        (SIZE, "16", (), ValueOrigin.DERIVED),
        (CACHING, "false", ("--no-enable-prefix-caching",), ValueOrigin.SET),
        (CACHING, "true", (), ValueOrigin.UNKNOWN),  # its default is computed
        ("parallel_config.tensor_parallel_size", "2", ("-tp",), ValueOrigin.SET),
        ("parallel_config.tensor_parallel_size", "1", ("--unknown", "-x"), ValueOrigin.DEFAULT),
        ("compilation_config.mode", "3", ("--compilation-config.mode",), ValueOrigin.SET),
        ("compilation_config.mode", "3", ("-cc.mode",), ValueOrigin.SET),
        ("compilation_config.mode", "3", ("--compilation-config.level",), ValueOrigin.DERIVED),
        ("optimization_level", "3", ("--optimization-level",), ValueOrigin.SET),
        ("env.VLLM_USE_RUST_FRONTEND", "true", ("VLLM_USE_RUST_FRONTEND",), ValueOrigin.SET),
        ("additional_config", '{"a":{"b":1}}', ("--additional-config.a.b",), ValueOrigin.SET),
        ("seed_policy", '"default"', (), ValueOrigin.UNKNOWN),  # the field reference has no such setting
    ],
)
def test_the_origin_of_a_value(path: str, text: str, names: tuple[str, ...], expected: ValueOrigin) -> None:
    assert origin(path, text, arguments(*names)) is expected


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("0.8", "0.32.0", ValueOrigin.OTHER),
        ("0.92", "0.32.0", ValueOrigin.UNKNOWN),  # the default, or set to it
        ("0.92", "0.12.0", ValueOrigin.OTHER),
        ("0.9", "0.12.0", ValueOrigin.UNKNOWN),
        ("0.9", None, ValueOrigin.UNKNOWN),
        ("0.9", "nightly", ValueOrigin.UNKNOWN),
    ],
)
def test_without_arguments_no_value_is_set(text: str, version: str | None, expected: ValueOrigin) -> None:
    assert origin(UTILIZATION, text, None, version) is expected


def test_a_value_in_place_of_null_may_be_computed_by_vllm() -> None:
    """A server without --block-size reports the size that vLLM chose."""
    assert origin(SIZE, "128", None) is ValueOrigin.UNKNOWN


@pytest.mark.parametrize("state", [State.REDACTED, State.ABSENT, State.UNSUPPORTED, State.UNKNOWN])
def test_what_has_no_value_has_no_origin(state: State) -> None:
    given = arguments("--block-size")
    assert value_origin(SIZE, SettingValue("null", state), "0.32.0", given) is ValueOrigin.UNKNOWN


def test_numbers_are_compared_by_value_and_true_is_not_one() -> None:
    path = "offload_config.uva.cpu_offload_gb"
    known = declaration(path, "0.32.0")
    assert known is not None
    assert known.default == "0"
    assert [origin(path, text, ()) for text in ("0", "0.0", "false", "1")] == [
        ValueOrigin.DEFAULT,
        ValueOrigin.DEFAULT,
        ValueOrigin.DERIVED,
        ValueOrigin.DERIVED,
    ]


@pytest.mark.parametrize(
    ("path", "version", "default"),
    [
        (UTILIZATION, "0.12.0", "0.9"),
        (UTILIZATION, "0.19.0", "0.9"),
        (UTILIZATION, "0.20.0", "0.92"),
        (UTILIZATION, "0.33.0+cpu", "0.92"),
        (UTILIZATION, "0.40.0", "0.92"),
        (UTILIZATION, "0.20.0rc1", None),  # between two declarations
        (UTILIZATION, "0.11.0", None),
        (UTILIZATION, "", None),
        ("compilation_config.level", "0.17.0", "null"),
        ("compilation_config.level", "0.18.0", None),
        ("no.such_setting", "0.32.0", None),
    ],
)
def test_the_default_of_a_version(path: str, version: str, default: str | None) -> None:
    known = declaration(path, version)
    assert (known.default if known else None) == default


def test_the_first_place_of_an_argument_counts() -> None:
    given = (Argument("--block-size", "command_line"), Argument("--block-size", "config_file"))
    assert setting_arguments(given, None)[SIZE].source == "command_line"


@pytest.mark.parametrize(
    ("path", "given", "version", "expected"),
    [
        (SIZE, arguments("--block-size"), "0.32.0", True),
        (SIZE, (), "0.32.0", False),
        (CACHING, (), "0.32.0", False),  # its default is computed
        (SIZE, None, "0.32.0", None),
        (SIZE, (), None, None),
        ("seed_policy", (), "0.32.0", None),
        (SIZE, arguments("--block-size"), None, True),
    ],
)
def test_a_setting_is_set_by_an_argument_or_not_or_it_is_unknown(
    path: str, given: tuple[Argument, ...] | None, version: str | None, *, expected: bool | None
) -> None:
    assert is_set(path, version, given) is expected
