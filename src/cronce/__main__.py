"""python -m cronce"""

import sys

from cronce.cli import main

if __name__ == "__main__":
    sys.exit(main())
