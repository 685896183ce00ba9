"""A service that is announced by multicast DNS, and who looks for it.

mdns.py announce ADDRESS | mdns.py look
"""

import socket
import sys
import time

from zeroconf import ServiceInfo, Zeroconf

TYPE = "_demo._tcp.local."
NAME = "printer." + TYPE

zeroconf = Zeroconf()
if sys.argv[1] == "announce":
    address = socket.inet_aton(sys.argv[2])
    zeroconf.register_service(ServiceInfo(TYPE, NAME, port=631, addresses=[address], server="printer.local."))
    print("announced", flush=True)
    time.sleep(10)
else:
    found = zeroconf.get_service_info(TYPE, NAME, timeout=5000)
    print("found", found and (found.parsed_addresses(), found.port), flush=True)
zeroconf.close()
