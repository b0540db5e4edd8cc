"""Rounds and figures passed on to TensorBoard and MLflow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions

SMALL = {"rounds": 3, "settings": {"dim": 4}, "threads": 1}


def test_tensorboard(small: Interactions, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    run = fedrec.run("fedmf", small, **SMALL, out=tmp_path / "run", log="tensorboard")
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    losses = [(event.step, float(make_ndarray(event.tensor_proto))) for event in found.Tensors("loss")]
    assert losses == [(line["round"], pytest.approx(line["loss"])) for line in run.lines]
    (hits,) = found.Tensors("test/hr@10")
    assert float(make_ndarray(hits.tensor_proto)) == pytest.approx(run.test["hr@10"])
    assert hits.step == run.result["selected_round"]
    assert len(found.Tensors("validation/ndcg@10")) == 3


def test_tensorboard_needs_a_folder(small: Interactions) -> None:
    pytest.importorskip("tensorboard")
    with pytest.raises(FedrecError, match="writes into the run's folder: give out="):
        fedrec.run("fedmf", small, **SMALL, log="tensorboard")


def test_mlflow(small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    run = fedrec.run("fedmf", small, **SMALL, out=tmp_path / "run", log=["mlflow"])
    client = mlflow.MlflowClient(address)
    (found,) = client.search_runs([client.get_experiment_by_name("fedrec").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params["fedmf.dim"] == "4"
    assert found.data.metrics["test/hr_at_10"] == pytest.approx(run.test["hr@10"])
    losses = [metric.value for metric in client.get_metric_history(found.info.run_id, "loss")]
    assert losses == pytest.approx([line["loss"] for line in run.lines])
    fedrec.resume(tmp_path / "run", 4, data=small, threads=1, log="mlflow")  # the same run goes on
    (found,) = client.search_runs([found.info.experiment_id])
    assert len(client.get_metric_history(found.info.run_id, "loss")) == 4


def test_a_log_that_does_not_exist(small: Interactions, tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match="unknown log 'tensorbord': did you mean 'tensorboard'"):
        fedrec.run("fedmf", small, **SMALL, out=tmp_path / "run", log="tensorbord")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_extra(
    small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FedrecError, match=rf"pip install 'fedrec\[{name}\]'"):
        fedrec.run("fedmf", small, **SMALL, out=tmp_path / "run", log=name)
    assert not (tmp_path / "run").exists()
