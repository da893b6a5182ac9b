# SPDX-License-Identifier: Apache-2.0
"""The peers' times that were measured before: bench/results holds a file per GPU and version of torch, rows in the form
of every bench."""

import json
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


class Records:
    """The rows of one GPU and one version; `peers` of a row are {name: milliseconds}."""

    def __init__(self, device, version, folder=FOLDER):
        name = re.sub(r"[^a-z0-9.]+", "-", f"{device} torch {version.split('+')[0]}".lower())
        self.path = os.path.join(folder, f"{name}.json")
        self.rows, self.changed = {}, False
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.rows = {(row["case"], row["batch"], row["dtype"]): row for row in json.load(file)}

    def peers(self, case, batch, dtype):
        """The recorded times of a case, by its name."""
        row = self.rows.get((case, batch, dtype))
        return dict(row["peers"]) if row else {}

    def keep(self, row):
        """Adds a row's peers to those that are known of its case."""
        key = (row["case"], row["batch"], row["dtype"])
        peers = {**self.rows.get(key, {"peers": {}})["peers"], **row["peers"]}
        self.changed = True
        self.rows[key] = {**row, "graft_ms": None, "ratio": None, "peers": peers}

    def write(self):
        """Writes the file whole or not at all."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        partial = f"{self.path}.partial"
        with open(partial, "w", encoding="utf-8") as file:
            rows = sorted(self.rows.values(), key=lambda row: (row["dtype"], row["case"], row["batch"]))
            file.write("[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n")
        os.replace(partial, self.path)


def drifts(recorded, measured, most):
    """[(name, recorded, measured)] of the peers whose times differ by more than the share `most`."""
    return [(name, recorded[name], milliseconds) for name, milliseconds in measured.items()
            if name in recorded and abs(milliseconds / recorded[name] - 1) > most]
