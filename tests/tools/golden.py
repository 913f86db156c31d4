"""Write the golden outputs again, or with `python -m tests.tools.golden FOLDER` into another folder."""

import shutil
import sys
from pathlib import Path

from tests.golden.outputs import FLEETS, FOLDER, outputs


def main(folder: Path = FOLDER) -> None:
    """Replace all files; the difference shows what changed."""
    for fleet in FLEETS:
        written = dict(outputs(fleet))
        shutil.rmtree(folder / fleet, ignore_errors=True)
        (folder / fleet).mkdir(parents=True)
        for name, text in written.items():
            (folder / fleet / name).write_text(text)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
