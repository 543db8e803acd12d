"""Contract suites live in the package: have their asserts explained as those of the tests are."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("seedbed.testing")
