"""A SOCKS 5 server as tor is one: CONNECT by name or address, and tor's own RESOLVE. `socks.py PORT`; tells what it is asked."""

import asyncio
import socket
import struct
import sys

CONNECT, RESOLVE = 1, 0xF0
IPV4, NAME = 1, 3


async def relay(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def request(reader):
    version, methods = await reader.readexactly(2)
    await reader.readexactly(methods)
    return version


async def target(reader):
    kind = (await reader.readexactly(1))[0]
    if kind == IPV4:
        host = socket.inet_ntoa(await reader.readexactly(4))
    else:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    return host, struct.unpack('>H', await reader.readexactly(2))[0]


async def serve(reader, writer):
    await request(reader)
    writer.write(b'\5\0')
    _, command, _ = await reader.readexactly(3)
    host, port = await target(reader)
    print({CONNECT: 'connect', RESOLVE: 'resolve'}[command], host, port, flush=True)
    try:
        address = (await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET))[0][4][0]
        if command == CONNECT:
            far_reader, far_writer = await asyncio.open_connection(address, port)
    except OSError:
        writer.write(b'\5\4\0\1' + bytes(6))
        writer.close()
        return
    writer.write(b'\5\0\0\1' + socket.inet_aton(address) + struct.pack('>H', port))
    if command == CONNECT:
        await asyncio.gather(relay(reader, far_writer), relay(far_reader, writer))
        far_writer.close()
    writer.close()


async def main():
    server = await asyncio.start_server(serve, port=int(sys.argv[1]), family=socket.AF_INET)
    await server.serve_forever()


asyncio.run(main())
