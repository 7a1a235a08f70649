"""Document intake, shown: papers go in over HTTP, workers read them, one of them is killed, a person decides."""
