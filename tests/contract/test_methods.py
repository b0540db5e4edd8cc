"""Every method and every wrapper over every base keeps the contract."""

from __future__ import annotations

from typing import ClassVar

from fedrec.core.federated import Federated
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import MethodContract
from fedrec.wrap.dualper import DualPer

NCF = FedNCF(dim=8, hidden=(16,), lr=10, eta=2.5, lr_layers=0.3)


class TestFedMF(MethodContract):
    method: ClassVar[Federated] = FedMF(dim=8)


class TestPFedRec(MethodContract):
    method: ClassVar[Federated] = PFedRec(dim=8)


class TestPFedRecWithLayers(MethodContract):
    method: ClassVar[Federated] = PFedRec(dim=8, hidden=(8,))


class TestFedMFPlain(TestFedMF):
    engine: ClassVar[str] = "plain"


class TestPFedRecPlain(TestPFedRec):
    engine: ClassVar[str] = "plain"


class TestFedReconPlain(MethodContract):
    method: ClassVar[Federated] = FedRecon(dim=8)
    engine: ClassVar[str] = "plain"


class TestFedNCF(MethodContract):
    method: ClassVar[Federated] = NCF
    rounds: ClassVar[int] = 150


class TestFedRecon(MethodContract):
    method: ClassVar[Federated] = FedRecon(dim=8)


class TestFedMFWithDualPer(MethodContract):
    method: ClassVar[Federated] = DualPer(FedMF(dim=8))


class TestPFedRecWithDualPer(MethodContract):
    method: ClassVar[Federated] = DualPer(PFedRec(dim=8))


class TestFedNCFWithDualPer(MethodContract):
    method: ClassVar[Federated] = DualPer(NCF)
    rounds: ClassVar[int] = 150


class TestFedReconWithDualPer(MethodContract):
    method: ClassVar[Federated] = DualPer(FedRecon(dim=8))
