"""A peer of IPv8's tunnels whose calls are counted, as a program of an experiment: pyipv8 2.14 or 3.2, as pip installs it.

    ipv8_calls.py relay|exit                serves circuits, and its counts
    ipv8_calls.py seeder PACKETS HOPS..     sends so many packets through a circuit of each length, and prints the calls of each role

The interpreter's own profiler (cProfile) counts calls on all hosts. The names are those of the publication. In the environment,
WALKING=SECONDS lets nobody look for others after so long; the seeder waits for that.
"""
import asyncio
import cProfile
import json
import os
import sys

from ipv8.messaging.anonymization.crypto import PythonCryptoEndpoint, TunnelCrypto
from ipv8.messaging.anonymization.exit_socket import TunnelExitSocket
from ipv8.messaging.interfaces.udp.endpoint import UDPEndpoint
from ipv8.messaging.serialization import Address
from ipv8_peer import OWN_EXIT_PORT, PAUSE_S, SETTLING_S, circuit_of, circuit_to, community_of, discover, sending

CONTROL_PORT = 7000
BURST = 10
PACKET_BYTES = 1000
OTHERS = {"relay1": "relay", "relay2": "relay", "relay3": "relay", "relay4": "relay", "exit": "exit"}
FUNCTIONS = [
    ("encode_address", Address.pack),
    ("decode_address", Address.unpack),
    ("crypto_out", PythonCryptoEndpoint.outgoing_crypto),
    ("send_packet", UDPEndpoint.send),
    ("send_packet", TunnelExitSocket.sendto),
    ("relay_packet", PythonCryptoEndpoint.relay_cell),
]
# Version 3 has these in Rust, as methods of its keys.
CIPHERS = ["encrypt_str", "decrypt_str"]
FUNCTIONS += [(name, getattr(TunnelCrypto, name)) for name in CIPHERS if hasattr(TunnelCrypto, name)]
NAMES = {function.__code__: name for name, function in FUNCTIONS}


def name_of(code):
    if isinstance(code, str):
        return next((name for name in CIPHERS if f"'{name}'" in code), None)
    return NAMES.get(code)


def counts_of(profiler):
    counts = dict.fromkeys(NAMES.values(), 0) | dict.fromkeys(CIPHERS, 0)
    # What is called while the entries are listed, such as by collecting garbage, would change the list.
    profiler.disable()
    entries = profiler.getstats()
    profiler.enable()
    for entry in entries:
        if name := name_of(entry.code):
            counts[name] += entry.callcount
    return counts


async def serve(profiler):
    async def answer(reader, writer):
        writer.write(json.dumps(counts_of(profiler)).encode())
        writer.close()

    await asyncio.start_server(answer, "0.0.0.0", CONTROL_PORT)


async def all_counts(profiler):
    """By role and function; those of the relays together."""
    counts = {("seeder", name): count for name, count in counts_of(profiler).items()}
    for host, role in OTHERS.items():
        reader, writer = await asyncio.open_connection(host, CONTROL_PORT)
        for name, count in json.loads(await reader.read()).items():
            counts[role, name] = counts.get((role, name), 0) + count
        writer.close()
    return counts


async def count(community, profiler, packets, lengths):
    send = sending(community, PACKET_BYTES)
    own_exit = await community_of("exit", OWN_EXIT_PORT)
    await asyncio.sleep(float(os.environ["WALKING"]) + SETTLING_S)
    community.cancel_pending_task("do_ping")
    for hops in lengths:
        circuit = await circuit_of(community, hops) if hops else circuit_to(own_exit, community)
        # The first packet opens the exit's sockets.
        send(circuit)
        await asyncio.sleep(SETTLING_S)
        before = await all_counts(profiler)
        for sent in range(1, packets + 1):
            send(circuit)
            if sent % BURST == 0:
                await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(SETTLING_S)
        after = await all_counts(profiler)
        for (role, name), calls in after.items():
            line = {"hops": hops, "role": role, "function": name, "calls": (calls - before[role, name]) / packets}
            print(json.dumps(line), flush=True)
        await community.remove_circuit(circuit.circuit_id, destroy=1)
        await asyncio.sleep(SETTLING_S)


async def main(role, *arguments):
    profiler = cProfile.Profile()
    profiler.enable()
    community = await community_of(role)
    walking = asyncio.ensure_future(discover(community, role))
    if role != "seeder":
        await serve(profiler)
        await walking
    packets, *lengths = map(int, arguments)
    await count(community, profiler, packets, lengths)
    walking.cancel()


NEEDED = {"relay": 0, "exit": 0, "seeder": 2}
if __name__ == "__main__":
    if len(sys.argv) < 2 or len(sys.argv) - 2 < NEEDED.get(sys.argv[1], sys.maxsize):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
    print("done", flush=True)
