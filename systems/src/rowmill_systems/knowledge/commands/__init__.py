"""`rowmill systems knowledge …`"""
