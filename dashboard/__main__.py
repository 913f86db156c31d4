"""python -m dashboard, and vllm-fleet."""

import sys
from importlib.util import find_spec

from dashboard import __version__

# Import names of the packages in requirements.txt.
NEEDED = (
    "streamlit",
    "httpx2",
    "aiohttp",
    "yarl",
    "prometheus_client",
    "dns",
    "starlette",
    "uvicorn",
    "h11",
    "itsdangerous",
    "pandas",
    "plotly",
    "packaging",
    "pydantic",
    "pydantic_settings",
    "typing_extensions",
    "yaml",
    "typer",
    "rich",
    "sqlalchemy",
    "alembic",
)
WRONG_USAGE = 2


def start() -> None:
    """Run the command line; exit with 2 where packages are missing, as in vLLM's own environment."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        wheel = f"vllm_fleet_dashboard-{__version__}-py3-none-any.whl"
        sys.stderr.write(
            f"exit {WRONG_USAGE}: the dashboard cannot start, because this Python lacks {', '.join(missing)}; install "
            f"it into an environment of its own, not into vLLM's: pip install '{wheel}[dashboard]', or in a checkout "
            "pip install -r requirements.txt.\n"
        )
        sys.exit(WRONG_USAGE)
    from dashboard.cli import main  # noqa: PLC0415  it needs them all

    main()


if __name__ == "__main__":
    start()
