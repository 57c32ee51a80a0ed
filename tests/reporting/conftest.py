"""Fast small trainings for the tests of this folder."""

from quick import one_thread_and_no_drawing  # noqa: F401
