"""What all tests share. `samples` beside this file can be imported by every test."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Every test starts from the same random state, whichever ran before it."""
    torch.manual_seed(0)
