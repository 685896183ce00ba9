"""A secret in one buffer: 'holder' gives it to two of five peers and something else to the others; peer4 passes on what it gets."""
import ctypes
import socket
import sys

role, *peers = sys.argv[1:]
if role == "holder":
    secret = bytearray(b"forty-two bytes that nobody else may see!!")
    other = bytearray(b"nothing that anybody would want to read !!")
    print(hex(ctypes.addressof(ctypes.c_char.from_buffer(secret))), len(secret))
    for peer in peers:
        with socket.create_connection((peer, 80)) as stream:
            stream.sendall(secret if peer in ("peer2", "peer4") else other)
else:
    with socket.create_server(("0.0.0.0", 80)) as server:
        data = server.accept()[0].recv(4096)
    if role == "passes":
        with socket.create_connection((peers[0], 80)) as stream:
            stream.sendall(data)
