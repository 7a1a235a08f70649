"""`python -m rowmill`: the command line, with the Python that you chose."""

from rowmill.cli.main import main

if __name__ == "__main__":
    main()
