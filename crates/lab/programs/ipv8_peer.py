"""A peer of IPv8's tunnels, as a program of an experiment: pyipv8 2.14 or 3.2, as pip installs it.

    ipv8_peer.py tracker                    introduces the others to each other
    ipv8_peer.py relay|exit                 serves circuits
    ipv8_peer.py sink PACKETS               ends when so many datagrams have come out of circuits
    ipv8_peer.py seeder PACKETS BYTES HOPS..
                                            sends so many packets through a circuit of each length, and says when

Peers find each other by IPv8's own introductions, which begin at the host 'tracker'. A circuit of 0 hops ends where it begins: the
seeder encrypts what it sends, and an exit in the same process decrypts it and sends it to the sink.

In the environment, ENDPOINT=rust takes pyipv8 3's endpoint in Rust.
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
FLAGS = {"relay": {PEER_FLAG_RELAY}, "exit": {PEER_FLAG_RELAY, PEER_FLAG_EXIT_BT}, "seeder": set(), "tracker": set()}
# Packets are sent so many at once, and so many seconds apart: less than receivers' buffers hold.
BURST = 10
PAUSE_S = 0.01
# A circuit that is not there after so many seconds is tried anew.
BUILDING_S = 20
# After the last packet of a circuit, for those that are under way.
SETTLING_S = 2


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
    settings.peer_flags = FLAGS[role]
    settings.remove_tunnel_delay = 0
    community = TunnelCommunity(settings)
    community.my_peer.address = address_of(socket.gethostname(), port)
    community.my_estimated_lan = community.my_estimated_wan = community.my_peer.address
    if hasattr(endpoint, "apply_settings"):
        endpoint.apply_settings()
    return community


async def discover(community, role):
    """Walks for ever: to the tracker first, then to whom others introduce."""
    walk = RandomWalk(community)
    while True:
        if role != "tracker":
            community.walk_to(address_of("tracker"))
        walk.take_step()
        # All know each other soon, and then they need not ask as often.
        await asyncio.sleep(0.5 if len(community.get_peers()) < 5 else 5)


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


async def seed(community, packets, size, lengths):
    sink = UDPv4Address(socket.gethostbyname("sink"), SINK_PORT)
    own_exit = await community_of("exit", OWN_EXIT_PORT)
    # Exits let only pass what could be BitTorrent's: here uTP's data.
    data = b"\x01\x00" + random.randbytes(size - 2)
    for place, hops in enumerate(lengths, 1):
        circuit = await circuit_of(community, hops) if hops else circuit_to(own_exit, community)
        target, number = circuit.hop.address, circuit.circuit_id
        # The first packet opens the exit's sockets.
        community.send_data(target, number, sink, ("0.0.0.0", 0), data)
        await asyncio.sleep(1)
        print(f"circuit {place} of {hops} hops begins", flush=True)
        for sent in range(1, packets + 1):
            community.send_data(target, number, sink, ("0.0.0.0", 0), data)
            if sent % BURST == 0:
                await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(SETTLING_S)
        print(f"circuit {place} of {hops} hops ends", flush=True)
        await community.remove_circuit(number, destroy=1)
        await asyncio.sleep(SETTLING_S)


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


async def main(role, *arguments):
    if role == "sink":
        return await sink(*map(int, arguments))
    community = await community_of(role)
    walking = asyncio.ensure_future(discover(community, role))
    if role != "seeder":
        await walking
    packets, size, *lengths = map(int, arguments)
    await seed(community, packets, size, lengths)
    walking.cancel()


# How many arguments each role takes, at least.
NEEDED = {"tracker": 0, "relay": 0, "exit": 0, "sink": 1, "seeder": 3}
if len(sys.argv) < 2 or len(sys.argv) - 2 < NEEDED.get(sys.argv[1], sys.maxsize):
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
