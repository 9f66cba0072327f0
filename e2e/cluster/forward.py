"""Forwards connections from a port of the host into the cluster's network.

A socket belongs to the network namespace that it was created in, whatever
process uses it: the listening one is created outside, and connections are opened
inside. Standard library only; run as `forward.py DESCRIPTOR ADDRESS PORT`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

CHUNK = 256 * 1024


async def carry(listening: socket.socket, address: str, port: int) -> None:
    """Accept connections permanently; each gets its own counterpart inside."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inside_reader, inside_writer = await asyncio.open_connection(address, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, inside_writer), _pump(inside_reader, writer))
        for end in (writer, inside_writer):
            end.close()

    server = await asyncio.start_server(serve, sock=listening, limit=CHUNK)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then close the other side for writing."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


if __name__ == "__main__":
    descriptor, target, number = sys.argv[1:]
    asyncio.run(carry(socket.socket(fileno=int(descriptor)), target, int(number)))
