"""Text of images."""
