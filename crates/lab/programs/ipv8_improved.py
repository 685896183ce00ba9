"""A peer of IPv8's tunnels with the improvements that the publication proposes, as a program of an experiment: pyipv8 3.2 as pip installs it.

    ipv8_improved.py exit                   serves circuits, and changes its mode when the seeder asks
    ipv8_improved.py sink BURSTS            prints a line for each burst of packets that has come, and ends after so many
    ipv8_improved.py seeder TURNS HOPS..    sends a burst in each mode, so many turns, through a circuit of each length

The modes change pyipv8's objects while it runs:

    plain       pyipv8 as it is
    addresses   converted addresses are kept, in both directions
    thread      another thread sends each packet
    buffer      another thread sends packets that were collected after encryption

Relays and the tracker are those of ipv8_peer.py.
"""
import asyncio
import json
import os
import queue
import random
import select
import socket
import struct
import sys
import threading
import time

from ipv8.messaging.interfaces.udp.endpoint import UDPv4Address
from ipv8.messaging.serialization import ADDRESS_TYPE_IPV4, Address
from ipv8_peer import OWN_EXIT_PORT, SINK_PORT, Sink, circuit_of, circuit_to, community_of, discover

CONTROL_PORT = 7000
MODES = ["plain", "addresses", "thread", "buffer"]
# Packets of a burst: less than the exit's buffer holds, and more than Python encrypts before it lets another thread in (5 ms).
BURST = 500
# The next burst begins when all have arrived.
PAUSE_S = 0.5
# Of each link, as in the experiment: what a burst takes longer is work.
LATENCY_S = 0.01
PACKET_BYTES = 1000
# A packet is uTP's data, which exits let pass, with the burst's number, beginning, hops and mode behind the header.
HEADER = struct.Struct("!BB18xIdBB")
# How many packets go to the thread at once.
COLLECTED = 10

plain_pack, plain_unpack = Address.pack, Address.unpack
packed_addresses, unpacked_addresses = {}, {}


def pack_kept(self, address):
    packed = packed_addresses.get(address)
    if packed is None:
        packed = packed_addresses[address] = plain_pack(self, address)
    return packed


def unpack_kept(self, data, offset, unpack_list, *arguments):
    if data[offset] != ADDRESS_TYPE_IPV4:
        return plain_unpack(self, data, offset, unpack_list, *arguments)
    key = data[offset:offset + 7]
    address = unpacked_addresses.get(key)
    if address is None:
        plain_unpack(self, data, offset, found := [])
        address = unpacked_addresses[key] = found[0]
    unpack_list.append(address)
    return offset + 7


class Sender:
    """A thread that sends, and what it is still to be given."""

    def __init__(self):
        self.queue = queue.SimpleQueue()
        self.collected = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            for sender, packet, address in self.queue.get():
                self.send(sender, packet, address)

    @staticmethod
    def send(sender, packet, address):
        while True:
            try:
                return sender.sendto(packet, address)
            except BlockingIOError:
                select.select([], [sender], [])

    def collect(self, *message):
        self.collected.append(message)
        if len(self.collected) == 1:
            asyncio.get_running_loop().call_soon(self.flush)
        elif len(self.collected) == COLLECTED:
            self.flush()

    def flush(self):
        if self.collected:
            self.queue.put(self.collected)
            self.collected = []


class Transport:
    """A transport of asyncio whose packets may go by the thread."""

    def __init__(self, transport, sender):
        self.transport = transport
        self.sender = sender
        self.socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self.change("plain")

    def change(self, mode):
        self.sendto = {"thread": self.by_thread, "buffer": self.by_buffer}.get(mode, self.transport.sendto)

    def by_thread(self, packet, address):
        self.sender.queue.put(((self.socket, packet, address),))

    def by_buffer(self, packet, address):
        self.sender.collect(self.socket, packet, address)

    def __getattr__(self, name):
        return getattr(self.transport, name)


class Improvements:
    """The mode of a process, and its transports."""

    def __init__(self):
        self.sender = Sender()
        self.transports = []

    def of_community(self, community):
        endpoint = community.endpoint
        endpoint._transport = self.added(endpoint._transport)

    def of_exit(self, community):
        """The sockets by which packets leave circuits, of those that are there."""
        for exit_socket in community.exit_sockets.values():
            if exit_socket.transport_ipv4 and not isinstance(exit_socket.transport_ipv4, Transport):
                exit_socket.transport_ipv4 = self.added(exit_socket.transport_ipv4)

    def added(self, transport):
        self.transports.append(Transport(transport, self.sender))
        return self.transports[-1]

    def change(self, mode):
        keeps = mode == "addresses"
        Address.pack, Address.unpack = (pack_kept, unpack_kept) if keeps else (plain_pack, plain_unpack)
        for transport in self.transports:
            transport.change(mode)


async def serve(community):
    improvements = Improvements()
    improvements.of_community(community)

    async def control(reader, writer):
        while mode := (await reader.readline()).decode().strip():
            improvements.of_exit(community)
            improvements.change(mode)
            writer.write(b"changed\n")

    await asyncio.start_server(control, "0.0.0.0", CONTROL_PORT)


async def send_bursts(community, turns, lengths):
    improvements = Improvements()
    own_exit = await community_of("exit", OWN_EXIT_PORT)
    improvements.of_community(community)
    improvements.of_community(own_exit)
    sink = UDPv4Address(socket.gethostbyname("sink"), SINK_PORT)
    payload = random.randbytes(PACKET_BYTES - HEADER.size)
    reader, writer = await asyncio.open_connection("exit", CONTROL_PORT)
    number = 0
    for hops in lengths:
        circuit = await circuit_of(community, hops) if hops else circuit_to(own_exit, community)
        # The first burst opens the exit's sockets, and does not count.
        for mode in ["first"] + [mode for turn in range(turns) for mode in MODES[::1 if turn % 2 else -1]]:
            improvements.of_exit(own_exit)
            improvements.change(mode)
            writer.write(f"{mode}\n".encode())
            await reader.readline()
            number += 1
            kind = MODES.index(mode) if mode in MODES else len(MODES)
            data = HEADER.pack(1, 0, number, time.time(), hops, kind) + payload
            for _ in range(1 if mode == "first" else BURST):
                community.send_data(circuit.hop.address, circuit.circuit_id, sink, ("0.0.0.0", 0), data)
                # An exit in this process takes its turn after each packet.
                if not hops:
                    await asyncio.sleep(0)
            await asyncio.sleep(1 if mode == "first" else PAUSE_S)
        await community.remove_circuit(circuit.circuit_id, destroy=1)


class Bursts(Sink):
    """Prints how long each burst took to arrive."""

    def __init__(self, wanted):
        super().__init__(wanted * BURST)
        self.counts = {}

    def datagram_received(self, data, address):
        _, _, number, began, hops, kind = HEADER.unpack_from(data)
        if kind == len(MODES):
            return
        self.counts[number] = self.counts.get(number, 0) + 1
        if self.counts[number] == BURST:
            seconds = time.time() - began - LATENCY_S * (hops + 1)
            print(json.dumps({"hops": hops, "mode": MODES[kind], "packet_s": seconds / BURST}), flush=True)
        super().datagram_received(data, address)


async def main(role, *arguments):
    if role == "sink":
        loop = asyncio.get_running_loop()
        wanted = int(arguments[0])
        _, bursts = await loop.create_datagram_endpoint(lambda: Bursts(wanted), local_addr=("0.0.0.0", SINK_PORT))
        return await bursts.done
    community = await community_of(role)
    walking = asyncio.ensure_future(discover(community, role))
    if role == "exit":
        await serve(community)
        await walking
    turns, *lengths = map(int, arguments)
    await send_bursts(community, turns, lengths)
    walking.cancel()


NEEDED = {"exit": 0, "sink": 1, "seeder": 2}
if __name__ == "__main__":
    if len(sys.argv) < 2 or len(sys.argv) - 2 < NEEDED.get(sys.argv[1], sys.maxsize):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
    print("done", flush=True)
