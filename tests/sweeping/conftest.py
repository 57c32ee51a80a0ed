"""Makes the small trainings of these tests fast."""

from quick import one_thread_and_no_drawing  # noqa: F401
