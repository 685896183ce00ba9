"""Encrypts packets in so many layers, by a function of Python and by OpenSSL's SHA-256, one call for each packet."""
import hashlib
import os
import sys
import time


def encrypt(data, key):
    out = bytearray(len(data))
    for i, byte in enumerate(data):
        key = (key * 69 + 5) & 0xFF
        out[i] = byte ^ key
    return bytes(out)


def digest(data):
    return hashlib.sha256(data).digest()


def check(data, rounds):
    total = 0
    for byte in data * rounds:
        total = (total + byte) & 0xFF
    return total


layers, packets, rounds = map(int, sys.argv[1:])
file = os.open("/dev/null", os.O_WRONLY)
# Python rewrites what it executes often: only what comes later is counted.
for turn in range(12 + packets):
    if turn == 12:
        time.sleep(1)
    data = bytes(8)
    for layer in range(layers):
        data = digest(encrypt(data, layer))[:8]
    check(data, rounds)
    os.write(file, data)
os._exit(0)
