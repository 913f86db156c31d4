"""One unary gRPC call on an HTTP/2 connection, bytes in and out: the only module that imports h2 (extra `grpc`)."""

import re

import httpx2
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import DenialOfServiceError, ProtocolError
from h2.settings import SettingCodes

from dashboard import __version__
from dashboard.errors import UnreadableError
from dashboard.sources.http import failures
from dashboard.sources.http.client import Answer
from dashboard.sources.http.credentials import ApiKey
from dashboard.sources.http.failures import Endpoint

NO_GRPC = "something that is no gRPC"
SETTINGS = b"\x04"  # the type of the first frame (RFC 9113, section 3.4)
STREAM = 1  # the first of a client
PREFIX_BYTES = 5  # of a message: whether it is compressed, and its length
FRAMES_BYTES = 2**18  # of headers and frames besides the message
MAX_EVENTS = 2_000  # h2 takes 20 us for each; a message of 1 MiB has 64 in frames of the default size
NOT_THERE = frozenset({9, 12})  # FAILED_PRECONDITION: LoRA is off; UNIMPLEMENTED: the server is older, or another one
AS_HTTP = {16: failures.UNAUTHORIZED, 7: failures.FORBIDDEN}  # UNAUTHENTICATED, PERMISSION_DENIED


class UnaryCall:
    """A call with an empty message, whose answer has at most `limit` bytes. Raises UnreadableError, or a reset."""

    def __init__(self, limit: int) -> None:
        self.status: int | None = None  # HTTP's
        self.has_ended = False
        self._limit = limit
        self._size = 0  # of all that was received
        self._events = 0
        self._content = bytearray()
        self._headers: dict[bytes, bytes] = {}  # and trailers
        self._http = H2Connection(H2Configuration(header_encoding=None))

    def request(self, endpoint: Endpoint, key: ApiKey) -> bytes:
        scheme, _, authority = endpoint.server.partition("://")
        headers = [
            (":method", "POST"),
            (":scheme", scheme),
            (":path", endpoint.path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", f"vllm-fleet-dashboard/{__version__}"),
        ]
        if key.token is not None:
            headers.append(("authorization", f"{key.scheme} {key.token}"))
        self._http.initiate_connection()
        self._http.update_settings({SettingCodes.ENABLE_PUSH: 0})
        self._http.send_headers(STREAM, headers)
        self._http.send_data(STREAM, bytes(PREFIX_BYTES), end_stream=True)
        return self._http.data_to_send()

    def receive(self, data: bytes) -> bytes:
        """Read what arrived; return what is sent in return."""
        if not self._size and data[3:4] not in {SETTINGS, b""}:  # h2 waits for the rest of a huge frame
            raise UnreadableError("protocol", NO_GRPC)
        self._size += len(data)
        if self._size > self._limit + FRAMES_BYTES:
            raise self._too_large()
        try:
            found = self._http.receive_data(data)
            self._events += len(found)
            if self._events > MAX_EVENTS:
                raise UnreadableError("too_large", "more frames than are read")
            for event in found:
                if not self.has_ended:
                    self._read(event)
        except DenialOfServiceError:  # headers of more than 64 KiB, or in too many frames
            raise UnreadableError("too_large", "more or longer headers than are read") from None
        except ProtocolError:
            raise UnreadableError("protocol", NO_GRPC) from None
        return self._http.data_to_send()

    def result(self, endpoint: Endpoint, key: ApiKey) -> Answer:
        """Return the result of the call that has ended; the body is its message."""
        status = self.status or 0
        if failure := failures.of_status(endpoint, status, key):
            return Answer(status, failure=failure)
        code = self._headers.get(b"grpc-status", b"")
        if not self._is_grpc() or not re.fullmatch(rb"\d{1,9}", code):
            raise UnreadableError("protocol", NO_GRPC)
        if number := int(code):
            shown = AS_HTTP.get(number, status)
            failure = failures.of_status(endpoint, shown, key) or failures.of_grpc_status(endpoint, number)
            return Answer(failures.NOT_FOUND if number in NOT_THERE else shown, failure=failure)
        if len(self._content) != self._length():
            raise UnreadableError("decode", "a message that is cut off, or several")
        return Answer(status, bytes(self._content[PREFIX_BYTES:]))

    def _read(self, event: events.Event) -> None:
        match event:
            case events.ResponseReceived() | events.TrailersReceived():
                self._headers |= {bytes(name): bytes(value) for name, value in event.headers or ()}
                status = self._headers.get(b":status", b"")
                self.status = int(status) if re.fullmatch(rb"\d{3}", status) else None
                self.has_ended = self.status != failures.OK or not self._is_grpc()  # its body is never read
            case events.DataReceived():
                self._add(event.data or b"")
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, STREAM)
            case events.StreamEnded():
                self.has_ended = True
            case events.StreamReset() | events.ConnectionTerminated():
                raise httpx2.ReadError("reset")

    def _add(self, data: bytes) -> None:
        self._content += data
        if len(self._content) < PREFIX_BYTES:
            return
        if self._content[0]:
            raise UnreadableError("decode", "an encoding that was not asked for")
        if self._length() > self._limit + PREFIX_BYTES:
            raise self._too_large()

    def _is_grpc(self) -> bool:
        return self._headers.get(b"content-type", b"").startswith(b"application/grpc")

    def _length(self) -> int:
        """Return the bytes of the message and of its prefix."""
        return PREFIX_BYTES + int.from_bytes(self._content[1:PREFIX_BYTES])

    def _too_large(self) -> UnreadableError:
        return UnreadableError("too_large", f"more than {self._limit / 2**20:.3g} MiB; the rest was not read")
