"""A peer of IPv8's tunnels, as a program of an experiment: pyipv8 2.14 or 3.2, as pip installs it.

    ipv8_peer.py tracker                    introduces the others to each other
    ipv8_peer.py relay|exit                 serves circuits
    ipv8_peer.py sink PACKETS               ends when so many datagrams have come out of circuits
    ipv8_peer.py seeder PACKETS BYTES HOPS..
                                            sends so many packets through a circuit of each length, and says when
    ipv8_peer.py counted PACKETS BYTES HOPS..
                                            does so at a time that is known beforehand, through circuits that were used before

Peers find each other by IPv8's own introductions, which begin at the host 'tracker'. A circuit of 0 hops ends where it begins: the
seeder encrypts what it sends, and an exit in the same process decrypts it and sends it to the sink.

In the environment, ENDPOINT=rust takes pyipv8 3's endpoint in Rust, and WALKING=SECONDS lets nobody look for others after so long.
"""
import asyncio
import os
import random
import socket
import sys

from ipv8.keyvault.crypto import default_eccrypto
from ipv8.messaging.anonymization.community import TunnelCommunity, TunnelSettings
from ipv8.messaging.anonymization.exit_socket import TunnelExitSocket
from ipv8.messaging.anonymization.tunnel import PEER_FLAG_EXIT_BT, PEER_FLAG_RELAY, Circuit, Hop
from ipv8.messaging.interfaces.udp.endpoint import UDPEndpoint, UDPv4Address
from ipv8.peer import Peer
from ipv8.peerdiscovery.discovery import RandomWalk
from ipv8.peerdiscovery.network import Network

PORT = 8090
OWN_EXIT_PORT = 8091
SINK_PORT = 9000
FLAGS = {"relay": {PEER_FLAG_RELAY}, "exit": {PEER_FLAG_RELAY, PEER_FLAG_EXIT_BT}}
# Packets are sent so many at once, and so many seconds apart: less than receivers' buffers hold.
BURST = 10
PAUSE_S = 0.01
# A circuit that is not there after so many seconds is tried anew.
BUILDING_S = 20
# After the last packet of a circuit, for those that are under way.
SETTLING_S = 2
# What is counted begins so long after the process: between what all hosts do every five seconds, and after they have forgotten how circuits were
# made, which they do after a minute. Each circuit has so much of it, and had so many packets before: Python rewrites what it executes often.
COUNTED_AFTER_S = 91.5
COUNTED_S = 0.2
WARMING = 30


def address_of(host, port=PORT):
    return UDPv4Address(socket.gethostbyname(host), port)


async def community_of(role, port=PORT):
    if os.environ.get("ENDPOINT") == "rust":
        from ipv8_rust_tunnels import Endpoint

        endpoint = Endpoint(port, "0.0.0.0", worker_threads=1)
    else:
        endpoint = UDPEndpoint(port, "0.0.0.0")
    await endpoint.open()
    settings = TunnelSettings()
    settings.my_peer = Peer(default_eccrypto.generate_key("curve25519"))
    settings.endpoint = endpoint
    settings.network = Network()
    settings.max_peers = 30
    settings.peer_flags = FLAGS.get(role, set())
    settings.remove_tunnel_delay = 0
    # Circuits stay, also without such word.
    settings.max_time_inactive = 600
    community = TunnelCommunity(settings)
    community.my_peer.address = address_of(socket.gethostname(), port)
    community.my_estimated_lan = community.my_estimated_wan = community.my_peer.address
    if hasattr(endpoint, "apply_settings"):
        endpoint.apply_settings()
    return community


async def discover(community, role):
    """Walks: to the tracker first, then to whom others introduce."""
    walk = RandomWalk(community)
    loop = asyncio.get_running_loop()
    until = loop.time() + float(os.environ.get("WALKING", "inf"))
    while loop.time() < until:
        if role != "tracker":
            community.walk_to(address_of("tracker"))
        walk.take_step()
        # All know each other soon, and then they need not ask as often.
        await asyncio.sleep(0.5 if len(community.get_peers()) < 5 else 5)
    await asyncio.Event().wait()


async def circuit_of(community, hops):
    """A circuit of so many hops, the last an exit, no relay twice."""
    while True:
        exits = community.get_candidates(PEER_FLAG_EXIT_BT)
        if exits and len(community.get_candidates(PEER_FLAG_RELAY)) > hops:
            circuit = community.create_circuit(hops, required_exit=random.choice(exits))
            built = circuit and await asyncio.wait({circuit.ready}, timeout=BUILDING_S)
            if built and circuit.ready.done() and circuit.ready.result():
                if len({hop.public_key_bin for hop in circuit.hops}) == hops:
                    return circuit
            if circuit:
                await community.remove_circuit(circuit.circuit_id, destroy=1)
        await asyncio.sleep(1)


def circuit_to(own_exit, community):
    """A circuit whose only hop is an exit in this process, with the keys that an introduction would have agreed on."""
    number = random.getrandbits(32)
    keys = community.crypto.generate_session_keys(os.urandom(64))

    def peer(of):
        return Peer(of.my_peer.public_key.key_to_bin(), of.my_peer.address)

    circuit = Circuit(number, 1)
    circuit.add_hop(Hop(peer(own_exit), keys, [PEER_FLAG_EXIT_BT]))
    community.circuits[number] = circuit
    own_exit.exit_sockets[number] = TunnelExitSocket(number, Hop(peer(community), keys), own_exit)
    return circuit


def sending(community, size):
    """Sends a packet to the sink through a circuit."""
    sink = UDPv4Address(socket.gethostbyname("sink"), SINK_PORT)
    # Exits let only pass what could be BitTorrent's: here uTP's data.
    data = b"\x01\x00" + random.randbytes(size - 2)
    return lambda circuit: community.send_data(circuit.hop.address, circuit.circuit_id, sink, ("0.0.0.0", 0), data)


async def seed(community, packets, size, lengths):
    send = sending(community, size)
    own_exit = await community_of("exit", OWN_EXIT_PORT)
    for place, hops in enumerate(lengths, 1):
        circuit = await circuit_of(community, hops) if hops else circuit_to(own_exit, community)
        # The first packet opens the exit's sockets.
        send(circuit)
        await asyncio.sleep(1)
        print(f"circuit {place} of {hops} hops begins", flush=True)
        for sent in range(1, packets + 1):
            send(circuit)
            if sent % BURST == 0:
                await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(SETTLING_S)
        print(f"circuit {place} of {hops} hops ends", flush=True)
        await community.remove_circuit(circuit.circuit_id, destroy=1)
        await asyncio.sleep(SETTLING_S)


async def count(community, began, packets, size, lengths):
    loop = asyncio.get_running_loop()
    send = sending(community, size)
    # Word that is sent through circuits now and then, and what follows when it is answered, would be counted.
    community.cancel_pending_task("do_ping")
    circuits = []
    for hops in lengths:
        circuits.append(await circuit_of(community, hops))
        for _ in range(WARMING):
            send(circuits[-1])
            await asyncio.sleep(PAUSE_S)
    if loop.time() > began + COUNTED_AFTER_S - SETTLING_S:
        sys.exit("circuits were not there in time")
    await asyncio.sleep(began + COUNTED_AFTER_S - loop.time())
    for place, (circuit, hops) in enumerate(zip(circuits, lengths), 1):
        print(f"circuit {place} of {hops} hops begins", flush=True)
        for _ in range(packets):
            send(circuit)
        await asyncio.sleep(COUNTED_S)
        print(f"circuit {place} of {hops} hops ends", flush=True)


class Sink(asyncio.DatagramProtocol):
    def __init__(self, wanted):
        self.count, self.wanted = 0, wanted
        self.done = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, address):
        self.count += 1
        if self.count == self.wanted:
            self.done.set_result(None)


async def sink(wanted):
    loop = asyncio.get_running_loop()
    _, counter = await loop.create_datagram_endpoint(lambda: Sink(wanted), local_addr=("0.0.0.0", SINK_PORT))
    await counter.done
    # Ending is no part of what is counted.
    await asyncio.sleep(SETTLING_S)


async def main(role, *arguments):
    began = asyncio.get_running_loop().time()
    if role == "sink":
        return await sink(*map(int, arguments))
    community = await community_of(role)
    walking = asyncio.ensure_future(discover(community, role))
    if role not in ("seeder", "counted"):
        await walking
    packets, size, *lengths = map(int, arguments)
    if role == "seeder":
        await seed(community, packets, size, lengths)
    else:
        await count(community, began, packets, size, lengths)
    walking.cancel()


# How many arguments each role takes, at least.
NEEDED = {"tracker": 0, "relay": 0, "exit": 0, "sink": 1, "seeder": 3, "counted": 3}
if __name__ == "__main__":
    if len(sys.argv) < 2 or len(sys.argv) - 2 < NEEDED.get(sys.argv[1], sys.maxsize):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
    print("done", flush=True)
