"""Datagrams of 8 KB in fragments: 'server' echoes what it gets, 'client' sends forty and counts what comes back."""
import socket
import sys

sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "server":
    sock.bind(("0.0.0.0", 7000))
    while True:
        data, peer = sock.recvfrom(65536)
        sock.sendto(data, peer)
sock.settimeout(1)
back = 0
for number in range(40):
    sock.sendto(bytes([number]) * 8000, (sys.argv[2], 7000))
    try:
        back += sock.recvfrom(65536)[0][0] == number
    except TimeoutError:
        pass
print(back)
sock.sendto(b"nobody", (sys.argv[2], 7001))
# A question for a name, which the simulator answers.
question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04echo\x00\x00\x01\x00\x01"
sock.sendto(question, ("127.0.0.53", 53))
assert sock.recvfrom(512)[0][:2] == question[:2]
