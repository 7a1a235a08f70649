import importlib.util
import sys

from sqlalchemy.orm import Session as _Session

from tests.support import sqlmodel_like

# SQLModel keeps every class of a process in one place: each run of the page gets a module of its own.
for _name in [name for name in sys.modules if name == "sqlmodel" or name.startswith("sqlmodel.")]:
    del sys.modules[_name]
if importlib.util.find_spec("sqlmodel") is None:
    _spec = importlib.util.spec_from_file_location("sqlmodel", sqlmodel_like.__file__)
    assert _spec is not None
    assert _spec.loader is not None
    _stand_in = importlib.util.module_from_spec(_spec)
    sys.modules["sqlmodel"] = _stand_in
    _spec.loader.exec_module(_stand_in)
    vars(_stand_in)["Session"] = _Session
