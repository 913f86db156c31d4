"""What would answer what is unknown: one line at the end of poll and check."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, Failure, FailureKind, Replica, Source
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.views.excluded import unknown_hint
from tests import builders
from tests.inspected_fleets import outcome

SKIPPED = outcome(kind=OutcomeKind.SKIPPED, reason="x: not reported")
PASSED = outcome()
KEY = Failure(FailureKind.UNAUTHORIZED, "wants a key")


def fleet(*replicas: Replica, outcomes: Sequence[Outcome] = (PASSED,)) -> Fleet:
    return replace(builders.fleet(replicas), inspection=Inspection(outcomes=tuple(outcomes)))


def several(number: int) -> list[Replica]:
    return [builders.replica(f"chat-{each}") for each in range(1, number + 1)]


def provided(name: str) -> Replica:
    return builders.replica(name, sources=(Source.PROVIDER, Source.METRICS))


def test_where_nothing_is_unknown_there_is_no_hint() -> None:
    assert unknown_hint(fleet(*several(2))) == ""
    assert unknown_hint(fleet()) == ""


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ([*several(5), provided("own")], "chat-1, chat-2, chat-3 and 2 more"),
        (several(4), "all 4 replicas"),
    ],
)
def test_a_skipped_rule_is_answered_by_the_provider(members: list[Replica], names: str) -> None:
    assert unknown_hint(fleet(*members, outcomes=[SKIPPED])) == (
        f"To answer what is unknown: install or load the provider on {names}."
    )


def test_only_pools_with_something_unknown_count() -> None:
    other = builders.replica("other", pool="other")

    assert "other" not in unknown_hint(fleet(*several(2), other, outcomes=[SKIPPED]))


@pytest.mark.parametrize("basis", [Basis.ASSUMED, Basis.UNKNOWN])
def test_a_capacity_that_is_no_exact_number_is_answered_by_the_provider(basis: Basis) -> None:
    inexact = builders.replica("b", engines=(builders.engine(basis=basis),))

    assert unknown_hint(fleet(*several(1), inexact)) == "To answer what is unknown: install or load the provider on b."
    assert unknown_hint(fleet(*several(1), builders.replica("c", engines=()))).endswith(
        "install or load the provider on c."
    )


@pytest.mark.parametrize(("unknown", "is_hinted"), [(1, False), (2, True)])
def test_what_an_unreachable_replica_would_report_is_not_answered_by_the_provider(
    unknown: int, *, is_hinted: bool
) -> None:
    members = (*several(2), builders.down("lost"))

    hint = unknown_hint(fleet(*members, outcomes=[outcome(unknown=unknown, unread=1)]))

    assert hint == (
        "To answer what is unknown: install or load the provider on chat-1 and chat-2." if is_hinted else ""
    )


def test_a_replica_that_wants_a_key_needs_credentials_first() -> None:
    locked = builders.replica("locked", probes=(builders.probe("/v1/models", failure=KEY),))

    assert unknown_hint(fleet(*several(1), locked, outcomes=[SKIPPED])) == (
        "To answer what is unknown: set a valid API key for locked (401); install or load the provider on chat-1."
    )


def test_the_rust_frontend_loads_no_provider() -> None:
    rust = builders.replica("rust", failure=Failure(FailureKind.FRONTEND, "Rust"), engines=())

    assert unknown_hint(fleet(rust, outcomes=[SKIPPED])) == ""


def test_hostile_names_are_one_short_line() -> None:
    hostile = builders.replica("x\n\x1b[31m" + "y" * 500)

    hint = unknown_hint(fleet(hostile, outcomes=[SKIPPED]))

    assert hint.isprintable()
    assert len(hint) < 200
