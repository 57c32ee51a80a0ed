"""Downloads: each file is downloaded once, verified, and kept in the cache folder."""

from chop.cache import cache_folder, is_offline
from chop.dataset.download.integrity import verify_recorded
from chop.dataset.download.transfer import DownloadError, Remote, fetch, fetch_text

__all__ = [
    "DownloadError",
    "Remote",
    "cache_folder",
    "fetch",
    "fetch_text",
    "is_offline",
    "verify_recorded",
]
