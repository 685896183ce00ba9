#!/usr/bin/env python3
"""Plays cases against the machine's Linux, over a TUN device, and prints what it did (see the head of cases.txt for the language).

Runs as root in a network namespace of its own: unshare --net python3 linux.py FILE, with the cases on standard input or in FILE. All of them
run at the same time, each with a peer's address of its own. What was late by more than a few milliseconds is played again.
"""

import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import sys
import time

LATE_MS = 3
TRIES = 6
AT_ONCE = 24
LOCAL, LOCAL6 = '192.168.0.1', 'fd00::1'
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
LETTERS = [('S', SYN), ('F', FIN), ('R', RST), ('P', PSH), ('U', URG), ('.', ACK)]
# Merging: what one write or acknowledgement causes leaves together.
TOGETHER_MS = 3
FIELDS = {name: (at, size) for name, at, size in [
    ('state', 0, 1), ('ca', 1, 1), ('retransmits', 2, 1), ('probes', 3, 1), ('backoff', 4, 1), ('options', 5, 1), ('rto', 8, 4),
    ('ato', 12, 4), ('snd_mss', 16, 4), ('rcv_mss', 20, 4), ('unacked', 24, 4), ('sacked', 28, 4), ('lost', 32, 4), ('retrans', 36, 4),
    ('pmtu', 60, 4), ('rcv_ssthresh', 64, 4), ('rtt', 68, 4), ('rttvar', 72, 4), ('ssthresh', 76, 4), ('cwnd', 80, 4), ('advmss', 84, 4), ('reordering', 88, 4), ('rcv_rtt', 92, 4), ('rcv_space', 96, 4),
    ('total_retrans', 100, 4), ('bytes_acked', 120, 8), ('bytes_received', 128, 8), ('segs_out', 136, 4), ('segs_in', 140, 4),
    ('notsent', 144, 4), ('min_rtt', 148, 4), ('data_segs_in', 152, 4), ('data_segs_out', 156, 4), ('delivery_rate', 160, 8),
    ('busy', 168, 8), ('rwnd_limited', 176, 8), ('sndbuf_limited', 184, 8), ('delivered', 192, 4), ('bytes_sent', 200, 8),
    ('bytes_retrans', 208, 8), ('dsack_dups', 216, 4), ('reord_seen', 220, 4), ('rcv_ooopack', 224, 4), ('snd_wnd', 228, 4), ('rcv_wnd', 232, 4),
    ('total_rto', 240, 2), ('rto_recoveries', 242, 2), ('rto_time', 244, 4)]}
OPTIONS = {
    'nodelay': (socket.IPPROTO_TCP, 1), 'maxseg': (socket.IPPROTO_TCP, 2), 'cork': (socket.IPPROTO_TCP, 3), 'keepidle': (socket.IPPROTO_TCP, 4),
    'keepintvl': (socket.IPPROTO_TCP, 5), 'keepcnt': (socket.IPPROTO_TCP, 6), 'syncnt': (socket.IPPROTO_TCP, 7),
    'linger2': (socket.IPPROTO_TCP, 8), 'window_clamp': (socket.IPPROTO_TCP, 10), 'quickack': (socket.IPPROTO_TCP, 12),
    'user_timeout': (socket.IPPROTO_TCP, 18), 'notsent_lowat': (socket.IPPROTO_TCP, 25),
    'sndbuf': (socket.SOL_SOCKET, socket.SO_SNDBUF), 'rcvbuf': (socket.SOL_SOCKET, socket.SO_RCVBUF),
    'max_pacing_rate': (socket.SOL_SOCKET, 47),
    'keepalive': (socket.SOL_SOCKET, socket.SO_KEEPALIVE), 'rcvlowat': (socket.SOL_SOCKET, socket.SO_RCVLOWAT)}


def checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Case:
    def __init__(self, lines, number):
        words = lines[0].split()
        self.name, self.role = words[1], words[2]
        self.options = [word.split('=') for word in words[3:] if '=' in word and not word.startswith('tcp_')]
        self.shows_windows = 'windows' in words
        self.connected = 'connected' in words
        self.family = socket.AF_INET6 if 'ipv6' in words else socket.AF_INET
        self.local = LOCAL6 if 'ipv6' in words else LOCAL
        self.remote = f'fd09::{1 + number:x}' if 'ipv6' in words else f'10.{9 + number // 250}.0.{1 + number % 250}'
        self.port = 2000 + number
        self.actions = []
        for line in lines[1:]:
            at, *rest = line.split()
            self.actions.append((float(at), rest))
        self.reset()

    def reset(self):
        self.listener = self.sock = self.last = None
        self.local_port = self.port
        self.isn = None
        self.ts = 0
        self.stamps = False
        self.packets, self.calls = [], []
        self.start = None
        self.late = 0.0

    def open(self):
        sock = socket.socket(self.family, socket.SOCK_DGRAM if self.role == 'udp' else socket.SOCK_STREAM)
        sock.setblocking(False)
        if self.role != 'udp':
            sock.setsockopt(socket.IPPROTO_TCP, 13, b'cubic')
        for name, value in self.options:
            sock.setsockopt(*OPTIONS[name], int(value))
        if self.role == 'server':
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self.local, self.port))
            sock.listen(5)
            self.listener = sock
        elif self.role == 'udp':
            self.sock = sock
            sock.bind((self.local, self.port))
            if self.connected:
                sock.connect((self.remote, self.port))
        else:
            self.sock = sock
            sock.bind((self.local, 0))
            self.local_port = sock.getsockname()[1]
            try:
                sock.connect((self.remote, self.port))
            except BlockingIOError:
                pass

    def close(self):
        for sock in (self.sock, self.listener):
            if sock:
                # A reset, and nothing is left for the next try.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                sock.close()

    def accept(self):
        if self.sock is None and self.listener:
            try:
                self.sock, _ = self.listener.accept()
                self.sock.setblocking(False)
            except BlockingIOError:
                pass

    def call(self, words):
        self.accept()
        try:
            return self.do(words)
        except OSError as error:
            return errno_name(error.errno)
        except (AttributeError, TypeError):
            return 'no-socket'

    def do(self, words):
        name = words[0]
        if name == 'write':
            flags = {'more': 0x8000, 'eor': 0x80}
            if self.role == 'udp' and not self.connected:
                return self.sock.sendto(bytes(int(words[1])), (self.remote, self.port))
            return self.sock.send(bytes(int(words[1])), socket.MSG_NOSIGNAL | sum(flags[word] for word in words[2:]))
        if name == 'read':
            return len(self.sock.recv(int(words[1]), socket.MSG_PEEK if 'peek' in words else 0))
        if name == 'shut':
            how = {'r': socket.SHUT_RD, 'w': socket.SHUT_WR, 'rw': socket.SHUT_RDWR}
            self.sock.shutdown(how[words[1]])
            return 0
        if name == 'close':
            sock, self.sock = self.sock, None
            if self.listener:
                self.listener.close()
                self.listener = None
            if len(words) > 1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, int(words[1])))
            sock.close()
            return 0
        if name == 'opt':
            self.sock.setsockopt(*OPTIONS[words[1]], int(words[2]))
            return 0
        if name == 'getopt':
            return self.sock.getsockopt(*OPTIONS[words[1]])
        if name == 'error':
            error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            return errno_name(error) if error else 0
        if name in ('inq', 'outq', 'outqnsd'):
            request = {'inq': 0x541b, 'outq': 0x5411, 'outqnsd': 0x894b}[name]
            return struct.unpack('i', fcntl.ioctl(self.sock, request, b'\0\0\0\0'))[0]
        if name == 'rmem':
            # SO_MEMINFO: SK_MEMINFO_RMEM_ALLOC.
            return struct.unpack('I', self.sock.getsockopt(socket.SOL_SOCKET, 55, 4))[0]
        if name == 'poll':
            poll = select.poll()
            poll.register(self.sock, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
            ready = dict(poll.poll(0)).get(self.sock.fileno(), 0)
            names = [('in', select.POLLIN), ('out', select.POLLOUT), ('rdhup', select.POLLRDHUP), ('hup', select.POLLHUP), ('err', select.POLLERR)]
            return ','.join(word for word, bit in names if ready & bit) or 'none'
        if name == 'info':
            data = self.sock.getsockopt(socket.IPPROTO_TCP, 11, 280)
            value = lambda field: int.from_bytes(data[FIELDS[field][0]:FIELDS[field][0] + FIELDS[field][1]], 'little')
            return ' '.join(f'{field}={value(field)}' for field in words[1].split(','))
        raise ValueError(f'{self.name}: {words}')

    def packet(self, words):
        """The bytes of `in FLAGS SEQ:END [ack N] [win N] [<options>]`, `in LENGTH` or `in unreachable`."""
        if self.role == 'udp':
            return self.datagram(words[1])
        flags = sum(bit for letter, bit in LETTERS if letter in words[1])
        first, end = (int(part) for part in words[2].split(':'))
        length = end - first
        rest = words[3:]
        ack, window, options = 0, 1000, b''
        while rest:
            word = rest.pop(0)
            if word == 'ack':
                ack = (int(rest.pop(0)) + (self.isn or 0)) & 0xffffffff
            elif word == 'win':
                window = int(rest.pop(0))
            elif word.startswith('<'):
                options = self.tcp_options(word[1:-1].split(','))
        options += b'\1' * (-len(options) % 4)
        offset = (20 + len(options)) // 4
        urgent = length if flags & URG else 0
        head = struct.pack('!HHIIBBHHH', self.port, self.local_port, first & 0xffffffff, ack, offset << 4, flags, window, 0, urgent)
        body = head + options + bytes(length)
        return self.with_ip(6, body, 16)

    def datagram(self, what):
        if what != 'unreachable':
            length = int(what)
            return self.with_ip(17, struct.pack('!HHHH', self.port, self.port, 8 + length, 0) + bytes(length), 6)
        if self.family == socket.AF_INET6:
            return self.with_ip(58, struct.pack('!BBHI', 1, 4, 0, 0) + self.last, 2)
        body = struct.pack('!BBHI', 3, 3, 0, 0) + self.last
        return self.with_ip(1, body[:2] + struct.pack('!H', checksum(body)) + body[4:], None)

    def with_ip(self, protocol, body, place):
        """A packet from the peer; a checksum that covers the addresses goes to `place` in its body."""
        addresses = socket.inet_pton(self.family, self.remote) + socket.inet_pton(self.family, self.local)
        if place is not None:
            total = checksum(addresses + struct.pack('!II', len(body), protocol) + body)
            body = body[:place] + struct.pack('!H', total) + body[place + 2:]
        if self.family == socket.AF_INET6:
            return struct.pack('!IHBB', 6 << 28, len(body), protocol, 64) + addresses + body
        ip = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(body), 0, 0x4000, 64, protocol, 0) + addresses
        return ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:] + body

    def tcp_options(self, words):
        out = b''
        for word in words:
            name, *value = word.split('=')
            if name == 'mss':
                out += struct.pack('!BBH', 2, 4, int(value[0]))
            elif name == 'ws':
                out += struct.pack('!BBB', 3, 3, int(value[0]))
            elif name == 'sack':
                out += b'\4\2'
            elif name == 'ts':
                # What it echoes is what came last, unless the case says how much less.
                val, _, less = value[0].partition('-')
                # In a word's place, as Linux sends it: others it looks at more closely.
                out += b'\1' * ((2 - len(out)) % 4) + struct.pack('!BBII', 8, 10, int(val), (self.ts - int(less or 0)) & 0xffffffff)
            elif name == 'blocks':
                blocks = [tuple(int(edge) + self.isn & 0xffffffff for edge in block.split(':')) for block in value[0].split('+')]
                out += struct.pack('!BB', 5, 2 + 8 * len(blocks)) + b''.join(struct.pack('!II', *block) for block in blocks)
        return out

    def seen(self, at, data):
        """Notes a packet that Linux sent, unless the case is over."""
        if at > self.actions[-1][0] + TOGETHER_MS:
            return
        tcp = data[40 if data[0] >> 4 == 6 else (data[0] & 15) * 4:]
        if self.role == 'udp':
            if data[6 if data[0] >> 4 == 6 else 9] == 17:
                self.last = data
                self.packets.append((at, 'D', 0, len(tcp) - 8, ''))
            else:
                self.packets.append((at, 'I', 0, 0, ''))
            return
        seq, ack, offset, flags, window = struct.unpack('!IIBBH', tcp[4:16])
        offset = (offset >> 4) * 4
        length = len(tcp) - offset
        if flags & SYN:
            self.isn = seq
        if self.isn is None:
            self.isn = seq
        first = (seq - self.isn) & 0xffffffff
        if first >= 1 << 31:
            first -= 1 << 32
        shown, rest = [], tcp[20:offset]
        while rest:
            kind = rest[0]
            if kind <= 1:
                rest = rest[1:] if kind else b''
                continue
            value = rest[2:rest[1]]
            if kind == 2:
                shown.append(f'mss={struct.unpack("!H", value)[0]}')
            elif kind == 3:
                shown.append(f'ws={value[0]}')
            elif kind == 4:
                shown.append('sack')
            elif kind == 5:
                edges = struct.unpack(f'!{len(value) // 4}I', value)
                shown.append('blocks=' + '+'.join(f'{a}:{b}' for a, b in zip(edges[::2], edges[1::2])))
            elif kind == 8:
                self.ts, echo = struct.unpack('!II', value)
                shown.append(f'ecr={echo}')
            rest = rest[rest[1]:]
        text = ''.join(letter for letter, bit in LETTERS if flags & bit)
        tail = f' ack {ack}' if flags & ACK else ''
        if self.shows_windows:
            tail += f' win {window}'
        if shown:
            tail += f' <{",".join(shown)}>'
        self.note(at, text, first, first + length, tail)

    def note(self, at, flags, first, end, tail):
        if self.packets:
            before = self.packets[-1]
            joins = before[3] == first and before[2] < before[3] and end > first and before[4] == tail and at - before[0] < TOGETHER_MS
            if joins and not set(before[1]) & set('PFSR'):
                self.packets[-1] = (before[0], flags, before[2], end, tail)
                return
        self.packets.append((at, flags, first, end, tail))

    def report(self):
        lines = [f'> {round(at)} {flags} {first}:{end}{tail}' for at, flags, first, end, tail in self.packets]
        return lines + [f'= {line}' for line in self.calls]


def errno_name(number):
    import errno
    return errno.errorcode.get(number, str(number))


def device():
    tun = os.open('/dev/net/tun', os.O_RDWR)
    # TUNSETIFF, IFF_TUN | IFF_NO_PI.
    fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))
    for command in (f'address add {LOCAL}/24 dev tun0', 'link set lo up', 'link set tun0 up', 'route add 10.0.0.0/8 dev tun0',
                    f'address add {LOCAL6}/64 dev tun0 nodad', 'route add fd09::/16 dev tun0'):
        subprocess.run(['ip', *command.split()], check=True)
    return tun


def play(tun, cases):
    """Plays these cases at the same time."""
    agenda = []
    begin = time.monotonic() + 0.05
    for index, case in enumerate(cases):
        case.reset()
        # Not all in the same moment.
        case.start = begin + 0.004 * index
        heapq.heappush(agenda, (case.start, index, -1, None))
        for place, (at, words) in enumerate(case.actions):
            heapq.heappush(agenda, (case.start + at / 1000, index, place, words))
    by_remote = {socket.inet_pton(case.family, case.remote): case for case in cases}
    while agenda:
        # The last moments are spent looking: a sleeper is woken late.
        wait = agenda[0][0] - time.monotonic()
        if select.select([tun], [], [], max(wait - 0.0005, 0))[0]:
            data = os.read(tun, 65536)
            is_six = data[0] >> 4 == 6
            case = by_remote.get(data[24:40] if is_six else data[16:20])
            if case and data[6 if is_six else 9] in ((1, 17, 58) if case.role == 'udp' else (6,)):
                case.seen((time.monotonic() - case.start) * 1000, data)
            continue
        now = time.monotonic()
        if now < agenda[0][0]:
            continue
        due, index, place, words = heapq.heappop(agenda)
        case = cases[index]
        case.late = max(case.late, (now - due) * 1000)
        if place < 0:
            case.open()
        elif words[0] == 'in':
            os.write(tun, case.packet(words))
        elif words[0] != 'end':
            case.calls.append(f'{round(case.actions[place][0])} {" ".join(words)} -> {case.call(words)}')
    for case in cases:
        case.close()
    # What is left belongs to nobody.
    while select.select([tun], [], [], 0.01)[0]:
        os.read(tun, 65536)


def main():
    lines = [line.rstrip() for line in open(sys.argv[1])]
    blocks = []
    for line in lines:
        if line.startswith('case '):
            blocks.append([line])
        elif line and not line.startswith(('#', '|')):
            blocks[-1].append(line)
    for setting in sys.argv[2:]:
        name, value = setting.split('=')
        with open(f'/proc/sys/net/ipv4/{name}', 'w') as file:
            file.write(value)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    tun = device()
    left = [Case(block, number) for number, block in enumerate(blocks)]
    done = []
    for attempt in range(TRIES):
        again = []
        step = AT_ONCE if attempt < 3 else 4
        for at in range(0, len(left), step):
            batch = left[at:at + step]
            play(tun, batch)
            for case in batch:
                (done if case.late <= LATE_MS or attempt + 1 == TRIES else again).append(case)
        left = again
    for case in done:
        print(f'case {case.name} late {case.late:.1f}')
        print('\n'.join(case.report()))


main()
