"""The settings of one replica beside what most of its pool have."""

from dataclasses import replace

from dashboard.fleet import Document, Setting, SettingValue, Source, State
from dashboard.report.replicas.differences import Apart
from dashboard.report.replicas.settings import (
    LONGEST,
    NO_MAJORITY,
    NOT_COMPARED,
    SAME,
    TOP,
    ReadCoverage,
    comparable,
    filtered,
    identity_table,
    reach,
    settings_table,
)
from tests.builders import fleet, replica, setting

SETTINGS = {
    "version": setting("0.32.0"),
    "cache_config.block_size": setting(32),
    "cache_config.sizes": setting(list(range(500))),
    "model_config.dtype": setting("a\nb", source=Source.METRICS),
    "model_config.token": Setting('"x"', State.REDACTED, Source.SERVER_INFO),
    "model_config.seed": setting(None),
}
APART = (Apart("model_config.dtype", None), Apart("cache_config.block_size", SettingValue("16", State.REPORTED)))


def test_what_differs_comes_first_and_says_what_most_have() -> None:
    table = settings_table(SETTINGS, APART, {"cache_config.sizes"})
    assert table["path"].to_list()[:3] == ["cache_config.block_size", "model_config.dtype", "cache_config.sizes"]
    assert table["Most of its pool"].to_list()[:3] == ["≠ 16", NO_MAJORITY, SAME]


def test_what_nobody_else_tells_is_not_called_the_same() -> None:
    table = settings_table(SETTINGS, APART, {"cache_config.sizes", "model_config.token"}).set_index("path")
    assert table.loc["version", "Most of its pool"] == NOT_COMPARED
    assert table.loc["model_config.token", "Most of its pool"] == "not known"  # a secret has no value to compare
    assert reach(table, set("abcdefghi")) == ReadCoverage(read=6, compared=3, of_pool=9)


def test_comparable_is_what_another_replica_tells() -> None:
    (pool,) = fleet([replica()]).pools
    told = {"a.b": setting(1), "a.secret": Setting('"x"', State.REDACTED, Source.SERVER_INFO), "a.ignored": setting(2)}
    other = Document("other", None, told)
    assert comparable(replace(pool, ignored=("a.ignored",)), [other]) == {"a.b"}
    assert comparable(pool, []) == frozenset()


def row(path: str) -> dict[str, str]:
    """One row of the table."""
    table = settings_table(SETTINGS, ())
    return {str(name): str(value) for name, value in table[table["path"] == path].iloc[0].items()}


def test_a_setting_stands_in_its_section() -> None:
    assert (row("cache_config.block_size")["Section"], row("cache_config.block_size")["Setting"]) == (
        "cache_config",
        "block_size",
    )
    assert (row("version")["Section"], row("version")["Setting"]) == (TOP, "version")


def test_a_value_is_one_bounded_line_and_kept_whole_beside() -> None:
    assert row("model_config.dtype")["Value"] == '"a\\nb"'
    assert len(row("cache_config.sizes")["Value"]) == LONGEST
    assert row("cache_config.sizes")["whole"].endswith(" 499]")


def test_state_and_source_are_words() -> None:
    assert (row("model_config.seed")["Value"], row("model_config.seed")["State"]) == ("null", "not set")
    assert (row("model_config.token")["Value"], row("model_config.token")["State"]) == ("redacted", "redacted")
    assert row("model_config.dtype")["Told by"] == "/metrics"


def paths(section: str | None = None, search: str = "", *, only: bool = False) -> list[str]:
    """The settings that the filters leave."""
    kept = filtered(settings_table(SETTINGS, APART), section=section, search=search, only_differences=only)
    return sorted(kept["path"])


def test_filters_leave_what_matches_all_of_them() -> None:
    assert len(paths()) == 6
    assert paths("cache_config") == ["cache_config.block_size", "cache_config.sizes"]
    assert paths(search="CACHE size 499") == ["cache_config.sizes"]
    assert paths(only=True) == ["cache_config.block_size", "model_config.dtype"]
    assert paths("model_config", "dtype", only=True) == ["model_config.dtype"]
    assert paths(search=".*") == []


def test_no_setting_is_an_empty_table() -> None:
    assert settings_table({}, ()).empty


def test_identity_is_told_by_path() -> None:
    table = identity_table({"b.port": setting(8000), "a.id": setting("x")})
    assert table["Setting"].to_list() == ["a.id", "b.port"]
    assert table["Value"].to_list() == ["x", "8000"]
