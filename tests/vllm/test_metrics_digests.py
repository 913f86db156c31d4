"""GET /metrics with our provider: the digests of each engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.vllm.metrics import parse_metrics, read_digests
from tests.strategies import label_names, label_texts, rendered
from tests.vllm.test_metrics import INFO, START
from vllm_fleet_provider.shared.digests import SERIES, EngineDigests


def fleet_series(**labels: str) -> bytes:
    return f"{SERIES}{{{rendered(labels)}}} 1.0\n".encode()


KNOWN = {"document": "79e1387eb60126ad", "block_hash": "f30f3014fbe54354", "kv_layout": "98ef333f8f47c6c3"}
REST = {"adapters": "4f53cda18c2baa0c", "scheme": "1"}


def test_digests_are_read_for_each_engine() -> None:
    """Labels that Prometheus adds, and those of a later provider, are ignored."""
    first, second = (EngineDigests(rank, **KNOWN, **REST) for rank in (0, 1))
    own = fleet_series(engine="0", **KNOWN, **REST), fleet_series(instance="a:1", **REST, engine="1", **KNOWN, new="2")
    page = parse_metrics(INFO + b"".join(own) + START)

    assert page.digests == (first, second)
    assert page.lines == (INFO.decode().strip(), *(line.decode().strip() for line in own), START.decode().strip())
    assert parse_metrics(INFO).digests == ()


@pytest.mark.parametrize("text", ["", "[redacted]", "<script>", "a\nb", "ü", "0" * 129, "0123 4567"])
def test_a_label_that_is_no_digest_is_unknown(text: str) -> None:
    page = parse_metrics(INFO + fleet_series(**{"engine": "0", **KNOWN, **REST, "document": text, "scheme": text}))

    assert page.digests == (EngineDigests(0, **KNOWN, **REST)._replace(document=None, scheme=""),)
    assert parse_metrics(INFO + fleet_series(engine="7")).digests == (EngineDigests(7, scheme=""),)


@given(st.dictionaries(st.one_of(st.sampled_from(EngineDigests._fields), label_names), label_texts, max_size=8))
def test_any_labels_are_digests_or_unknown(labels: dict[str, str]) -> None:
    found = read_digests({**labels, "engine": "3"})

    assert found.engine == 3
    assert all(text in {None, "", labels.get(name)} for name, text in found._asdict().items() if name != "engine")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (fleet_series(engine="-1"), "names an engine '-1', which is no DP rank"),
        (fleet_series(**KNOWN), "names an engine '', which is no DP rank"),
        (fleet_series(engine="0", **KNOWN) + fleet_series(engine="0"), f"two series of {SERIES} for one engine"),
        (b"".join(fleet_series(engine=str(rank)) for rank in range(1025)), f"more than 1,024 series of {SERIES}"),
        (fleet_series(engine="0", document="0" * 40_000), "a line of"),
        (SERIES.encode() + b"{engine=0} 1\n", "a label that cannot be read"),
    ],
    ids=range(6),
)
def test_series_of_impossible_engines_are_refused(more: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        parse_metrics(INFO + more)
