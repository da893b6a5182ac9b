# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, driven through the pipe of the DevTools protocol: what a page asks for and says, and
what a person sees of it."""

import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class PageError(Exception):
    """What the page's own code threw."""


class Browser:
    """One page in a browser whose names of hosts lead nowhere, but `host`; use it in a `with`."""

    def __init__(self, folder, host=None):
        self.folder = pathlib.Path(folder)
        self.hosts = "MAP * ~NOTFOUND" + (f", EXCLUDE {host}" if host else "")
        self.events, self.number, self.rest, self.session = [], 0, b"", None

    def __enter__(self):
        # The browser reads commands from 3 and writes to 4; pipes above those do not get in their way.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in [*os.pipe(), *os.pipe()]]
        theirs, self.commands, self.answers, written = ends
        words = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
                 f"--user-data-dir={self.folder / 'profile'}", f"--host-resolver-rules={self.hosts}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{written}', "bash", *words],
                                        pass_fds=(theirs, written), stderr=(self.folder / "browser.log").open("w"),
                                        stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(self.folder)})
        os.close(theirs)
        os.close(written)
        target = next(each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self.commands)
        os.close(self.answers)
        self.process.terminate()
        self.process.wait(timeout=30)

    def next_message(self):
        """The next event or answer."""
        while b"\0" not in self.rest:
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError((self.folder / "browser.log").read_text()[-2000:])
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        """A command's answer; events meanwhile are kept."""
        self.number += 1
        words = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            words["sessionId"] = self.session
        os.write(self.commands, json.dumps(words).encode() + b"\0")
        while (message := self.next_message()).get("id") != self.number:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def of(self, method):
        """What events of a kind said."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def open(self, path, width, height=900):
        """Loads a file, or what an address gives, in a window of this size."""
        address = path if "://" in str(path) else pathlib.Path(path).resolve().as_uri()
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=address)
        while not self.of("Page.loadEventFired"):
            self.events.append(self.next_message())

    def evaluate(self, expression):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def click(self, selector):
        """Presses the mouse in the middle of an element, as a person does."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        time.sleep(0.05)
        x, y = self.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
                             ".getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        """The whole page as a picture."""
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """What the page wrote to the console, what it threw, and what the browser says of it."""
        return [*self.of("Runtime.consoleAPICalled"), *self.of("Runtime.exceptionThrown"), *self.of("Log.entryAdded")]

    def requests(self):
        """The addresses that were asked for."""
        return [each["request"]["url"] for each in self.of("Network.requestWillBeSent")]
