async def resolve(name: str) -> str:
    if name == "unknown":
        raise LookupError(name)
    return f"id of {name}"
