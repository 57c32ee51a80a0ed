"""Small trainings are quick here."""

from quick import one_thread_and_no_drawing  # noqa: F401
