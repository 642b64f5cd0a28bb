"""`python -m p3iv` is `p3iv`."""

from p3iv.cli import main

if __name__ == "__main__":
    main()
