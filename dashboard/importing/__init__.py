"""Files that somebody brings, turned into fleets without a network: saved fleets, or the answers of some replicas."""

from dashboard.importing.files import MAX_FILE_BYTES, File, Refused
from dashboard.importing.fleets import Imported, imported

__all__ = ["MAX_FILE_BYTES", "File", "Imported", "Refused", "imported"]
