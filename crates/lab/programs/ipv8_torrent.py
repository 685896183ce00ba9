"""BitTorrent over IPv8's tunnels, as a program of an experiment: libtorrent and pyipv8 3.2, as pip installs them.

    ipv8_torrent.py seed BYTES              serves a torrent of so many bytes, and its counters
    ipv8_torrent.py download BYTES HOPS..   fetches it through a circuit of each length, and prints a line for each; 'direct': without

The downloader's libtorrent uses a SOCKS5 proxy in the same process, as Tribler's does: the proxy sends each datagram through the
circuit, and hands to libtorrent what comes back. Relays, the exit and the tracker are those of ipv8_peer.py.
"""
import asyncio
import json
import os
import random
import socket
import struct
import sys
import time

import libtorrent
from ipv8.messaging.interfaces.udp.endpoint import UDPv4Address
from ipv8_peer import OWN_EXIT_PORT, circuit_of, circuit_to, community_of, discover

SEED_PORT = 6881
COUNTERS_PORT = 7000
PROXY_PORT = 1080
PIECE_BYTES = 64 << 10
POLL_S = 0.01
# A download that takes longer has failed.
LIMIT_S = 600
SETTLING_S = 2
# The seed's counters that are printed, by libtorrent's names.
COUNTERS = {
    "packets": "utp.utp_packets_out",
    "resent": "utp.utp_packet_resend",
    "lost": "utp.utp_packet_loss",
    "timeouts": "utp.utp_timeout",
}
SETTINGS = {
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "enable_outgoing_tcp": False,
    "enable_incoming_tcp": False,
    "alert_mask": libtorrent.alert.category_t.stats_notification,
}


def torrent_of(size):
    """The same on all hosts, so that nobody has to fetch it."""
    with open("data", "wb") as file:
        file.write(random.Random(1).randbytes(size))
    files = libtorrent.file_storage()
    libtorrent.add_files(files, "data")
    torrent = libtorrent.create_torrent(files, piece_size=PIECE_BYTES)
    libtorrent.set_piece_hashes(torrent, ".")
    return libtorrent.torrent_info(torrent.generate())


async def counters_of(session):
    """Libtorrent's counters, by our names."""
    session.post_session_stats()
    while True:
        for alert in session.pop_alerts():
            if isinstance(alert, libtorrent.session_stats_alert):
                return {name: alert.values[counter] for name, counter in COUNTERS.items()}
        await asyncio.sleep(POLL_S)


async def seed(size):
    session = libtorrent.session({**SETTINGS, "listen_interfaces": f"0.0.0.0:{SEED_PORT}"})
    session.add_torrent({"ti": torrent_of(size), "save_path": "."})

    async def answer(reader, writer):
        writer.write(json.dumps(await counters_of(session)).encode())
        writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", COUNTERS_PORT)
    await server.serve_forever()


async def counters_at_seed():
    reader, writer = await asyncio.open_connection("seed", COUNTERS_PORT)
    counters = json.loads(await reader.read())
    writer.close()
    return counters


class Proxy(asyncio.DatagramProtocol):
    """SOCKS5 (RFC 1928) for datagrams alone, by a circuit."""

    def __init__(self, community):
        self.community = community
        self.circuit = None
        self.client = None
        self.received = 0
        community.on_raw_data = self.from_circuit

    async def open(self):
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        await asyncio.start_server(self.serve, "127.0.0.1", PROXY_PORT)

    async def serve(self, reader, writer):
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        request = await reader.readexactly(10)
        is_associate = request[1] == 3 and request[3] == 1
        host, port = self.transport.get_extra_info("sockname")
        result = 0 if is_associate else 7
        writer.write(struct.pack("!BBBB4sH", 5, result, 0, 1, socket.inet_aton(host), port))
        # The association lasts as long as the connection.
        await reader.read()
        writer.close()

    def datagram_received(self, data, address):
        self.client = address
        # Reserved, fragment, kind of address: none but whole packets to IPv4.
        if data[:4] != b"\0\0\0\1" or self.circuit is None:
            return
        host, port = struct.unpack_from("!4sH", data, 4)
        destination = UDPv4Address(socket.inet_ntoa(host), port)
        self.community.send_data(self.circuit.hop.address, self.circuit.circuit_id, destination, ("0.0.0.0", 0), data[10:])

    def from_circuit(self, circuit, origin, data):
        self.received += 1
        if self.client is not None:
            header = struct.pack("!I4sH", 1, socket.inet_aton(origin[0]), origin[1])
            self.transport.sendto(header + data, self.client)


async def fetch(torrent, is_proxied):
    """Downloads the torrent; seconds from the connection to the last piece."""
    settings = {**SETTINGS, "listen_interfaces": "0.0.0.0:0"}
    if is_proxied:
        settings |= {
            "proxy_type": int(libtorrent.proxy_type_t.socks5),
            "proxy_hostname": "127.0.0.1",
            "proxy_port": PROXY_PORT,
            "proxy_peer_connections": True,
        }
    os.mkdir(folder := f"download-{time.monotonic_ns()}")
    session = libtorrent.session(settings)
    handle = session.add_torrent({"ti": torrent, "save_path": folder})
    # Until the proxy has answered, and the folder was looked through.
    await asyncio.sleep(SETTLING_S)
    began = time.monotonic()
    handle.connect_peer((socket.gethostbyname("seed"), SEED_PORT))
    while not handle.status().is_seeding:
        if time.monotonic() - began > LIMIT_S:
            sys.exit(f"no download within {LIMIT_S} s: {handle.status().progress:.0%}")
        await asyncio.sleep(POLL_S)
    seconds = time.monotonic() - began
    session.pause()
    await asyncio.sleep(SETTLING_S)
    return seconds


async def download(size, *lengths):
    torrent = torrent_of(size)
    community = await community_of("seeder")
    own_exit = await community_of("exit", OWN_EXIT_PORT)
    walking = asyncio.ensure_future(discover(community, "seeder"))
    proxy = Proxy(community)
    await proxy.open()
    for length in lengths:
        is_proxied = length != "direct"
        if is_proxied:
            hops = int(length)
            proxy.circuit = await circuit_of(community, hops) if hops else circuit_to(own_exit, community)
        before, received = await counters_at_seed(), proxy.received
        seconds = await fetch(torrent, is_proxied)
        after = await counters_at_seed()
        line = {name: after[name] - before[name] for name in COUNTERS}
        line |= {"hops": length, "bytes": size, "seconds": seconds, "received": proxy.received - received}
        print(json.dumps(line), flush=True)
        if is_proxied:
            await community.remove_circuit(proxy.circuit.circuit_id, destroy=1)
            proxy.circuit = None
    walking.cancel()


async def main(role, size, *lengths):
    await (seed(int(size)) if role == "seed" else download(int(size), *lengths))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("seed", "download"):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
    print("done", flush=True)
