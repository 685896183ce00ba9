#!/usr/bin/env python3
"""What the machine's Linux makes of bulk transfers over a line with a rate, a queue, losses and a delay: a table as linux.csv.

    python3 linux.py TABLE [MBIT,RTT_MS,LOSS,...] [--trace]        # as root

Plays the rows of TABLE that begin with the second argument, and prints them with the bytes that a program had read SECONDS after another one's
first write. Two network namespaces, which end with this program, hold a TUN device each, without offloads; this program is the line between
them, the sender in one and the receiver in the other. The line's rules are those of line.rs, to the nanosecond. --trace also prints the sender's
TCP_INFO each round trip.

It is meant for a kernel whose time stands still while it computes (User Mode Linux with `time-travel=inf-cpu`): there it says what TCP does. In
real time it also says what the machine's processors do: cells of 1 Gbit/s are out of reach, and what came late is told on standard error.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections import deque

SENDER, RECEIVER = '192.168.77.1', '192.168.77.2'
# TUN forgets whose a packet is, so that TCP's small queues hold nothing back: its queue takes what a window may hold.
DEVICE_QUEUE = 20000
SETTINGS = {
    'tcp_no_metrics_save': '1', 'tcp_rmem': '4096 131072 6291456', 'tcp_wmem': '4096 16384 4194304',
    'tcp_sack': '1', 'tcp_timestamps': '1', 'tcp_window_scaling': '1', 'tcp_ecn': '2', 'tcp_fastopen': '0', 'tcp_moderate_rcvbuf': '1',
    'tcp_slow_start_after_idle': '1', 'tcp_shrink_window': '0', 'tcp_adv_win_scale': '1'}
CHUNK = bytes(1 << 17)
CLONE_NEWNET = 0x40000000
PR_SET_TIMERSLACK = 29
POLLIN, POLLOUT = 1, 4
TCP_CONGESTION = 13

libc = ctypes.CDLL(None, use_errno=True)


class PollFd(ctypes.Structure):
    _fields_ = [('fd', ctypes.c_int), ('events', ctypes.c_short), ('revents', ctypes.c_short)]


class Timespec(ctypes.Structure):
    _fields_ = [('seconds', ctypes.c_long), ('nanoseconds', ctypes.c_long)]


class Random:
    """splitmix64, as in line.rs: the same packets are lost there."""

    def __init__(self, seed):
        self.state = seed

    def unit(self):
        self.state = (self.state + 0x9e3779b97f4a7c15) & 0xffffffffffffffff
        z = self.state
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & 0xffffffffffffffff
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & 0xffffffffffffffff
        return ((z ^ (z >> 31)) >> 11) / (1 << 53)


class Line:
    """One direction: a queue of so many bytes that drops what does not fit, a rate, losses behind it, and a delay."""

    def __init__(self, bits_per_second, delay_ns, queue, loss, seed):
        self.rate, self.delay, self.queue, self.loss = bits_per_second, delay_ns, queue, loss
        self.random = Random(seed)
        self.free_at = 0
        self.first = True
        self.under_way = deque()

    def offer(self, now, data):
        waiting = max(self.free_at - now, 0) * self.rate // 8_000_000_000
        if waiting + len(data) > self.queue:
            return
        self.free_at = max(self.free_at, now) + -(-len(data) * 8_000_000_000 // self.rate)
        # The first packet, which opens the connection, is never lost.
        if self.loss and not self.first and self.random.unit() < self.loss:
            return
        self.first = False
        self.under_way.append((self.free_at + self.delay, data))


def queue_bytes(bits_per_second, rtt_ns):
    """One bandwidth-delay product, and no less than 100 full packets."""
    return max(bits_per_second * rtt_ns // 8_000_000_000, 150_000)


def namespace(address):
    """A new network namespace with a TUN device; this program stays in it."""
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), 'unshare')
    tun = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    # TUNSETIFF, IFF_TUN | IFF_NO_PI.
    fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))
    for command in (f'address add {address}/24 dev tun0', 'link set lo up', f'link set tun0 txqueuelen {DEVICE_QUEUE} up'):
        subprocess.run(['ip', *command.split()], check=True)
    for name, value in SETTINGS.items():
        with open(f'/proc/sys/net/ipv4/{name}', 'w') as file:
            file.write(value)
    return tun


class Transfer:
    def __init__(self, tuns, listener):
        self.tuns, self.listener = tuns, listener
        self.late = 0

    def drain(self):
        for tun in self.tuns:
            while True:
                try:
                    os.read(tun, 2048)
                except BlockingIOError:
                    break

    def run(self, lines, seconds, trace=None):
        """Bytes that arrived within so many seconds after the first write."""
        tun_a, tun_b = self.tuns
        there, back = lines
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b'cubic')
        sender.setblocking(False)
        receiver, got, end, blocked = None, 0, None, True
        try:
            sender.connect(self.listener.getsockname())
        except BlockingIOError:
            pass
        polled = (PollFd * 4)(PollFd(tun_a, POLLIN), PollFd(tun_b, POLLIN), PollFd(sender.fileno(), POLLOUT),
                              PollFd(self.listener.fileno(), POLLIN))
        wait = Timespec()
        clock, read, write = time.monotonic_ns, os.read, os.write
        next_trace = 0
        while True:
            now = clock()
            for line, tun in ((there, tun_b), (back, tun_a)):
                under_way = line.under_way
                while under_way and under_way[0][0] <= now:
                    at, data = under_way.popleft()
                    self.late = max(self.late, now - at)
                    write(tun, data)
                    if tun is tun_b and receiver:
                        try:
                            got += len(receiver.recv(1 << 22))
                        except BlockingIOError:
                            pass
                    self.take(now, tun_b, back)
                    self.take(now, tun_a, there)
            if end and now >= end:
                break
            if trace and end and now >= next_trace:
                next_trace = now + trace
                show(sender, receiver, now - end + seconds * 10**9, got)
            until = min([line.under_way[0][0] for line in lines if line.under_way] + [end or now + 10**9] + [next_trace or now + 10**12])
            wait.seconds, wait.nanoseconds = divmod(max(until - now, 0), 10**9)
            polled[2].events = POLLOUT if blocked else 0
            libc.ppoll(polled, 4, ctypes.byref(wait), None)
            if polled[2].revents & POLLOUT:
                if end is None:
                    end = clock() + seconds * 10**9
                    next_trace = clock() if trace else 0
                blocked = False
                while not blocked:
                    try:
                        sender.send(CHUNK)
                    except BlockingIOError:
                        blocked = True
            if polled[3].revents:
                if receiver:
                    got += len(receiver.recv(1 << 22))
                else:
                    receiver, _ = self.listener.accept()
                    receiver.setblocking(False)
                    polled[3].fd = receiver.fileno()
            now = clock()
            self.take(now, tun_a, there)
            self.take(now, tun_b, back)
        for end in (sender, receiver):
            # A reset, and nothing is left of it.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            end.close()
        self.drain()
        return got

    def take(self, now, tun, line):
        """What Linux has sent enters the line."""
        while True:
            try:
                data = os.read(tun, 2048)
            except BlockingIOError:
                return
            # IPv6 has its own talk with neighbours.
            if data[0] >> 4 == 4:
                line.offer(now, data)


def show(sender, receiver, now, got):
    info = sender.getsockopt(socket.IPPROTO_TCP, 11, 280)
    word = lambda at: int.from_bytes(info[at:at + 4], 'little')
    print(f'# {now / 1e9:.6f} state {info[1]} cwnd {word(80)} ssthresh {word(76)} unacked {word(24)} sacked {word(28)} lost {word(32)} retrans {word(36)}'
          f' total {word(100)} rtt {word(68)} rttvar {word(72)} rto {word(8)} snd_wnd {word(228)} notsent {word(144)} reordering {word(88)}'
          f' got {got}')


def main():
    arguments = [word for word in sys.argv[1:] if word != '--trace']
    trace = '--trace' in sys.argv
    prefix = arguments[1] if len(arguments) > 1 else ''
    with open(arguments[0]) as file:
        rows = [line.split(',') for line in file if line[0].isdigit() and line.startswith(prefix)]
    libc.prctl(PR_SET_TIMERSLACK, 1)
    tun_b = namespace(RECEIVER)
    listener = socket.create_server((RECEIVER, 5001))
    listener.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b'cubic')
    tun_a = namespace(SENDER)
    transfer = Transfer((tun_a, tun_b), listener)
    print(f'# Linux {os.uname().release}, {time.strftime("%Y-%m-%d")}', 'mbit,rtt_ms,loss,seconds,seed,bytes', sep='\n')
    for mbit, rtt_ms, loss, seconds, seed, _ in rows:
        rate, rtt = int(mbit) * 1_000_000, int(rtt_ms) * 1_000_000
        queue = queue_bytes(rate, rtt)
        lines = (Line(rate, rtt // 2, queue, float(loss), int(seed)), Line(rate, rtt // 2, queue, 0, 0))
        transfer.late = 0
        got = transfer.run(lines, int(seconds), rtt if trace else None)
        print(mbit, rtt_ms, loss, seconds, seed, got, sep=',', flush=True)
        if transfer.late > 100_000:
            print(f'a packet of the last one was late by {transfer.late / 1e6:.1f} ms', file=sys.stderr)


if __name__ == '__main__':
    main()
