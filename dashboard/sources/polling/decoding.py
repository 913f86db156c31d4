"""Bodies, put together chunk by chunk: never more decoded bytes in memory than the limit, whatever was packed."""

import zlib

# zlib: 32 added to the largest window takes the header of gzip as well as that of zlib ("deflate" in HTTP).
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
PACKED = frozenset({"gzip", "x-gzip", "deflate"})


class BodyTooLargeError(Exception):
    """The decoded body passes the limit. What came before is still in `Body.content`."""


class BodyEncodingError(Exception):
    """The body is not packed as its header says, or in a way that nobody asked for."""


class Body:
    """A body that grows up to `limit` decoded bytes. `encoding` is the Content-Encoding header."""

    def __init__(self, encoding: str, limit: int) -> None:
        name = encoding.strip().lower()
        if name not in PACKED | {"", "identity"}:
            raise BodyEncodingError("an encoding that was not asked for")
        self.content = bytearray()
        self._limit = limit
        self._began = False
        self._unpack = zlib.decompressobj(GZIP_OR_ZLIB) if name in PACKED else None

    def feed(self, chunk: bytes) -> None:
        """Add what one chunk holds; raise BodyTooLargeError at the limit."""
        self._began = True
        room = self._limit - len(self.content) + 1
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk, room)
            except zlib.error as error:
                raise BodyEncodingError("broken gzip") from error
        self.content += chunk[:room]
        if len(self.content) > self._limit:
            raise BodyTooLargeError

    def end(self) -> None:
        """Raise BodyEncodingError when the packed stream was cut off."""
        if self._unpack is not None and self._began and not self._unpack.eof:
            raise BodyEncodingError("gzip that is cut off")
