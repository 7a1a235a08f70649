"""What stands before and behind the endpoints of every system."""
