# The script that `gnomon ... --gdb` gives to gdb: it runs Gnomon, keeps gdb's symbols at what the chosen guest has mapped, and stops where
# that guest begins. Gnomon tells it what happens by a function that has a breakpoint here (crates/guest/src/debugger.rs).
#
# Gnomon's own symbols are not loaded: `break main` and `break malloc` mean the guest's.

import gdb
import gdb.unwinder
import os
import re
import stat
import struct

SCRIPT = @SCRIPT@
PROGRAM = @PROGRAM@
ARGUMENTS = @ARGUMENTS@
TARGET = @TARGET@

REGISTERS = "rip rsp rbp rbx r12 r13 r14 r15 rax rcx rdx rsi rdi r8 r9 r10 r11 fs_base".split()


def run(command):
    return gdb.execute(command, to_string=True)


def register(name, frame=None):
    return int((frame or gdb.newest_frame()).read_register(name)) & (1 << 64) - 1


class Guest:
    """What Gnomon has told."""

    def __init__(self):
        self.entry = None
        self.process = ""
        self.ranges = []
        self.files = {}

    def told(self, text):
        head, *lines = text.split("\n")
        kind, _, rest = head.partition(" ")
        if kind == "end":
            gdb.write("[guest %s]\n" % rest)
            return False
        files, self.ranges = {}, []
        for line in lines:
            what, _, values = line.partition(" ")
            if what == "process":
                self.process = values
            elif what == "range":
                self.ranges.append(tuple(int(value, 16) for value in values.split()))
            elif what == "file":
                *numbers, path = values.split(" ", 4)
                files[path, int(numbers[0], 16)] = [int(number, 16) for number in numbers]
        self.load(files)
        if kind == "entry":
            self.entry = int(rest, 16)
        return kind == "entry"

    def load(self, files):
        for (path, offset), (_, code, _, _) in self.files.items():
            if (path, offset) not in files:
                run("remove-symbol-file -a %#x" % code)
        for (path, offset) in files:
            if (path, offset) not in self.files:
                try:
                    run('add-symbol-file "%s" -o %#x' % (path, offset))
                except gdb.error as error:
                    gdb.write("no symbols of %s: %s\n" % (path, error))
        self.files = files

    def has(self, address):
        return any(start <= address < end for start, end in self.ranges)

    def sled_around(self, address):
        for _, _, start, end in self.files.values():
            if start <= address < end:
                return start, end
        return None


GUEST = Guest()


class Told(gdb.Breakpoint):
    """Gnomon's function for telling: the text's address and length are its arguments."""

    def stop(self):
        text = gdb.selected_inferior().read_memory(register("rdi"), register("rsi"))
        return GUEST.told(bytes(text).decode(errors="replace"))


class GuestFault(gdb.Function):
    """$gnomon_fault(): whether the current instruction is the guest's own, and does not only read the time-stamp counter.

    `hlt` stands where the instructions began that a jump took the place of, and leads to their copies.
    """

    def __init__(self):
        super().__init__("gnomon_fault")

    def invoke(self):
        at = register("rip")
        if not GUEST.has(at):
            return False
        code = bytes(gdb.selected_inferior().read_memory(at, 3))
        return code[:2] != b"\x0f\x31" and code != b"\x0f\x01\xf9" and code[:1] != b"\xf4"


class Sleds(gdb.unwinder.Unwinder):
    """Code that Gnomon has moved behind an image: the caller is the place that it was moved from."""

    def __init__(self):
        super().__init__("gnomon-sleds")

    def __call__(self, pending):
        at, rsp = register("rip", pending), register("rsp", pending)
        sled = GUEST.sled_around(at)
        if sled is None:
            return None
        target = None
        for step in pending.architecture().disassemble(at, count=16):
            jump = re.match(r"jmp +0x([0-9a-f]+)", step["asm"])
            if jump and not sled[0] <= int(jump[1], 16) < sled[1]:
                target = int(jump[1], 16)
                break
            if step["asm"].startswith("ret"):
                target = struct.unpack("<Q", bytes(gdb.selected_inferior().read_memory(rsp, 8)))[0]
                rsp += 8
                break
        if target is None:
            return None
        word = pending.read_register("rsp").type
        info = pending.create_unwind_info(FrameId(rsp, at))
        for name in REGISTERS[2:]:
            info.add_saved_register(name, pending.read_register(name))
        info.add_saved_register("rsp", gdb.Value(rsp).cast(word))
        info.add_saved_register("rip", gdb.Value(target).cast(pending.read_register("rip").type))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class Registers:
    """For the time of a `with`, the selected thread of gdb has the registers of a guest thread that waits."""

    def __init__(self, values):
        self.values = values

    def set(self, values):
        for name, value in values.items():
            run("with language c -- set var $%s = %#x" % (name, value))

    def __enter__(self):
        self.level = gdb.selected_frame().level()
        gdb.newest_frame().select()
        self.old = {name: register(name) for name in REGISTERS + ["orig_rax"]}
        self.set(dict(self.values, orig_rax=(1 << 64) - 1))

    def __exit__(self, *_):
        gdb.newest_frame().select()
        self.set(self.old)
        if self.level:
            run("frame %d" % self.level)


class Threads(gdb.Command):
    """gnomon-threads [COMMAND]: the guest's threads as the simulated kernel has them, each with the output of COMMAND (bt without one).

    Threads that wait have the registers with which they go on. Memory of a forked twin that is not at its addresses is not seen."""

    def __init__(self, table, places, words):
        super().__init__("gnomon-threads", gdb.COMMAND_STACK)
        self.table, self.places, self.words = table, places, words

    def invoke(self, arguments, _):
        size = 8 * self.words
        data = bytes(gdb.selected_inferior().read_memory(self.table, size * self.places))
        for at in range(0, len(data), size):
            tid, runs, call = struct.unpack_from("<3Q", data, at)
            if tid:
                name = data[at + 24:at + 40].split(b"\0")[0].decode(errors="replace")
                values = struct.unpack_from("<18Q", data, at + 40)
                self.show(tid, name, runs, call, dict(zip(REGISTERS, values)), arguments or "bt")

    def show(self, tid, name, runs, call, values, command):
        what = "runs" if runs else "waits in system call %d" % (call - 1) if call else "can run"
        gdb.write("\nGuest thread %d (%s) %s:\n" % (tid, name, what))
        if not runs:
            with Registers(values):
                gdb.execute(command)
        elif GUEST.has(register("rip")):
            gdb.execute(command)
        else:
            gdb.write("  (inside Gnomon; its registers are in gdb's own thread)\n")


class Silence:
    """Nobody wants to see the stops before the guest begins: gdb's standard output goes nowhere until then, Gnomon's where it belongs."""

    def __enter__(self):
        self.kept = None
        kind = os.fstat(1).st_mode
        if not (stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):
            # Opened a second time, a file has a second place to write at.
            return ""
        gdb.flush()
        self.kept = os.dup(1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        return " >>/proc/%d/fd/%d" % (os.getpid(), self.kept)

    def __exit__(self, *_):
        if self.kept is not None:
            gdb.flush()
            os.dup2(self.kept, 1)
            os.close(self.kept)


def set_up():
    for setting in [
        "pagination off", "confirm off", "auto-solib-add off", "breakpoint pending on", "auto-load libthread-db off",
        "print thread-events off",
    ]:
        run("set " + setting)
    run("handle all nostop noprint pass")
    run("handle SIGTRAP SIGINT stop print nopass")
    run('exec-file "%s"' % PROGRAM)
    for name in ["LINES", "COLUMNS"]:
        run("unset environment " + name)


def run_to_the_guest():
    """Whether it has begun."""
    with Silence() as output:
        run("set args " + ARGUMENTS + output)
        run("run")
        if not gdb.selected_inferior().pid:
            return False
        run("nosharedlibrary")
        told, table, places, words = (register(name) for name in ["rdi", "rsi", "rdx", "rcx"])
        Told("*%#x" % told, internal=True)
        run("continue")
        if GUEST.entry is None:
            return False
        gdb.unwinder.register_unwinder(None, Sleds(), True)
        GuestFault()
        Threads(table, places, words)
        gdb.Breakpoint("*%#x" % GUEST.entry, internal=True, temporary=True)
        run("continue")
    return True


def begin():
    os.unlink(SCRIPT)
    set_up()
    if not run_to_the_guest():
        gdb.write("The run is over, and %s has not begun.\n" % TARGET)
        return
    run("catch signal SIGSEGV SIGBUS SIGFPE SIGILL")
    run("condition $bpnum $gnomon_fault()")
    run("set confirm on")
    pid, name, host = (GUEST.process.split(" ") + ["", ""])[:3]
    gdb.write("%s (process %s of host %s) is about to begin. 'gnomon-threads' shows its threads.\n" % (name, pid, host))
    gdb.execute("frame")


begin()
