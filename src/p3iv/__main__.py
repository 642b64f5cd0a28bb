"""`python -m p3iv` is `p3iv`."""

from p3iv.cli.app import main

if __name__ == "__main__":
    main()
