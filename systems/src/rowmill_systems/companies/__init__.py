"""Companies: names are resolved to company ids, at once where they are known, in the background where they are not."""
