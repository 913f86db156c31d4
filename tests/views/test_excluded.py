"""Replicas that were not read: what differs by address only is one group."""

from dashboard.analysis.assembly import inspected
from dashboard.fleet.pieces import to_plain
from dashboard.views.excluded import unread_entries
from dashboard.views.finding_list import fix_groups, full_entries, list_findings
from tests.builders import POLLED_AT, alike, document, down, fleet

SHARED = document()
DOWN = [
    down(name, pool=pool, detail=f"{name}:8000 refused the connection.")
    for name, pool in (("chat-9", "chat"), ("code-9", "code"))
]


def test_reasons_that_differ_in_the_address_only_are_one_entry() -> None:
    (entries,) = unread_entries(DOWN)
    (entry,) = entries.items

    assert to_plain(entry.head) == "chat-9 and code-9 down · connection refused"
    assert to_plain(entry.lines[0]) == "The replica refused the connection."


def test_the_reason_of_one_replica_keeps_its_address() -> None:
    (entries,) = unread_entries(DOWN[:1])

    assert to_plain(entries.items[0].lines[0]) == "chat-9:8000 refused the connection."


def test_findings_with_one_fix_at_other_addresses_are_one_group() -> None:
    members = [*alike("chat", 2, SHARED), *alike("code", 2, SHARED), *DOWN]
    built = inspected(fleet(members, [SHARED]), POLLED_AT)
    own = [each for each in list_findings(built).active if each.finding.rule == "ID-05"]
    (group,) = fix_groups(own)
    (entry,) = full_entries([group], built).items

    assert "What to do: Start vLLM at their addresses, or remove it from the targets." in map(to_plain, entry.lines)
