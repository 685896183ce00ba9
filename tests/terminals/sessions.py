"""Drives programs through a pseudo-terminal, as expect does, and prints what they show: natively and as a guest the same.

    python3 sessions.py NAME FILE

FILE is a text of some pages for those that show one.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time

PATIENCE_S = 10
# What a person needs to press the next key: whoever reads the terminal has got it by then.
PAUSE_S = 0.15
# A folder that ends with the session.
FOLDER = tempfile.TemporaryDirectory()
PRIVATE = FOLDER.name


class Session:
    def __init__(self, argv):
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # Before the program starts, or it may draw twice.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            keep = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
            fixed = {"TERM": "xterm", "PS1": "$ ", "HOME": "/nonexistent", "LC_ALL": "C", "INPUTRC": "/dev/null"}
            # tmux's socket: the usual folder may be another user's, left by an earlier run.
            own = {"HISTFILE": "", "LESSHISTFILE": "-", "TMUX_TMPDIR": PRIVATE}
            os.execvpe(argv[0], argv, {**keep, **fixed, **own})

    def read(self):
        try:
            return os.read(self.master, 4096)
        except OSError:
            return b""

    def expect(self, pattern):
        end = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            left = end - time.monotonic()
            data = left > 0 and select.select([self.master], [], [], left)[0] and self.read()
            if not data:
                raise SystemExit(f"waited for {pattern!r}, saw {self.seen!r}")
            self.seen += data
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def type(self, keys):
        time.sleep(PAUSE_S)
        os.write(self.master, keys)

    def end(self):
        while data := self.read():
            self.seen += data
        return os.waitpid(self.pid, 0)[1]


def prompt(text=rb""):
    return text + rb".*[\r\n](\x1b\[\?2004h)?\$ $"


BASH = ["bash", "--norc"]
SESSIONS = {
    "jobs": (
        BASH + ["--noediting", "-i"],
        [
            (b"", rb"\$ $"),
            (b"echo hello $((6*7))\r", prompt()),
            (b"tty | sed 's/[0-9]*$//'; stty size\r", prompt()),
            (b"sleep 100; echo not reached\r", rb"reached\r\n"),
            (b"\x03", prompt(rb"\^C")),
            (b"echo $?\r", prompt()),
            (b"sleep 100\r", rb"100\r\n"),
            (b"\x1a", prompt(rb"Stopped")),
            (b"jobs\r", prompt()),
            (b"bg\r", prompt()),
            (b"jobs\r", prompt()),
            (b"fg\r", rb"sleep 100\r\n"),
            (b"\x03", prompt()),
            (b"jobs; echo none\r", prompt()),
            (b"cat\r", rb"cat\r\n"),
            (b"typed\r", rb"typed\r\ntyped\r\n"),
            (b"\x04", rb"\$ $"),
            (b"stty -echo\r", rb"\$ $"),
            (b"stty echo\r", rb"\$ $"),
            (b"stty -a | head -3\r", prompt()),
            (b"exit 7\r", None),
        ],
    ),
    "editing": (
        BASH + ["-i"],
        [
            (b"", rb"\$ $"),
            (b"ecgo\x02\x02\x08h\x05 right\r", prompt(rb"not found")),
            (b"\x10\r", prompt(rb"not found")),
            (b"\x10\x01true \x05\r", prompt()),
            (b"exit\r", None),
        ],
    ),
    "less": (["less", "FILE"], [(b"", rb"FILE"), (b" ", rb"\n:"), (b"G", rb"\(END"), (b"q", None)]),
    "vim": (
        ["vim", "-u", "NONE", "-i", "NONE", "-n", "-N", "edited"],
        [(b"", rb"edited"), (b"ihello vim\x1b", rb"hello vim"), (b":wq\r", rb"written"), (b"", None)],
    ),
    "tmux": (
        ["tmux", "-f", "/dev/null", "-L", "gnomon-test", "new-session", "sh", "-c", "echo inside; tty; sleep 0.3"],
        [(b"", rb"inside.*/dev/pts/"), (b"", rb"exited")],
    ),
    "python": (
        [sys.executable, "-q"],
        [(b"", rb">>> $"), (b"1+1\r", rb"\n2\r\n>>> $"), (b"\x03", rb"KeyboardInterrupt\r\n>>> $"), (b"\x04", None)],
    ),
}

# Screens that depend on what the terminal draws first: only that they come is compared.
DRAWN = {"vim", "tmux"}


def main():
    name, path = sys.argv[1:]
    argv, steps = SESSIONS[name]
    session = Session([path if word == "FILE" else word for word in argv])
    for keys, pattern in steps:
        if keys:
            session.type(keys)
        if pattern is None:
            continue
        shown = session.expect(pattern.replace(b"FILE", re.escape(os.path.basename(path)).encode()))
        print(keys, "shown" if name in DRAWN else shown)
    status = session.end()
    print("rest", b"" if name in DRAWN else session.seen)
    print("status", os.waitstatus_to_exitcode(status))


main()
