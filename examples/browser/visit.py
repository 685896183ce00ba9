# Visits a page with firefox, led by the protocol that geckodriver speaks (Marionette); prints the page as it is in the end, and leaves a
# picture of it.
#
#   visit.py PROFILE URL PICTURE
import base64
import json
import socket
import subprocess
import sys
import time

profile, url, picture = sys.argv[1:]
browser = subprocess.Popen(["firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", profile])
connection = None
while not connection:
    if browser.poll() is not None:
        sys.exit("firefox has ended")
    try:
        connection = socket.create_connection(("127.0.0.1", 2828))
    except ConnectionRefusedError:
        time.sleep(0.1)
stream = connection.makefile("rb")


def receive():
    """A message: its length, a colon, JSON."""
    length = b""
    while not length.endswith(b":"):
        length += stream.read(1)
    return json.loads(stream.read(int(length[:-1])))


def command(name, **parameters):
    """Has firefox do something, and returns what it answers."""
    text = json.dumps([0, 1, name, parameters]).encode()
    connection.sendall(b"%d:%s" % (len(text), text))
    _, _, error, value = receive()
    if error:
        browser.terminate()
        sys.exit(f"{name}: {error['error']} {error['message']}")
    return value


receive()
command("WebDriver:NewSession")
command("WebDriver:Navigate", url=url)
script = "return window.visited.then(() => document.documentElement.outerHTML)"
print(command("WebDriver:ExecuteScript", script=script, args=[])["value"])
with open(picture, "wb") as file:
    file.write(base64.b64decode(command("WebDriver:TakeScreenshot")["value"]))
command("Marionette:Quit", flags=["eAttemptQuit"])
sys.exit(browser.wait())
