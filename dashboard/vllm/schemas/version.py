"""GET /version: the vLLM version."""

from dashboard.vllm.schemas.base import Text, Wire


class VersionReply(Wire):
    """`{"version": "0.32.0"}`; source: vllm/entrypoints/serve/instrumentator/basic.py.

    `rust_frontend_version` is reported by the Rust frontend alone (vLLM 0.33, VLLM_USE_RUST_FRONTEND=1).
    """

    version: Text
    rust_frontend_version: Text | None = None
