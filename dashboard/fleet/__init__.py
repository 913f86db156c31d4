"""The core types: frozen values that cross from one room to the next."""

from dashboard.fleet.baselines import Baseline, Tolerance
from dashboard.fleet.notes import Note
from dashboard.fleet.pools import Cohort, Difference, Distinction, Pool, SettingValue, ValueCount, cohort_letters
from dashboard.fleet.replicas import Contradiction, Document, Engine, Replica
from dashboard.fleet.replies import (
    Device,
    EngineReport,
    Fingerprint,
    KVCacheGroup,
    ProbeResult,
    Reply,
    Setting,
    Snapshot,
)
from dashboard.fleet.targets import Credentials, Failure, Target
from dashboard.fleet.words import Basis, FailureKind, ReplicaState, Role, Source, State

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
    "SettingValue",
    "Snapshot",
    "Source",
    "State",
    "Target",
    "Tolerance",
    "ValueCount",
    "cohort_letters",
]
