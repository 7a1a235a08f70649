"""The demo: process rows with workers that die and freeze, then verify the result."""
