"""Write the golden outputs anew."""

from __future__ import annotations

import shutil

from tests.golden.outputs import FLEETS, FOLDER, outputs


def main() -> None:
    """Replace all files; the difference shows what changed."""
    for fleet in FLEETS:
        written = dict(outputs(fleet))
        shutil.rmtree(FOLDER / fleet, ignore_errors=True)
        (FOLDER / fleet).mkdir(parents=True)
        for name, text in written.items():
            (FOLDER / fleet / name).write_text(text)


if __name__ == "__main__":
    main()
