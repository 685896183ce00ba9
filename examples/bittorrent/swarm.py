#!/usr/bin/python3
"""A swarm of BitTorrent by libtorrent: `seed` makes a file, announces it and serves its torrent; `leech` fetches both.

swarm.py seed                          on the host "seed": tracker, web server of the torrent, and the first peer
swarm.py leech TRANSPORT               TRANSPORT: tcp, utp or both
"""

import hashlib
import http.server
import random
import sys
import threading
import time
import urllib.parse
import urllib.request

import libtorrent as lt

HTTP_PORT = 6969
PEER_PORT = 6881
FILE_BYTES = 8 << 20
PIECE_BYTES = 64 << 10
# peer_info::utp_socket, which the bindings do not name.
UTP_SOCKET = 1 << 17


class Tracker(http.server.BaseHTTPRequestHandler):
    """Names to each peer the others (BEP 3, BEP 23), and gives out the torrent."""

    peers = {}
    torrent = b""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/swarm.torrent":
            return self.answer(self.torrent)
        # The peer's id is no text: latin-1 keeps its bytes.
        asked = dict(urllib.parse.parse_qsl(url.query, encoding="latin-1"))
        address = bytes(map(int, self.client_address[0].split(".")))
        self.peers[asked["peer_id"]] = address + int(asked["port"]).to_bytes(2, "big")
        if asked.get("event") == "stopped":
            del self.peers[asked["peer_id"]]
        others = [peer for name, peer in self.peers.items() if name != asked["peer_id"]]
        self.answer(lt.bencode({"interval": 30, "min interval": 5, "peers": b"".join(others)}))

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def make_torrent():
    with open("data", "wb") as file:
        file.write(random.Random(1).randbytes(FILE_BYTES))
    files = lt.file_storage()
    lt.add_files(files, "data")
    torrent = lt.create_torrent(files, piece_size=PIECE_BYTES)
    torrent.add_tracker(f"http://seed:{HTTP_PORT}/announce")
    lt.set_piece_hashes(torrent, ".")
    return lt.bencode(torrent.generate())


def session(transport):
    return lt.session({
        "listen_interfaces": f"0.0.0.0:{PEER_PORT}",
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        "enable_outgoing_tcp": transport != "utp",
        "enable_incoming_tcp": transport != "utp",
        "enable_outgoing_utp": transport != "tcp",
        "enable_incoming_utp": transport != "tcp",
    })


def take_part(transport, torrent):
    own = session(transport)
    return own, own.add_torrent({"ti": lt.torrent_info(lt.bdecode(torrent)), "save_path": "."})


def seed():
    Tracker.torrent = make_torrent()
    server = http.server.ThreadingHTTPServer(("", HTTP_PORT), Tracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own, handle = take_part("both", Tracker.torrent)
    print("seed", digest(), flush=True)
    while True:
        time.sleep(60)


def leech(transport):
    torrent = urllib.request.urlopen(f"http://seed:{HTTP_PORT}/swarm.torrent").read()
    own, handle = take_part(transport, torrent)
    start = time.monotonic()
    kinds = set()
    while not handle.status().is_seeding:
        for peer in handle.get_peer_info():
            kinds.add("utp" if peer.flags & UTP_SOCKET else "tcp")
        time.sleep(0.5)
    seconds = time.monotonic() - start
    print("complete", digest(), f"in {seconds:.1f} s over", " and ".join(sorted(kinds)), flush=True)
    # The others can still have pieces from here.
    while True:
        time.sleep(60)


def digest():
    with open("data", "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


if __name__ == "__main__":
    seed() if sys.argv[1] == "seed" else leech(sys.argv[2])
