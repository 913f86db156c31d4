"""A real gRPC server on loopback (grpcio), and one with raw bytes, for answers that grpcio does not send."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import grpc

from dashboard.vllm import control
from tests.captured import Capture, capture
from tests.sources.polling.hostile import CERTIFICATE

RUST = capture("llama_rust_grpc", "0.33.0")
RUST_DP2 = capture("llama_rust_grpc_dp2", "0.33.0")
Behaviour = Callable[[bytes, grpc.ServicerContext], bytes]


def message(body: bytes) -> Behaviour:
    return lambda _request, _context: body


def status(code: grpc.StatusCode, text: str = "", **trailers: str) -> Behaviour:
    """Return a behaviour that ends with a status, its message, and more trailers."""

    def end(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(tuple(trailers.items()))
        context.abort(code, text)
        return b""

    return end


def recorded(server: Capture = RUST) -> dict[str, Behaviour]:
    """Return what a real server answered; without LoRA it has no list."""
    lora_off = status(grpc.StatusCode.FAILED_PRECONDITION, "engine was not started with LoRA enabled")
    known: dict[str, Behaviour] = {
        path: message(body) for path, body in server.answers.items() if path in control.PATHS
    }
    return {control.LORAS: lora_off, **known}


class GrpcServer:
    """Answers by `routes`, path to behaviour; other methods are not implemented. `asked` has paths and metadata."""

    def __init__(self, routes: Mapping[str, Behaviour], *, tls: bool = False) -> None:
        self.routes = dict(routes)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers((_Handler(self),))
        if tls:
            pem = CERTIFICATE.read_bytes()
            credentials = grpc.ssl_server_credentials([(pem, pem)])
            self.port: int = self._server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self.port = self._server.add_insecure_port("127.0.0.1:0")

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # it ships no types
    def __init__(self, server: GrpcServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        self._server.asked.append((details.method, {each.key: each.value for each in details.invocation_metadata}))
        behaviour = self._server.routes.get(details.method)
        return grpc.unary_unary_rpc_method_handler(behaviour) if behaviour else None


@contextmanager
def raw_server(behaviour: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Iterator[int]:
    """Serve connections with one behaviour in a thread of its own; yield the port."""
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    ports: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def serve() -> None:
        tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(
            lambda reader, writer: tasks.add(asyncio.ensure_future(handle(reader, writer))), "127.0.0.1", 0
        )
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
