"""Answers questions that children have read and whose end is waited for: that of all threads at once, and that of the last."""
import ctypes
import os
import socket

listener = socket.create_server(("127.0.0.1", 7000))
for question, answer, ends in [
    (b"question", b"answer", lambda: os._exit(0)),
    (b"question2", b"answer2", lambda: ctypes.CDLL(None).syscall(60, 0)),
]:
    asker = os.fork()
    if asker == 0:
        sock = socket.create_connection(("127.0.0.1", 7000))
        sock.sendall(question)
        sock.recv(100)
        os._exit(0)
    sock, _ = listener.accept()
    child = os.fork()
    if child == 0:
        sock.recv(100)
        ends()
    os.waitpid(child, 0)
    sock.sendall(answer)
    os.waitpid(asker, 0)
