"""`python -m deniable`: run the command where its script is not on the PATH."""

import sys

from deniable.shared.cli.command import main

sys.exit(main())
