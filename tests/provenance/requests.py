"""Numbered requests: 'serve' answers them, 'ask HOST COUNT' makes COUNT over thirty connections at once. Both mark what they are about."""
import asyncio
import os
import sys

MARKS = os.open("/dev/gnomon-mark", os.O_WRONLY)
CONNECTIONS = 30


def mark(text):
    os.write(MARKS, text.encode())


async def serve(reader, writer):
    while request := await reader.readline():
        number = int(request.split()[1].rsplit(b"/")[-1])
        while await reader.readline() != b"\r\n":
            pass
        mark(f"serve {number}")
        body = b"item %d\n" % number * (1 + number % 50)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    writer.close()


async def ask(host, numbers):
    reader, writer = await asyncio.open_connection(host, 80)
    for number in numbers:
        mark(f"ask {number}")
        writer.write(b"GET /item/%d HTTP/1.1\r\nHost: shop\r\n\r\n" % number)
        length = 0
        assert b" 200 " in await reader.readline()
        while (line := await reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        body = await reader.readexactly(length)
        assert body.split(b"\n")[0] == b"item %d" % number, (number, body[:20])
        mark(f"got {number}")


async def main():
    if sys.argv[1] == "serve":
        server = await asyncio.start_server(serve, "0.0.0.0", 8000)
        await server.serve_forever()
    host, count = sys.argv[2], int(sys.argv[3])
    numbers = iter(range(count))
    await asyncio.gather(*(ask(host, numbers) for _ in range(CONNECTIONS)))
    print("all", count)


asyncio.run(main())
