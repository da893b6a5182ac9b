# SPDX-License-Identifier: Apache-2.0
"""The short form of soak.py."""

from conftest import Server
from soak import soak


def test_mixed_load_gives_no_wrong_answer(tmp_path):
    server = Server(tmp_path)
    try:
        print(soak(server, 8))
    finally:
        assert server.stop() == 0, server.log()
