"""GET /server_info?config_format=json: the whole VllmConfig, with VLLM_SERVER_DEV_MODE=1 only."""

from typing import Any

from pydantic import Field, field_validator

from dashboard.vllm.schemas.base import Wire


class ServerInfoReply(Wire):
    """`vllm_config` by section, `vllm_env` by variable. vLLM 0.12.0 has no `vllm_env`.

    `system_env` holds clocks, host details and package lists: it is never read.
    """

    vllm_config: dict[str, Any]
    vllm_env: dict[str, Any] = Field(default_factory=dict)

    @field_validator("vllm_config", mode="before")
    @classmethod
    def _refuse_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("this version answers with text; only the JSON form is read")  # noqa: TRY004
        return value
