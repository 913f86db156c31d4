"""The mistakes in a fleet.yaml."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config import Options, load_options
from dashboard.errors import OptionsError

FILE = Path(__file__).with_name("mistakes.txt")


def mistakes_of(text: str | bytes) -> tuple[str, ...]:
    """Write ./fleet.yaml and return its mistakes."""
    Path("fleet.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(OptionsError) as caught:
        load_options()
    return caught.value.mistakes


def one_mistake_each() -> Iterator[tuple[str, str]]:
    """Yield options files and their only mistakes: of mistakes.txt, and those that are too long for it."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    yield from zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True)
    for key in ("zzz", "_env_file"):
        yield f"{{name: x, {key}: x}}", f"{key}: unknown key; the keys here are {', '.join(Options.model_fields)}"
    yield "name: " + "x" * 101, "name: longer than 100 characters; shorten it"
