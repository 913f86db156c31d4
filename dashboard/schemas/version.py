"""GET /version: the vLLM version."""

from __future__ import annotations

from dashboard.schemas.base import Text, Wire


class VersionReply(Wire):
    """`{"version": "0.32.0"}`; source: vllm/entrypoints/serve/instrumentator/basic.py."""

    version: Text
