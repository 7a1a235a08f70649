"""The tables of limits, and the statements that grant permits and take them back, each under the lock of one row."""
