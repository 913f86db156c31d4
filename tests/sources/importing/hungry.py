"""What a limited process prints or dies of: `python -m tests.sources.importing.hungry`, started by `sources.child`."""

import resource
import sys

from dashboard.sources import child

if __name__ == "__main__":
    child.limit()
    if sys.stdin.buffer.read() == b"eat":
        bytearray(child.MEMORY_BYTES + 1)
    print(resource.getrlimit(resource.RLIMIT_DATA)[0], resource.getrlimit(resource.RLIMIT_CPU)[0])
