"""Every action of a visitor in the code has a role: what changes something is inside `audit.performed`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.access.visitor import ACTIONS, missing_role
from dashboard.config.access import AccessRole
from dashboard.store import writing
from dashboard.store.snapshots import Snapshots
from dashboard.views.audit import CHANGES
from tests.serving import ROOT

# What pages and routes may call anywhere, for it changes nothing that outlives the session. Whoever adds a call that is
# not here puts it into `with audit.performed(ACTION, ...)`, and ACTION with its role into ACTIONS.
READING = {
    "snapshots": {"all", "answers", "beginning", "fleet", "folder", "get", "listed", "named", "problem", "read_only"},
    "writing": set(),
}
FREE = {"export", "revoke"}  # actions that change neither snapshots nor findings


def parsed() -> Iterator[tuple[Path, ast.Module]]:
    folder = ROOT / "dashboard"
    for file in (folder / "access" / "auth.py", *sorted((folder / "web").rglob("*.py"))):
        yield file.relative_to(ROOT), ast.parse(file.read_text(encoding="utf-8"))


def is_performed(node: ast.With) -> bool:
    calls = (each.context_expr for each in node.items if isinstance(each.context_expr, ast.Call))
    return any(ast.unparse(each.func) == "audit.performed" for each in calls)


def calls_of(tree: ast.Module) -> Iterator[tuple[str, str, bool]]:
    """Yield the calls into the store: what is called, its name there, and whether it is inside an action."""
    inside = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and is_performed(node)
        for line in node.body
        for each in ast.walk(line)
    }
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dashboard.store.writing"
        for name in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "service.snapshots()":
            yield "snapshots", node.attr, id(node) in inside
        elif isinstance(node, ast.Name) and node.id in imported:
            yield "writing", node.id, id(node) in inside


def test_whatever_changes_snapshots_or_files_is_an_action() -> None:
    found = [(str(file), *call) for file, tree in parsed() for call in calls_of(tree)]
    outside = [each for each in found if not each[3] and each[2] not in READING[each[1]]]

    assert outside == []
    done = {name for _, _, name, is_inside in found if is_inside}
    assert done == {"save", "keep", "rename", "note", "delete", "export", "save_acceptance", "undo_acceptance"}


def test_nothing_that_writes_is_taken_for_reading() -> None:
    writes = {name for name, function in vars(Snapshots).items() if "_need_writable" in names_in(function)}
    writes |= {name for name, function in vars(writing).items() if "write_whole" in names_in(function)}

    assert writes >= {"keep", "delete", "_change"}
    assert writes.isdisjoint(READING["snapshots"] | READING["writing"])


def names_in(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return code.co_names if code else ()


def test_pages_keep_no_snapshots_under_another_name() -> None:
    """Calls through such a name would not be found; `earlier` reads."""
    bare = []
    for file, tree in parsed():
        parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node) == "service.snapshots()":
                parent = parents[id(node)]
                if not isinstance(parent, ast.Attribute) and not ast.unparse(parent).startswith("earlier("):
                    bare.append((str(file), ast.unparse(parent)))
    assert bare == []


def test_a_call_outside_of_an_action_is_found() -> None:
    (call,) = calls_of(ast.parse("def click():\n    service.snapshots().erase(key)\n"))
    assert call == ("snapshots", "erase", False)
    (call,) = calls_of(ast.parse("with audit.performed('erase', who):\n    service.snapshots().erase(key)\n"))
    assert call == ("snapshots", "erase", True)


def test_every_action_that_pages_do_has_a_role_and_every_role_is_of_an_action() -> None:
    named: set[str] = set()
    computed: set[str] = set()
    for _, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "audit.performed":
                first = node.args[0]
                named |= {str(first.value)} if isinstance(first, ast.Constant) else set()
                computed |= set() if isinstance(first, ast.Constant) else {ast.unparse(first)}

    assert computed == {"action", "_undo_of(entries)"}, "each of them is one of two actions"
    assert named | {"rename", "rename_of_another", "undo", "undo_of_another"} == set(ACTIONS)
    assert CHANGES.keys() | FREE == ACTIONS.keys(), "the page on who changed what names each of them"


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        (None, set()),
        (AccessRole.VIEWER, {"export"}),
        (AccessRole.EDITOR, {"export", "save", "note", "rename", "accept", "undo"}),
        (AccessRole.ADMIN, set(ACTIONS)),
    ],
)
def test_what_each_role_may_do(role: AccessRole | None, actions: set[str]) -> None:
    assert {each for each in [*ACTIONS, "format_disk"] if not missing_role(each, role)} == actions
