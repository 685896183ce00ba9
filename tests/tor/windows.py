"""Programs that press on the windows of a SOCKS port's streams.

windows.py serve     port 9000 echoes, port 9001 takes connections and never reads
windows.py early     60 streams at once, each with 15,000 bytes before the answer to its CONNECT, to be echoed
windows.py stuck     uploads that nobody reads; closed in the middle
"""
import socket
import sys
import threading
import time

EARLY = 15_000


def echo(connection):
    while part := connection.recv(65_536):
        connection.sendall(part)


def listen(port, serve):
    listener = socket.create_server(("", port), backlog=500)
    kept = []
    while True:
        kept.append(listener.accept()[0])
        if serve:
            threading.Thread(target=serve, args=(kept.pop(),), daemon=True).start()


def connect(port):
    connection = socket.create_connection(("127.0.0.1", 9050))
    connection.settimeout(60)
    connection.sendall(b"\5\1\0" + b"\5\1\0\3\7server1" + port.to_bytes(2, "big"))
    return connection


def early(done):
    connection = connect(9000)
    connection.sendall(b"x" * EARLY)
    count, wanted = 0, 2 + 10 + EARLY
    while count < wanted and (part := connection.recv(65_536)):
        count += len(part)
    done.append(count == wanted)


def stuck():
    connection = connect(9001)
    connection.settimeout(5)
    try:
        while True:
            connection.sendall(b"x" * 65_536)
    except TimeoutError:
        connection.close()


if sys.argv[1] == "serve":
    threading.Thread(target=listen, args=(9001, None), daemon=True).start()
    listen(9000, echo)
elif sys.argv[1] == "early":
    done = []
    threads = [threading.Thread(target=early, args=(done,)) for _ in range(60)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(done.count(True), "echoed")
else:
    [stuck() for _ in range(3)]
    time.sleep(1)
    print("closed")
