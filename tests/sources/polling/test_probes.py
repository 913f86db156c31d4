"""The table of probes."""

import pytest

from dashboard.sources.polling.probes import METRICS, PROBES, Probe
from dashboard.vllm.replies import READERS


def test_every_path_stands_once() -> None:
    assert len({probe.path for probe in PROBES}) == len(PROBES)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.path)
def test_every_path_has_a_reader(probe: Probe) -> None:
    assert probe is METRICS or probe.path.partition("?")[0] in READERS


def test_metrics_come_first_because_they_decide_whether_the_others_are_asked() -> None:
    assert PROBES[0] is METRICS


def test_the_last_probe_is_asked_at_every_poll_because_it_closes_the_connection() -> None:
    assert PROBES[-1].light
    assert PROBES[-1].needs is None
    assert PROBES[-1].unless is None


def test_a_light_poll_asks_for_what_changes_while_a_server_runs() -> None:
    assert [probe.path for probe in PROBES if probe.light] == ["/metrics", "/v1/models"]


def test_what_a_probe_waits_for_is_always_asked_before_it() -> None:
    for place, probe in enumerate(PROBES):
        before = {other.path for other in PROBES[:place] if not other.needs and not other.unless}
        assert {path for path in (probe.needs, probe.unless) if path} <= before, probe.path
