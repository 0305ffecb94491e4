"""Asserts of the contract are shown in full, though it lives in the package."""

import pytest

pytest.register_assert_rewrite("cronce.testing.contract")
