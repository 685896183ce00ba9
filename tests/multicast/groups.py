"""Who hears a datagram to a group: prints what arrived within three seconds, with the sender's address.

groups.py hear GROUP [SOURCE]          joins the group, from this source alone if one is named
groups.py deaf GROUP                   the port without the group
groups.py send GROUP TTL TEXT...       a datagram a text
"""

import socket
import sys

PORT = 5000
IP_ADD_SOURCE_MEMBERSHIP = 39

role, group, *rest = sys.argv[1:]
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if role == "send":
    here.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, int(rest[0]))
    for text in rest[1:]:
        here.sendto(text.encode(), (group, PORT))
else:
    here.bind((group if role == "hear" else "", PORT))
    if role == "hear" and rest:
        request = socket.inet_aton(group) + bytes(4) + socket.inet_aton(rest[0])
        here.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, request)
    elif role == "hear":
        here.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + bytes(4))
    here.settimeout(3)
    while True:
        try:
            data, (address, _) = here.recvfrom(100)
        except TimeoutError:
            break
        print(data.decode(), "from", address)
    print("end")
