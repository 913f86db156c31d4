"""Writes dashboard/vllm/field_reference.json: type, default, CLI flags and versions of each vLLM setting.

    python -m tests.tools.field_reference

takes the newest patch of each minor version since 0.12 from the package index, reads its source and deletes it.
"""

import ast
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from tests.tools.unset_variables import Computed, unset_value

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "dashboard" / "vllm" / "field_reference.json"
FIRST = Version("0.12")
READ = re.compile(r"vllm/(config/.*|envs|engine/arg_utils|entrypoints/[a-z]+/cli_args)\.py")  # in a wheel
FRONT_ENDS = ("BaseFrontendArgs", "FrontendArgs")  # before 0.20 and since; their fields have no section

Literal = None | bool | int | float | str | list[Any] | dict[str, Any]


class Declared(NamedTuple):
    """A setting as one version declares it. `default` is a literal, or the expression that computes it."""

    type: str
    default: Literal | Computed
    flags: tuple[str, ...] = ()


# --- Source of one version -----------------------------------------------------------------------------------------


class Source:
    """The configuration classes and constants of one version, by name.

    Names are unique in `vllm/config`, apart from imports of the same object.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        trees = {name: ast.parse(text) for name, text in files.items()}
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        self.members: dict[str, ast.expr] = {}  # `DEFAULT_MAX_NUM_SEQS` of a class, which its fields name alone
        for name, tree in sorted(trees.items()):
            if name.startswith("vllm/config/") or name.endswith("cli_args.py"):
                for each in tree.body:
                    if isinstance(each, ast.ClassDef):
                        self.classes[each.name] = each
                        self.members |= _constants_of(each)
                    elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                        self.constants[each.targets[0].id] = each.value
                    elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value:
                        self.constants[each.target.id] = each.value
        self.arguments = trees["vllm/engine/arg_utils.py"]
        self.environment = trees["vllm/envs.py"]

    def fields(self, name: str) -> dict[str, ast.AnnAssign]:
        """Return the fields of a configuration class and its bases, by name."""
        found: dict[str, ast.AnnAssign] = {}
        for base in self.classes[name].bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                found |= self.fields(base.id)
        for each in self.classes[name].body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not _is_hidden(each):
                found[each.target.id] = each
        return found

    def type(self, annotation: ast.expr) -> str:
        """Return a type as text, with the values of aliases."""
        parsed = ast.parse(ast.unparse(annotation), mode="eval").body  # a copy
        return ast.unparse(_Aliases(self.constants).visit(parsed))

    def section(self, annotation: ast.expr) -> str | None:
        """Return the configuration class that a field has, alone or next to None."""
        names = [each for each in _alternatives(annotation) if each != "None"]
        return names[0] if len(names) == 1 and names[0] in self.classes and self._has_fields(names[0]) else None

    def _has_fields(self, name: str) -> bool:
        return bool(self.fields(name))

    def default(self, value: ast.expr | None) -> Literal | Computed:
        """Return the default of a field: the literal, or the expression that computes it."""
        if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in ("Field", "field"):
            given = {each.arg: each.value for each in value.keywords}
            if "default_factory" in given:
                return _made_by(given["default_factory"], self)
            if "default" not in given and not value.args:
                return Computed("set by vLLM" if "init" in given else "required")
            value = given.get("default", value.args[0] if value.args else None)
        if value is None:
            return Computed("required")
        return self.literal(value)

    def literal(self, value: ast.expr) -> Literal | Computed:
        """Return the literal that an expression is, also by the name of a constant."""
        if isinstance(value, ast.Name) and (meant := self.constants.get(value.id, self.members.get(value.id))):
            known = self.literal(meant)
            return Computed(value.id) if isinstance(known, Computed) else known
        try:
            found = ast.literal_eval(value)
            json.dumps(found)
        except (ValueError, TypeError):
            return Computed(ast.unparse(value))
        return list(found) if isinstance(found, tuple) else found


def _constants_of(owner: ast.ClassDef) -> dict[str, ast.expr]:
    fields = [each for each in owner.body if isinstance(each, ast.AnnAssign)]
    own = [each for each in fields if ast.unparse(each.annotation).startswith("ClassVar")]
    return {ast.unparse(each.target): each.value for each in own if each.value}


class _Aliases(ast.NodeTransformer):
    """Writes the values of an alias in its place: `CacheDType` is a `Literal`."""

    def __init__(self, constants: Mapping[str, ast.expr]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> Any:
        meant = self._constants.get(node.id)
        is_alias = isinstance(meant, ast.Subscript) and ast.unparse(meant.value) == "Literal"
        return self.visit(meant) if is_alias and meant else node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        name = ast.unparse(node.value)
        if name == "SkipValidation":
            return self.visit(node.slice)
        node = ast.Subscript(node.value, self.visit(node.slice))
        if name == "Literal":
            values = list({ast.unparse(each): each for each in _values_of(node)}.values())
            return ast.Subscript(node.value, ast.Tuple(values) if len(values) > 1 else values[0])
        return node


def _values_of(literal: ast.Subscript) -> Iterator[ast.expr]:
    """Yield the values of a `Literal`, also those of a `Literal` in it."""
    for each in literal.slice.elts if isinstance(literal.slice, ast.Tuple) else [literal.slice]:
        if isinstance(each, ast.Subscript):
            yield from _values_of(each)
        else:
            yield each


def _is_hidden(field: ast.AnnAssign) -> bool:
    return ast.unparse(field.annotation).startswith(("ClassVar", "InitVar"))


def _alternatives(annotation: ast.expr) -> list[str]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_alternatives(annotation.left), *_alternatives(annotation.right)]
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _alternatives(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "SkipValidation":
        return _alternatives(annotation.slice)
    return [ast.unparse(annotation)]


def _made_by(factory: ast.expr, source: Source) -> Literal | Computed:
    empty: Mapping[str, Literal] = {"list": [], "dict": {}, "set": [], "Counter": {}}
    if isinstance(factory, ast.Lambda):
        return source.literal(factory.body)
    name = ast.unparse(factory)
    return empty[name] if name in empty else Computed(name)


# --- Settings of one version ---------------------------------------------------------------------------------------


def declared(source: Source) -> dict[str, Declared]:
    """Return the settings of a version by path: those of `VllmConfig`, and environment variables as `env.NAME`."""
    return dict([*_front_end(source), *_settings(source, "VllmConfig", "", _arguments(source)), *_variables(source)])


def _front_end(source: Source) -> Iterator[tuple[str, Declared]]:
    """Yield (path, setting) of the options of the API server: argparse makes their flags of their names."""
    owner = next(each for each in FRONT_ENDS if each in source.classes)
    for name, field in source.fields(owner).items():
        yield name, Declared(source.type(field.annotation), source.default(field.value), (_flag_of(name),))


def _flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _Argument(NamedTuple):
    """A command-line argument: its flags, and whether vLLM computes the value where it is not given."""

    flags: tuple[str, ...] = ()
    is_computed: bool = False


def _settings(
    source: Source, owner: str, prefix: str, arguments: Mapping[tuple[str, str], _Argument]
) -> Iterator[tuple[str, Declared]]:
    """Yield (path, setting) below a configuration class, sections included."""
    for name, field in source.fields(owner).items():
        path = f"{prefix}{name}"
        section = source.section(field.annotation)
        is_copy = owner == "SpeculativeConfig" and name.startswith(("target_", "draft_"))  # of another section
        if section is not None and section != owner and not is_copy:
            yield from _settings(source, section, f"{path}.", arguments)
        argument = arguments.get((owner, name), _Argument())
        default = source.default(field.value)
        if argument.is_computed and default is not None:
            default = Computed("EngineArgs.create_engine_config")
        yield path, Declared(source.type(field.annotation), default, argument.flags)


def _arguments(source: Source) -> dict[tuple[str, str], _Argument]:
    """Return the argument of each field: `group.add_argument("--x", **x_kwargs["field"])` in `EngineArgs.add_cli_args`.

    `{**x_kwargs["field"], "default": None}` leaves the value to `EngineArgs.create_engine_config`.
    """
    owners = {}
    found: dict[tuple[str, str], _Argument] = {}
    (method,) = (
        each
        for each in ast.walk(source.arguments)
        if isinstance(each, ast.FunctionDef) and each.name == "add_cli_args" and "get_kwargs" in ast.unparse(each)
    )
    for each in ast.walk(method):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and _is_call(each.value, "get_kwargs"):
            owners[ast.unparse(each.targets[0])] = ast.unparse(each.value.args[0])
    for call in ast.walk(method):
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith(".add_argument"):
            continue
        flags = tuple(str(each.value) for each in call.args if isinstance(each, ast.Constant))
        is_computed = "'default': None" in ast.unparse(call)
        for each in ast.walk(call):
            if isinstance(each, ast.Subscript) and (owner := owners.get(ast.unparse(each.value))):
                found[owner, ast.literal_eval(each.slice)] = _Argument(flags, is_computed)
    return found


def _is_call(call: ast.Call, name: str) -> bool:
    return ast.unparse(call.func) == name


# --- Environment variables -----------------------------------------------------------------------------------------


def _variables(source: Source) -> Iterator[tuple[str, Declared]]:
    """Yield (path, setting) of each variable: its type for type checkers, its default from the code that reads it."""
    types = {
        ast.unparse(each.target): ast.unparse(each.annotation)
        for part in source.environment.body
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"
        for each in part.body
        if isinstance(each, ast.AnnAssign)
    }
    for part in source.environment.body:
        if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "environment_variables":
            assert isinstance(part.value, ast.Dict)
            for key, value in zip(part.value.keys, part.value.values, strict=True):
                name = ast.literal_eval(ast.unparse(key)) if key else ""
                yield f"env.{name}", Declared(types.get(name, "str"), unset_value(value))


# --- The data file -------------------------------------------------------------------------------------------------


def spans(found: Mapping[str, Mapping[str, Declared]]) -> dict[str, list[dict[str, Any]]]:
    """Return per path what consecutive versions declare alike. `found` is by version, oldest first.

    `until` is the last version that has the setting, where a later one lacks it.
    """
    versions = list(found)
    known: dict[str, list[dict[str, Any]]] = {}
    for path in sorted({path for each in found.values() for path in each}):
        rows = known[path] = []
        before = None
        for place, version in enumerate(versions):
            own = found[version].get(path)
            if own is None:
                if before is not None:
                    rows[-1]["until"] = versions[place - 1]
            elif own != before:
                rows.append({"since": version, **_row(own)})
            before = own
    return known


def _row(own: Declared) -> dict[str, Any]:
    is_computed = isinstance(own.default, Computed)
    default = {"computed": own.default.symbol} if isinstance(own.default, Computed) else {"default": own.default}
    assert is_computed or json.loads(json.dumps(own.default)) == own.default
    return {"type": own.type, **default, **({"flags": list(own.flags)} if own.flags else {})}


def text_of(digests: Mapping[str, str], known: Mapping[str, Any]) -> str:
    """Return the data file: one line per version and setting."""
    parts = (("versions", digests), ("settings", known))
    blocks = (
        f'"{name}": {{\n' + ",\n".join(f"{json.dumps(key)}: {json.dumps(own)}" for key, own in part.items()) + "\n}"
        for name, part in parts
    )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


# --- Wheels --------------------------------------------------------------------------------------------------------


def newest_patches() -> list[str]:
    """Return the newest patch of each minor version of vLLM since 0.12, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "vllm"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = (each for each in listed.splitlines() if each.startswith("Available versions:"))
    every = sorted(map(Version, line.partition(":")[2].split(",")))
    newest = {each.release[:2]: str(each) for each in every if each >= FIRST and not each.is_prerelease}
    return list(newest.values())


def read_wheel(version: str) -> tuple[str, Mapping[str, str]]:
    """Download a wheel and return its sha256 and the files that are read. It is deleted again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary"]
        subprocess.run([*command, ":all:", "--dest", folder, f"vllm=={version}"], check=True)
        (wheel,) = Path(folder).iterdir()
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with zipfile.ZipFile(wheel) as files:
            names = [each for each in files.namelist() if READ.fullmatch(each)]
            return digest, {name: files.read(name).decode() for name in names}


def main() -> None:
    """Write the data file."""
    digests, found = {}, {}
    for version in newest_patches():
        digests[version], files = read_wheel(version)
        found[version] = declared(Source(files))
        print(f"{version}: {len(found[version]):,} settings")
    DATA.write_text(text_of(digests, spans(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
