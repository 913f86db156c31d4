"""python -m dashboard."""

from dashboard.cli import main

main()
