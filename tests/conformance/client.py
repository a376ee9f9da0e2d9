"""What the suite starts as *client under test*: a gateway in front of the suite's server, and the Python
SDK's conformance client in front of that gateway.

Arguments: none but the URL of the suite's server, which the suite appends. From the environment:
`SWITCHYARD_BINARY`, `SWITCHYARD_PEERS`, `SWITCHYARD_LOGS` (a folder).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "lab"))

from programs import Gateway, Peers  # noqa: E402


def main() -> int:
    peers = Peers(Path(os.environ["SWITCHYARD_PEERS"]))
    binary = Path(os.environ["SWITCHYARD_BINARY"])
    folder = Path(tempfile.mkdtemp(prefix="client-", dir=os.environ["SWITCHYARD_LOGS"]))
    with Gateway(binary, {"suite": {"url": sys.argv[-1]}}, folder / "gateway.log") as gateway:
        command = [peers.program("peer-python"), str(peers.client), f"{gateway.url}/suite"]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
