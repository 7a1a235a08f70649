"""`rowmill systems intake`."""
