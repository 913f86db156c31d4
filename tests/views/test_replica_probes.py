"""What the page of a replica shows of its probes, their raw answers, and how to add the provider."""

import pytest

from dashboard.fleet import (
    Failure,
    FailureKind,
    ProbeResult,
    ReplicaState,
    Reply,
    Setting,
    Source,
    State,
)
from dashboard.rules.behaviour.development_mode import PROVIDER_COMMAND
from dashboard.sources.polling.probes import INFERENCE_CONFIG
from dashboard.views.replica import LONGEST_RAW, raw_answer
from dashboard.views.replica_settings import (
    INSTALL,
    KEPT,
    KUBERNETES,
    NAMED,
    NO_ANSWER,
    UNKNOWN,
    UNSET,
    install_instructions,
)
from tests.builders import (
    HOSTILE,
    down,
    probe,
    replica,
    setting,
)
from tests.docs_pages import docs_page
from tests.views.test_replica import report, table, texts

READ = probe("/metrics", reply=Reply(Source.METRICS))


STRANGE = probe("/version", reply=Reply(Source.VERSION, not_understood=("a", "b")))


MISSING = probe("/v1/config", status=404)


FAILED = probe("/server_info", status=None, size_bytes=0, failure=Failure(FailureKind.TIMEOUT, "x\n" * 5000))


def test_probes_have_outcome_and_result_failures_first() -> None:
    rows = texts(table(report(replica(probes=(MISSING, READ, FAILED, STRANGE))), "probes"))

    assert [row[0] for row in rows] == ["✕ timeout", "✓ read", "✓ read", "– not found"]
    assert [row[-1] for row in rows][1:] == ["", "2 parts not recognized.", "This vLLM has no such path."]
    assert [row[2:5] for row in rows][:2] == [["", "", "12.0"], ["200", "2,048", "12.0"]]
    assert len(rows[0][-1]) == 300


@pytest.mark.parametrize(
    ("result", "text", "note"),
    [
        (probe("/v1/config", source=Source.SERVER_INFO, raw=b'{"a":["\xc3\xa4"]}'), '{\n  "a": [\n    "ä"\n  ]\n}', ""),
        (probe(raw=HOSTILE.encode(), size_bytes=0), HOSTILE, ""),
        (probe(raw=b"\xff\xfe", size_bytes=2), "��", ""),
        (probe(raw=b"[" * 20_000, size_bytes=0), "[" * 20_000, ""),
        (
            probe(raw=b"x" * (LONGEST_RAW + 1), size_bytes=0),
            "x" * LONGEST_RAW,
            "The first 60,000 of 60,001 characters.",
        ),
        (
            probe("/metrics", raw=b"a 1.0\nb 2.0\n", size_bytes=49_911),
            "a 1.0\nb 2.0\n",
            "Only used lines are kept: 2 lines of an answer of 49,911 bytes.",
        ),
    ],
)
def test_a_raw_answer_is_readable_and_says_what_is_left_out(result: ProbeResult, text: str, note: str) -> None:
    assert raw_answer(result) == (text, note)


REMARKS = (NO_ANSWER, KUBERNETES)


@pytest.mark.parametrize(
    ("plugins", "lines", "remarks"),
    [
        (
            setting(["lora_resolver", "mine"]),
            [INSTALL, "export VLLM_PLUGINS=lora_resolver,mine,fleet_config"],
            (KEPT, *REMARKS),
        ),
        (setting("mine"), [INSTALL, "export VLLM_PLUGINS=mine,fleet_config"], (KEPT, *REMARKS)),
        (setting(["mine", "fleet_config"]), [INSTALL], (NAMED,)),
        (setting(None), [INSTALL, PROVIDER_COMMAND], (UNSET, *REMARKS)),
        *(
            (each, [INSTALL, PROVIDER_COMMAND], (UNKNOWN, *REMARKS))
            for each in (
                None,
                Setting('"x"', State.REDACTED, Source.SERVER_INFO),
                *map(setting, ([""], [], {"a": 1}, "$(touch gone)", ["mine; touch gone"], ["mine\ntouch gone"])),
                setting(HOSTILE),
                setting(",".join("x" * 101 for _ in range(3))),
            )
        ),
    ],
)
def test_instructions_keep_the_plugins_and_never_run_reported_text(
    plugins: Setting | None, lines: list[str], remarks: tuple[str, ...]
) -> None:
    found = install_instructions(replica(), {"env.VLLM_PLUGINS": plugins} if plugins else {})

    assert found
    assert (found[0].splitlines(), found[1]) == (lines, remarks)


def test_instructions_are_left_out_where_the_provider_answers_or_may_be_locked() -> None:
    locked = probe(INFERENCE_CONFIG, status=401, failure=Failure(FailureKind.UNAUTHORIZED, "Unauthorized."))
    other = probe(failure=Failure(FailureKind.TIMEOUT, "No answer within 5 s."))

    assert install_instructions(replica(sources=(Source.PROVIDER, Source.METRICS)), {}) is None
    assert install_instructions(down(), {}) is None
    assert install_instructions(replica(probes=(locked,)), {}) is None
    assert install_instructions(replica(probes=(probe(INFERENCE_CONFIG, status=404), other)), {})
    assert install_instructions(replica(state=ReplicaState.PARTIAL), {})


def test_the_page_on_the_provider_has_the_same_commands() -> None:
    page = docs_page("provider")

    assert "## On Kubernetes" in page
    assert f"    {INSTALL}\n" in page
    assert f"    {PROVIDER_COMMAND}\n" in page
    assert ",fleet_config\n" in page
