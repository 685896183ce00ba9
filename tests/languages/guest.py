"""A guest in Python: what its library does with processes, threads, sockets and signals. Prints the same in every run."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import io
import multiprocessing
import multiprocessing.managers
import os
import queue
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time


def square(number):
    return number * number


def serve_numbers(connection):
    while (number := connection.recv()) is not None:
        connection.send(square(number))
    connection.close()


def fill(shared, start):
    for i in range(start, len(shared), 4):
        shared[i] = i


def change(mapping, items, lock, number):
    with lock:
        mapping[number] = square(number)
        items.append(number)


def start_methods():
    for method in ['fork', 'spawn', 'forkserver']:
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            squares = pool.map(square, range(20), chunksize=3)
            late = pool.apply_async(square, (12,)).get(timeout=30)
        own, other = context.Pipe()
        child = context.Process(target=serve_numbers, args=(other,))
        child.start()
        own.send(7)
        answer = own.recv()
        own.send(None)
        child.join()
        shared = context.Array('i', 40)
        fillers = [context.Process(target=fill, args=(shared, start)) for start in range(4)]
        for filler in fillers:
            filler.start()
        for filler in fillers:
            filler.join()
        print(method, sum(squares), late, answer, child.exitcode, list(shared) == list(range(40)))
        sleeper = context.Process(target=time.sleep, args=(100,))
        sleeper.start()
        sleeper.terminate()
        sleeper.join()
        print('terminated', sleeper.exitcode)


def managers():
    with multiprocessing.Manager() as manager:
        mapping, items, lock = manager.dict(), manager.list(), manager.Lock()
        children = [multiprocessing.Process(target=change, args=(mapping, items, lock, n)) for n in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        print('manager', sorted(mapping.items()), sorted(items))


def futures():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print('threads', list(pool.map(square, range(8))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        futures = [pool.submit(square, n) for n in range(5)]
        print('processes', sorted(f.result() for f in concurrent.futures.as_completed(futures)))


def subprocesses():
    pipeline = subprocess.Popen(['seq', '1000'], stdout=subprocess.PIPE)
    total = subprocess.run(['awk', '{s+=$1} END {print s}'], stdin=pipeline.stdout, capture_output=True, text=True)
    pipeline.stdout.close()
    print('pipeline', total.stdout.strip(), pipeline.wait())
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(['sleep', '100'], timeout=0.1)
        print('not reached')
    killed = subprocess.Popen(['sleep', '100'], start_new_session=True)
    os.killpg(killed.pid, signal.SIGKILL)
    print('killed', killed.wait())
    # A child that computes until its time is over.
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, '-I', '-S', '-c', 'while True: pass'], timeout=0.5)
        print('not reached')
    read, write = os.pipe()
    child = subprocess.Popen(['sh', '-c', f'echo passed >&{write}'], pass_fds=[write])
    os.close(write)
    print(os.read(read, 100), child.wait())
    try:
        subprocess.run(['no-such-command'], check=True)
    except FileNotFoundError as error:
        print(error.filename)


def threads():
    numbers, results = queue.Queue(5), []

    def work():
        while (number := numbers.get()) is not None:
            results.append(square(number))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in [*range(100), None, None, None]:
        numbers.put(number)
    for worker in workers:
        worker.join()
    print('sum', sum(results))


def signals():
    caught = []
    signal.signal(signal.SIGUSR1, lambda number, _: caught.append(signal.Signals(number).name))
    signal.signal(signal.SIGALRM, lambda number, _: caught.append(signal.Signals(number).name))
    signal.raise_signal(signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    signal.pause()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    os.kill(os.getpid(), signal.SIGUSR2)
    print(caught, signal.sigwait([signal.SIGUSR2]).name, signal.sigtimedwait([signal.SIGUSR2], 0.01))


def sockets():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        child = os.fork()
        if child == 0:
            with socket.create_connection(listener.getsockname()) as stream:
                stream.sendall(b'x' * 100000)
            os._exit(0)
        stream, _ = listener.accept()
        length = 0
        while data := stream.recv(4096):
            length += len(data)
        stream.close()
        print('received', length, os.waitpid(child, 0)[1])
    left, right = socket.socketpair()
    read, write = os.pipe()
    socket.send_fds(left, [b'take'], [write])
    _, [received], _, _ = socket.recv_fds(right, 10, 1)
    os.write(received, b'through a descriptor')
    poller = select.epoll()
    poller.register(read, select.EPOLLIN)
    print(poller.poll(1)[0][1] == select.EPOLLIN, os.read(read, 100))


async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def visit(port, number):
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    writer.write(f'visitor {number}\n'.encode())
    line = await reader.readline()
    writer.close()
    return line.decode().strip()


async def coroutines():
    server = await asyncio.start_server(echo, '127.0.0.1', 0)
    port = server.sockets[0].getsockname()[1]
    print(await asyncio.gather(*(visit(port, number) for number in range(4))))
    server.close()
    child = await asyncio.create_subprocess_exec(
        'tr', 'a-z', 'A-Z', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    print(await child.communicate(b'words'), child.returncode)
    shell = await asyncio.create_subprocess_shell('exit 4')
    print(await shell.wait(), await asyncio.get_running_loop().run_in_executor(None, square, 9))
    try:
        await asyncio.wait_for(asyncio.sleep(100), 0.01)
    except asyncio.TimeoutError:
        print('timeout')
    caught = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, caught.set)
    os.kill(os.getpid(), signal.SIGHUP)
    await caught.wait()


def libraries():
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.closing(sqlite3.connect(f'{folder}/data.db')) as database, database:
            database.execute('create table numbers (n)')
            database.executemany('insert into numbers values (?)', [(n,) for n in range(100)])
        with contextlib.closing(sqlite3.connect(f'{folder}/data.db')) as database:
            print(database.execute('select sum(n) from numbers').fetchone(), sorted(os.listdir(folder)))
    libc = ctypes.CDLL(None)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(ctypes.c_int)] * 2)(lambda a, b: a[0] - b[0])
    numbers = (ctypes.c_int * 5)(5, 3, 1, 4, 2)
    libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), compare)
    print(list(numbers), libc.strlen(b'length'))


if __name__ == '__main__':
    # Children must not repeat what is still in the buffer.
    sys.stdout = io.TextIOWrapper(open(1, 'wb', 0), write_through=True)
    for part in [start_methods, managers, futures, subprocesses, threads, signals, sockets, libraries]:
        part()
    asyncio.run(coroutines())
