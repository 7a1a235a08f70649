"""Names of people, organisations, places and works: how to normalise, read and compare them."""
