"""The sources of jets: a user's file, the cache, downloads, or the generator."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from chop.dataset import JSC, MaseDataModule, download, jsc_published
from chop.dataset.download import DownloadError, digest
from dataset.data_samples import cernbox_jets, openml_jets, write_arff, write_cernbox
from dataset.local_server import Site, serve

TEXT = "jsc (generated look-alike, not comparable with published results)"
FEW_ROWS = {"cernbox": 300, "openml": 300}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no network."""
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    monkeypatch.setattr(download, "_failures", {})
    return tmp_path / "cache" / "jsc"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, Site]]:
    """Local servers in place of CERNBox and OpenML, with few jets."""
    monkeypatch.delenv("CHOP_OFFLINE")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(jsc_published, "NUM_ROWS", FEW_ROWS)
    with serve(b"") as cernbox, serve(b"") as openml:
        monkeypatch.setattr(jsc_published, "CERNBOX_URL", cernbox.url)
        monkeypatch.setattr(jsc_published, "OPENML_PARQUET", openml.url)
        yield cernbox, openml


def version_of(**options: object) -> str:
    module = MaseDataModule("jsc", 8, **options)  # type: ignore[arg-type]
    module.prepare_data()
    module.setup()
    return module.dataset_info.version


def test_generated_jets_are_standardised_by_the_training_split() -> None:
    splits = JSC().load()
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [36_000, 4_000, 10_000]
    torch.testing.assert_close(splits.train.features.mean(0), torch.zeros(16), atol=1e-4, rtol=0)
    torch.testing.assert_close(splits.train.features.std(0, correction=0), torch.ones(16), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_no_row_is_in_two_splits() -> None:
    splits = JSC(num_rows=20_000).load()
    parts = [set(map(tuple, part.features.tolist())) for part in (splits.train, splits.val, splits.test)]
    assert [len(part) for part in parts] == [14_400, 1_600, 4_000]
    assert len(set.union(*parts)) == 20_000


def test_generated_jets_are_logged_once_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    module = MaseDataModule("jsc", batch_size=8, num_rows=100)
    with caplog.at_level(logging.INFO, logger="chop"):
        module.prepare_data()
        module.setup()
        module.setup()
    assert caplog.messages == [f"data: {TEXT}; downloads are disabled by CHOP_OFFLINE"]
    assert module.dataset_info.title == TEXT
    assert module.dataset_info.version == "generated"


def test_generated_jets_can_be_requested(caplog: pytest.LogCaptureFixture, cache: Path) -> None:
    cache.mkdir(parents=True)
    write_cernbox(cache / "cernbox.h5", cernbox_jets())
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert version_of(version="generated", num_rows=100) == "generated"
    assert caplog.messages == [f"data: {TEXT}"]


def test_a_given_file_comes_first(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    write_cernbox(cache / "cernbox.h5", cernbox_jets())
    openml_jets().to_parquet(tmp_path / "mine.parquet")
    assert version_of(path=tmp_path / "mine.parquet") == "openml"
    assert version_of() == "cernbox"


def test_a_given_folder_is_searched(tmp_path: Path) -> None:
    write_arff(tmp_path / "hls4ml_lhc_jets_hlf.arff", openml_jets())
    assert version_of(path=str(tmp_path)) == "openml"
    with pytest.raises(
        ValueError, match=r"the folder '.*' has no file of data set 'jsc', such as processed-pythia82"
    ):
        version_of(path=tmp_path, version="cernbox")


@pytest.mark.slow
def test_either_version_in_the_cache_is_found(cache: Path) -> None:
    cache.mkdir(parents=True)
    openml_jets().to_parquet(cache / "dataset_42468.pq")
    assert version_of() == "openml"
    write_cernbox(cache / jsc_published.CERNBOX_NAME, cernbox_jets())
    assert version_of() == "cernbox"
    assert version_of(version="openml") == "openml"


@pytest.mark.slow
def test_cernbox_is_downloaded_first(online: tuple[Site, Site], cache: Path, tmp_path: Path) -> None:
    cernbox, openml = online
    cernbox.content = write_cernbox(tmp_path / "file", cernbox_jets()).read_bytes()
    assert version_of() == "cernbox"
    assert version_of() == "cernbox"
    assert (len(cernbox.asked), len(openml.asked)) == (1, 0)
    assert (cache / f"{jsc_published.CERNBOX_NAME}.sha256").exists()


def test_openml_is_downloaded_if_cernbox_fails(
    online: tuple[Site, Site], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cernbox, openml = online
    cernbox.content = b"<html>this share has ended</html>"
    openml_jets().to_parquet(tmp_path / "file")
    openml.content = (tmp_path / "file").read_bytes()
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert version_of() == "openml"
    assert caplog.messages == []


def test_the_text_file_of_openml_is_found(
    online: tuple[Site, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without h5py and pyarrow, only the text file can be read."""
    cernbox, openml = online
    monkeypatch.setattr(jsc_published, "installed", lambda module: False)
    openml.content = write_arff(tmp_path / "file", openml_jets()).read_bytes()
    md5 = digest(tmp_path / "file", "md5")
    description = {"data_set_description": {"url": openml.url, "md5_checksum": md5}}
    with serve(json.dumps(description).encode()) as api:
        monkeypatch.setattr(jsc_published, "OPENML_DESCRIPTION", api.url)
        assert version_of() == "openml"
    assert len(cernbox.asked) == 0


def test_jets_are_generated_if_both_servers_fail(
    online: tuple[Site, Site], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cernbox, openml = online
    cernbox.status = 404
    openml_jets(100).to_parquet(tmp_path / "file")  # too few
    openml.content = (tmp_path / "file").read_bytes()
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert [version_of(num_rows=100) for _ in range(2)] == ["generated"] * 2
    assert (len(cernbox.asked), len(openml.asked)) == (1, 1)
    assert caplog.messages[0] == caplog.messages[1] == (
        f"data: {TEXT}; cernbox: 127.0.0.1 returned 404 Not Found; openml: the file from {openml.url} is not "
        "the expected one: it holds openml version, 100 rows only"
    )  # fmt: skip


def test_a_version_that_is_not_available_is_an_error() -> None:
    with pytest.raises(
        DownloadError, match="cernbox version of data set 'jsc' is not available: downloads are disabled"
    ):
        version_of(version="cernbox")


@pytest.mark.slow
def test_a_modified_file_in_the_cache_is_rejected(online: tuple[Site, Site], cache: Path, tmp_path: Path) -> None:
    online[0].content = write_cernbox(tmp_path / "file", cernbox_jets()).read_bytes()
    version_of()
    with (cache / jsc_published.CERNBOX_NAME).open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="is corrupt or was changed"):
        version_of()


def test_fewer_rows_stay_in_their_splits(tmp_path: Path) -> None:
    openml_jets().to_parquet(tmp_path / "jets.parquet")
    whole = JSC(path=tmp_path / "jets.parquet").load()
    few = JSC(path=tmp_path / "jets.parquet", num_rows=100).load()
    assert [len(part.labels) for part in (few.train, few.val, few.test)] == [72, 8, 20]
    assert few.test.labels.equal(whole.test.labels[:20])
    assert few.provenance == "openml version, 300 rows only, 100 of them"
    with pytest.raises(ValueError, match="has 300 rows, but num_rows is 301"):
        JSC(path=tmp_path / "jets.parquet", num_rows=301).load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_rows": 3}, "num_rows of at least 10, got 3"),
        ({"version": "cernbx"}, r"has no version 'cernbx'; did you mean 'cernbox'\?"),
        ({"version": "generated", "path": "jets.h5"}, "version 'generated' cannot be read from 'jets.h5'"),
        ({"path": "nowhere.h5"}, "data file 'nowhere.h5' of data set 'jsc' does not exist"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        version_of(**options)


def test_a_file_of_the_other_version_is_rejected(tmp_path: Path) -> None:
    openml_jets().to_parquet(tmp_path / "jets.parquet")
    with pytest.raises(ValueError, match=r"jets.parquet' is the openml version of jsc, not cernbox"):
        version_of(path=tmp_path / "jets.parquet", version="cernbox")
