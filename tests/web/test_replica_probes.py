"""The probes of one replica: what became of each, and its raw answer."""

import pandas as pd

from dashboard.fleet import Failure, FailureKind, Reply, Source
from dashboard.web.replica_probes import LONGEST, NOT_HERE, in_order, probes_table, raw_of
from tests.builders import HOSTILE, probe

READ = probe("/metrics", reply=Reply(Source.METRICS))
STRANGE = probe("/version", reply=Reply(Source.VERSION, not_understood=("a", "b")))
MISSING = probe("/v1/config", status=404)
FAILED = probe("/server_info", status=None, size_bytes=0, failure=Failure(FailureKind.TIMEOUT, "No answer within 5 s."))


def test_every_probe_says_what_became_of_it_failures_first() -> None:
    table = probes_table([MISSING, READ, FAILED, STRANGE])
    assert table["Outcome"].to_list() == ["✕ timeout", "✓ read", "✓ read", "– not here"]
    assert table["What became of it"].to_list() == ["No answer within 5 s.", "", "2 parts not understood.", NOT_HERE]
    assert [probe.path for probe in in_order([MISSING, READ, FAILED])] == ["/server_info", "/metrics", "/v1/config"]


def test_status_size_and_duration_are_numbers() -> None:
    table = probes_table([READ, FAILED])
    assert table["Status"].to_list()[1] == 200
    assert table["Bytes"].to_list()[1] == 2048
    assert table["ms"].to_list()[1] == 12
    assert pd.isna(table["Status"].iloc[0])
    assert pd.isna(table["Bytes"].iloc[0])


def test_a_long_sentence_is_cut() -> None:
    told = probe(failure=Failure(FailureKind.DECODE, "x\n" * 5000))
    assert len(probes_table([told])["What became of it"].iloc[0]) == 300


def test_json_is_indented() -> None:
    raw = raw_of(probe("/v1/config", source=Source.SERVER_INFO, raw=b'{"b":1,"a":["\xc3\xa4"]}'))
    assert (raw.text, raw.language, raw.left_out) == ('{\n  "b": 1,\n  "a": [\n    "ä"\n  ]\n}', "json", "")


def test_what_is_no_json_is_shown_as_it_came() -> None:
    assert raw_of(probe(raw=HOSTILE.encode(), size_bytes=0)) == (HOSTILE, None, "")
    assert raw_of(probe(raw=b"\xff\xfe")).text == "��"
    assert raw_of(probe(raw=b"[" * 20_000)).language is None


def test_a_long_answer_is_cut_and_says_so() -> None:
    raw = raw_of(probe(raw=b"x" * (LONGEST + 1)))
    assert len(raw.text) == LONGEST
    assert raw.left_out.endswith("The first 60,000 of 60,001 characters.")


def test_of_metrics_only_the_lines_used_were_kept() -> None:
    """An answer shorter than what came would else look like all of it."""
    told = raw_of(probe("/metrics", raw=b"a 1.0\nb 2.0\n", size_bytes=49_911)).left_out
    assert told == "Only the lines that are used were kept: 2 lines of an answer of 49,911 bytes."
    assert raw_of(probe("/metrics", raw=b"a 1.0\n", size_bytes=6)).left_out == ""
    assert raw_of(probe("/version", source=Source.VERSION, raw=b"{}", size_bytes=20)).left_out == ""
