"""Sends datagrams to itself and back by asyncio, one at a time: as many pairs as it is told."""
import asyncio
import sys


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


class Client(asyncio.DatagramProtocol):
    def __init__(self, pairs, done):
        self.left, self.done, self.received = pairs, done, 0

    def connection_made(self, transport):
        self.transport = transport
        self.send()

    def send(self):
        self.transport.sendto(b"x" * (1 + self.left % 1400))

    def datagram_received(self, data, address):
        self.left -= 1
        self.received += len(data)
        if self.left:
            self.send()
        else:
            self.done.set_result(self.received)


async def main(pairs):
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 9999))
    done = loop.create_future()
    await loop.create_datagram_endpoint(lambda: Client(pairs, done), remote_addr=("127.0.0.1", 9999))
    print(await done)


asyncio.run(main(int(sys.argv[1])))
