"""`python -m shoal` is the command `shoal`."""

import sys

from shoal.cli.main import main

sys.exit(main())
