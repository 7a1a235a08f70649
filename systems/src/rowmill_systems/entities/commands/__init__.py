"""`rowmill systems entities`."""
