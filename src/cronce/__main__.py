"""python -m cronce"""

from cronce.cli import console

if __name__ == "__main__":
    console()
