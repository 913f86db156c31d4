"""Bodies to replies, each distinct body once: a configuration that did not change is not read again."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from dashboard.errors import UnreadableError
from dashboard.fleet import Failure, FailureKind, ProbeResult
from dashboard.sources.polling import failures
from dashboard.sources.polling.failures import Asked
from dashboard.sources.polling.probes import Probe
from dashboard.vllm import reading
from dashboard.vllm.reading import Reading

DIGEST_BYTES = 16  # two bodies share a digest by accident, or by intent, in 1 of 2^64 tries


class Reader:
    """Reads bodies, and remembers what the last ones of each path said; replicas that say the same share a reply."""

    def __init__(self, read: Callable[[str, bytes], Reading] = reading.read) -> None:
        self._read = read
        self._readings: dict[tuple[str, bytes], Reading] = {}

    def read(self, probe: Probe, asked: Asked, body: bytes) -> Reading | Failure:
        """Return the reading of `body`, or why it is none. Nothing that a body holds raises."""
        if probe.light:  # these answers differ every time: counters, times
            return self._try(asked, body)
        key = (probe.path, blake2b(body, digest_size=DIGEST_BYTES).digest())
        if key in self._readings:
            return self._readings[key]
        read = self._try(asked, body)
        if not isinstance(read, Failure):
            self._readings[key] = read
        return read

    def forget_all_but(self, results: Iterable[ProbeResult]) -> None:
        """Keep only the readings that one of `results` still holds."""
        held = {id(result.reply) for result in results}
        self._readings = {key: read for key, read in self._readings.items() if id(read.reply) in held}

    def _try(self, asked: Asked, body: bytes) -> Reading | Failure:
        try:
            return self._read(asked.path, body)
        except UnreadableError as error:
            return Failure(FailureKind(error.kind), error.detail)
        except Exception as mistake:  # noqa: BLE001  one replica's answer must never end the poll of all
            return failures.unread(asked, mistake)
