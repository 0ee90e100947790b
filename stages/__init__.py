"""DVC stages, one thin file each: read, one call into luthier, write."""

import sys

from luthier.stopping import end_while_starting

# Only as a program (`python -m stages.grid`): whoever imports a stage keeps their own way with signals.
if sys.argv[:1] == ["-m"]:
    end_while_starting()
