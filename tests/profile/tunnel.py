"""tunnel.c in Python, over an event loop: the sender encrypts packets in one layer for each hop, every hop takes one off.

    tunnel.py send LAYERS PACKETS HOST PORT
    tunnel.py relay PACKETS PORT HOST PORT
    tunnel.py sink PACKETS PORT
"""
import asyncio
import hashlib
import socket
import sys
import time

BYTES = 1000
# Packets before those that are measured: Python rewrites what it executes often.
WARMING = 100


def crypt(data, key):
    """XOR with a stream of SHA-256 blocks."""
    stream = b"".join(hashlib.sha256(b"%d %d" % (key, block)).digest() for block in range(32))
    return (int.from_bytes(data) ^ int.from_bytes(stream[: len(data)])).to_bytes(len(data))


class Hop(asyncio.DatagramProtocol):
    def __init__(self, packets, target):
        self.left, self.target, self.done = packets + WARMING, target, asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        now = time.monotonic()
        data = crypt(data, 0)
        if self.target:
            self.transport.sendto(data, self.target)
        self.left -= 1
        if self.left == PACKETS - 1:
            self.first = now
        if self.left == 0:
            self.done.set_result(now - self.first)


async def receive(port, target=None):
    loop = asyncio.get_running_loop()
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    own.bind(("0.0.0.0", port))
    own.setblocking(False)
    _, hop = await loop.create_datagram_endpoint(lambda: Hop(PACKETS, target), sock=own)
    return await hop.done


async def send(layers, target):
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=target)
    await asyncio.sleep(1)
    for number in range(WARMING + PACKETS):
        if number == WARMING:
            await asyncio.sleep(1)
        data = bytes(BYTES)
        for layer in range(layers):
            data = crypt(data, layer)
        transport.sendto(data)
        await asyncio.sleep(0)


role, *arguments = sys.argv[1:]
if role == "send":
    layers, PACKETS, host, port = int(arguments[0]), int(arguments[1]), arguments[2], int(arguments[3])
    asyncio.run(send(layers, (socket.gethostbyname(host), port)))
else:
    PACKETS, port, *target = int(arguments[0]), int(arguments[1]), *arguments[2:]
    took = asyncio.run(receive(port, (socket.gethostbyname(target[0]), int(target[1])) if target else None))
    if not target:
        print(f"{(PACKETS - 1) * BYTES / took:.0f} bytes/s", flush=True)
# What it takes to end is told apart by its time.
time.sleep(1)
