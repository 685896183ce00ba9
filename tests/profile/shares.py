"""Functions with known shares of the processor time: 60, 30 and 10 %, in two threads."""
import sys
import threading
import time


def spin(rounds):
    x = 1
    for _ in range(rounds):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x


def sixty(rounds):
    return spin(6 * rounds)


def thirty(rounds):
    return spin(3 * rounds)


def ten(rounds):
    return spin(rounds)


def work(rounds):
    for _ in range(rounds):
        sixty(2000)
        thirty(2000)
        ten(2000)
        time.sleep(0.001)


print("begins", flush=True)
other = threading.Thread(target=work, args=(int(sys.argv[1]),))
other.start()
work(int(sys.argv[1]))
other.join()
print("ends", flush=True)
