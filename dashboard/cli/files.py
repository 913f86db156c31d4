"""Files that commands read and write: what hinders is told with what to do. They are written whole or not at all."""

from pathlib import Path

from dashboard.cli.terminal import wrong
from dashboard.store.writing import write_whole


def write_file(option: str, file: Path, content: bytes) -> None:
    """Write a file that was named with an option; say why it cannot be written, and end with 2."""
    try:
        write_whole(file, content)
    except OSError as error:
        another = "name another file"
        there = another if file.parent.exists() else f"make the folder {file.parent}, or {another}"
        wrong(f"{option} {file}: {hindered(error, 'name a file in it', there)}")


def hindered(error: OSError, of_folder: str, otherwise: str) -> str:
    """Say why a file cannot be opened, and what to do: `of_folder` where it is a folder."""
    return f"{error.strerror or error}; {of_folder if isinstance(error, IsADirectoryError) else otherwise}"
