"""`gcbs` and `python -m gcbs_cli`."""

from gcbs_cli.cli.app import main

if __name__ == "__main__":
    main()
