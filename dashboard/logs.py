"""The format of what is written to standard error: text, or one JSON object a line (FLEET_LOG_FORMAT=json)."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

FORMAT_VARIABLE = "FLEET_LOG_FORMAT"
JSON = "json"
LONGEST = 10_000  # characters of a message
STDERR = "stderr"  # the logger of a line that no logger wrote

log = logging.getLogger(__name__)


def json_line(message: str, level: str, logger: str, created: float, more: Mapping[str, object]) -> str:
    """Return one line: JSON in ASCII, so that no text in it can begin another. `created` is in Unix seconds."""
    time = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "logger": logger, "message": message[:LONGEST], **more})


class JsonFormatter(logging.Formatter):
    """Writes a record as one line, of its exception the type only."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[0] if record.exc_info else None
        more = {"exception": error.__name__} if error else {}
        return json_line(record.getMessage(), record.levelname.lower(), record.name, record.created, more)


class JsonStream(io.TextIOBase):
    """Standard error for what is no record: each of its lines becomes an object."""

    encoding = "utf-8"

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._started = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._started = (self._started + text).split("\n")
            for line in lines:
                if line.strip():
                    now = datetime.now(UTC).timestamp()
                    self.stream.write(f"{json_line(line, 'info', STDERR, now, {})}\n")
        return len(text)

    def flush(self) -> None:
        self.stream.flush()


def follow_environment() -> None:
    """Write JSON from now on where FLEET_LOG_FORMAT is json; once more for loggers that appeared since."""
    if os.environ.get(FORMAT_VARIABLE) != JSON:
        return
    if not isinstance(sys.stderr, JsonStream):
        sys.stderr = JsonStream(sys.stderr)
        logging.root.addHandler(logging.StreamHandler())
        logging.captureWarnings(capture=True)
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda raised: _log_uncaught(raised.exc_type, raised.exc_value, raised.exc_traceback)
    streams = (sys.stderr, sys.stderr.stream)
    for logger in (logging.root, *map(logging.getLogger, tuple(logging.root.manager.loggerDict))):
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream in streams:
                handler.setFormatter(JsonFormatter())
                handler.setStream(sys.stderr.stream)


def write_event(fields: Mapping[str, object], message: str, logger: str) -> None:
    """Write an event to standard error, in both formats as JSON; as JSON also what every line has."""
    if isinstance(sys.stderr, JsonStream):
        line = json_line(message, "info", logger, datetime.now(UTC).timestamp(), fields)
        sys.stderr.stream.write(f"{line}\n")
    else:
        sys.stderr.write(f"{json.dumps(fields)}\n")


def _log_uncaught(kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    log.critical("uncaught exception", exc_info=(kind, error or kind(), traceback))
