"""Files that somebody brings, turned into fleets without a network: saved fleets, or the answers of some replicas."""

from dashboard.sources.importing.files import MAX_FILE_BYTES, File, Refused
from dashboard.sources.importing.fleets import Imported, imported
from dashboard.sources.importing.limited import import_files

__all__ = ["MAX_FILE_BYTES", "File", "Imported", "Refused", "import_files", "imported"]
