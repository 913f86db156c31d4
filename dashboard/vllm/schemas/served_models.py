"""GET /v1/models: the served names, and the LoRA adapters that are loaded."""

from typing import Annotated

from pydantic import Field

from dashboard.vllm.schemas.base import Size, Text, Wire

MAX_MODELS = 10_000


class ServedModel(Wire):
    """One card. `parent` is set on a LoRA adapter; `root` is the path or id of the model or adapter."""

    id: Text
    root: Text | None = None
    parent: Text | None = None
    max_model_len: Size | None = None


class ServedModelsReply(Wire):
    """The first card without a parent is the name that metrics carry."""

    data: Annotated[tuple[ServedModel, ...], Field(max_length=MAX_MODELS)]
