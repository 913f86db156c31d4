"""The options that name routers and masters of KV stores, whose configuration is read."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dashboard.config.address import replica_id
from dashboard.config.rules import Name, Part, some
from dashboard.config.sources import CredentialsOptions, LabelSelector, ObjectName, PathFromFile
from dashboard.fleet import RouterKind


class RouterOptions(Part):
    """One router: at a URL, in the pods of Kubernetes that run it, or by its file. `pools` are names or globs."""

    kind: RouterKind
    pools: Annotated[tuple[Name, ...], AfterValidator(some)] = ("*",)
    url: Annotated[str, AfterValidator(replica_id)] | None = None
    config_file: PathFromFile | None = None
    namespace: ObjectName | None = None
    inference_pool: ObjectName | None = None
    selector: LabelSelector | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    scheme: Literal["http", "https"] = "http"
    kubeconfig: PathFromFile | None = None
    context: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    authorization: CredentialsOptions | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        places = [self.url, self.inference_pool, self.selector]
        if places.count(None) < len(places) - 1:
            raise ValueError("url, inference_pool and selector exclude each other; keep one")
        if places.count(None) == len(places) and self.config_file is None:
            raise ValueError("url, inference_pool, selector or config_file is needed; set one of them")
        if self.kind is not RouterKind.LLM_D and (self.inference_pool or self.config_file):
            raise ValueError("inference_pool and config_file are of llm-d only; set url or selector")
        return self
