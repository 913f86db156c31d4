"""The nouns of the program: frozen values that cross from one layer to the next."""

from dashboard.models.baselines import Baseline, Tolerance
from dashboard.models.notes import Note
from dashboard.models.pools import Cohort, Difference, Distinction, Pool, Told, ValueCount, cohort_letters
from dashboard.models.replicas import Contradiction, Document, Engine, Replica
from dashboard.models.replies import (
    Device,
    EngineReport,
    Fingerprint,
    KVCacheGroup,
    ProbeResult,
    Reply,
    Setting,
    Snapshot,
)
from dashboard.models.targets import Credentials, Failure, Target
from dashboard.models.words import Basis, FailureKind, ReplicaState, Role, Source, State

__all__ = [
    "Baseline",
    "Basis",
    "Cohort",
    "Contradiction",
    "Credentials",
    "Device",
    "Difference",
    "Distinction",
    "Document",
    "Engine",
    "EngineReport",
    "Failure",
    "FailureKind",
    "Fingerprint",
    "KVCacheGroup",
    "Note",
    "Pool",
    "ProbeResult",
    "Replica",
    "ReplicaState",
    "Reply",
    "Role",
    "Setting",
    "Snapshot",
    "Source",
    "State",
    "Target",
    "Told",
    "Tolerance",
    "ValueCount",
    "cohort_letters",
]
