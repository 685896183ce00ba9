"""Peers of Zenoh that find each other by scouting, with the settings that Zenoh has.

zenoh_peers.py publish | zenoh_peers.py subscribe | zenoh_peers.py scout
"""

import sys
import time

import zenoh

COUNT = 20

if sys.argv[1] == "scout":
    with zenoh.scout(what="peer") as answers:
        time.sleep(3)
        print("found", len({str(hello.zid) for hello in [answers.try_recv() for _ in range(50)] if hello}), flush=True)
    sys.exit()
with zenoh.open(zenoh.Config()) as session:
    if sys.argv[1] == "publish":
        publisher = session.declare_publisher("demo/readings")
        for _ in range(200):
            if publisher.matching_status.matching:
                break
            time.sleep(0.1)
        for number in range(COUNT):
            publisher.put(f"reading {number}")
            time.sleep(0.1)
        time.sleep(2)
        print("published", COUNT, flush=True)
    else:
        got = []
        session.declare_subscriber("demo/readings", lambda sample: got.append(sample.payload.to_string()))
        for _ in range(300):
            if len(got) == COUNT:
                break
            time.sleep(0.1)
        whole = got == [f"reading {number}" for number in range(COUNT)]
        print("received", len(got), "in order" if whole else got, flush=True)
