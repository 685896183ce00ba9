# Passes messages around: gossip.py NUMBER HOSTS SECONDS. Each that comes goes on to a host that the number's own sequence picks.
import random, socket, subprocess, sys, time

me, hosts, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
draw = random.Random(me)
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 9000))
end = time.monotonic() + seconds
heard = 0


def pass_on(message):
    # Never to itself: that takes no time, and so never ends.
    own.sendto(message, ("gossip%d" % ((me + 1 + draw.randrange(hosts - 1)) % hosts), 9000))


pass_on(b"%d begins" % me)
while (left := end - time.monotonic()) > 0:
    own.settimeout(left)
    try:
        message, _ = own.recvfrom(2000)
    except TimeoutError:
        break
    heard += 1
    if heard % 40 == 0:
        # A child: a twin at the same addresses, then another program at them.
        child = subprocess.run([sys.executable, "-S", "-c", "print(sum(range(%d)))" % heard], capture_output=True, text=True)
        message += child.stdout.encode()
    pass_on(message[-200:])
print(me, heard, time.monotonic())
