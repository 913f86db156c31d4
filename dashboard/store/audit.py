"""What the audit log holds. It imports no SQLAlchemy, which takes 0.2 s and few commands need."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class AuditEntry(NamedTuple):
    """One entry. `details` names the object; `reason` is why the result is not that the action was done."""

    at: datetime
    action: str
    result: str
    reason: str
    visitor: str
    role: str
    means: str
    client: str
    details: Mapping[str, Any]
