"""A topic of DDS between two participants that find each other by multicast, with the settings that CycloneDDS has.

dds.py write | dds.py read
"""

import sys
import time
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

COUNT = 20


@dataclass
class Reading(IdlStruct, typename="Reading"):
    number: int
    text: str


qos = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.Durability.TransientLocal, Policy.History.KeepAll)
participant = DomainParticipant()
topic = Topic(participant, "readings", Reading, qos=qos)
if sys.argv[1] == "write":
    writer = DataWriter(participant, topic, qos=qos)
    for number in range(COUNT):
        writer.write(Reading(number, f"reading {number}"))
        time.sleep(0.1)
    time.sleep(8)
    print("wrote", COUNT, flush=True)
else:
    reader = DataReader(participant, topic, qos=qos)
    got = []
    for _ in range(300):
        got += [sample.number for sample in reader.take(N=100)]
        if len(got) == COUNT:
            break
        time.sleep(0.1)
    print("read", len(got), "in order" if got == list(range(COUNT)) else got, flush=True)
