"""What the engine says of itself: events, and the log made of them."""
