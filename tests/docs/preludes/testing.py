import sys
import types

from tests.docs.pages import block_of

_app = types.ModuleType("app")
exec(compile(block_of("README.md", "python"), "app.py", "exec"), _app.__dict__)
sys.modules["app"] = _app
