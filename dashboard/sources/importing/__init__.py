"""Import of files without a network: saved fleets, or the answers of some replicas."""

from dashboard.sources.importing.answers import MAX_FILE_BYTES, File, Refused
from dashboard.sources.importing.fleets import Imported, import_files, imported

__all__ = ["MAX_FILE_BYTES", "File", "Imported", "Refused", "import_files", "imported"]
