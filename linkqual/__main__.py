"""`python -m linkqual`."""

import sys

from linkqual.cli import main

sys.exit(main())
