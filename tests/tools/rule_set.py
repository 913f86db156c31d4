"""The digest of what rules find: written anew with `python -m tests.tools.rule_set` when RULE_SET was raised.

It is of the rules' code without docstrings and comments: what they say of themselves may change, what they find not.
"""

import ast
import hashlib
from pathlib import Path

from dashboard.rules.catalogue import RULE_SET

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboard" / "rules"
COMMITTED = ROOT / "tests" / "rules" / "rule_set.txt"


def digest(folder: Path = RULES) -> str:
    """Return the SHA-256 of the code below a folder, its comments, docstrings and layout and RULE_SET left out."""
    whole = hashlib.sha256()
    for file in sorted(folder.rglob("*.py"), key=lambda each: each.relative_to(folder).as_posix()):
        whole.update(file.relative_to(folder).as_posix().encode() + b"\0" + code_of(file.read_text()).encode() + b"\0")
    return whole.hexdigest()


def code_of(text: str) -> str:
    """Return code as its syntax tree, without docstrings and without the number of the rule set."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _says_nothing(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def line() -> str:
    """Return the line that is committed: the rule set and its digest."""
    return f"{RULE_SET} {digest()}\n"


def _says_nothing(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
    return is_text or names == ["RULE_SET"]


if __name__ == "__main__":
    COMMITTED.write_text(line())
