"""Makes exports and goldens of the chosen cases ready before the first test, two at a time."""

import pytest
from liveshape.prepare import prepare_all
from liveshape.testing import collect


@pytest.fixture(scope="session")
def prepared(request):
    """Case name -> why it could not be exported, for those that could not."""
    chosen = {i.callspec.params["name"] for i in request.session.items if _is_case(i)}
    cases = [case for name, case in collect().items() if name in chosen]
    return {name: error for name, _, error in prepare_all(cases) if error}


def _is_case(item):
    return "prepared" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
