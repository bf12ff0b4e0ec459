"""``python -m kakite``."""

from kakite.cli.app import main

if __name__ == "__main__":
    main()
