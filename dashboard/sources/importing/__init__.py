"""Import of files without a network: saved fleets, or the answers of some replicas."""

from dashboard.sources.importing.answers import MAX_FILE_BYTES, File, RefusedFile
from dashboard.sources.importing.fleets import ImportedFleets, import_files, imported

__all__ = ["MAX_FILE_BYTES", "File", "ImportedFleets", "RefusedFile", "import_files", "imported"]
