"""Asking services over HTTP, politely: within limits of the whole fleet, and never twice what was answered."""
