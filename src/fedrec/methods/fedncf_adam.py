"""FedNCF whose clients send a gradient and whose server takes the step: what FedRecGEL is built on.

Yu et al., "Sharpness-Aware Minimization for Generalized Embedding Learning in Federated Recommendation"
(FedRecGEL), WWW 2026. A client computes one gradient of its whole round's loss, moves its own vectors by
Adam, and sends the gradient of the shared part; the server takes a step of Adam with the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from fedrec.core.federated import Batch, Context, Group, Params
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Kernel, Mlp
from fedrec.core.optim import Adam, Gradient
from fedrec.core.recipe import Recipe
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot
from fedrec.core.upload import Total
from fedrec.methods.fedncf import REVEALS, Layers, NeuMF, named


class ServerSteps(GradientMethod):
    """One gradient a round, over all samples at once; Adam on the device and, with the mean, on the server."""

    weighs: ClassVar[bool] = True

    lr: Annotated[float, Search(0.003, 0.3, log=True)] = Field(
        0.1, gt=0, description="learning rate of the user's vectors (Adam, its moments kept)"
    )
    lr_server: Annotated[float, Search(0.0003, 0.3, log=True)] = Field(
        0.001, gt=0, description="the server's learning rate (Adam)"
    )
    batch_size: int = Field(128, ge=1, description="the loss is a sum of means over so many samples each")

    @model_validator(mode="after")
    def _one_gradient(self) -> ServerSteps:
        if self.epochs > 1:
            raise ValueError(f"it sends one gradient a round: epochs={self.epochs} has no meaning, use 1")
        return self

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = super().slots(catalog)
        mine = [n for n, s in slots.items() if s.owner == "private"]
        servers = [n for n, s in slots.items() if s.owner == "shared"]
        return slots | moment_slots(slots, mine, "private") | moment_slots(slots, servers, "server")

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        slots = self.slots(catalog)
        return [
            Group(named(slots, "user"), Adam(self.lr, keeps=True), "private"),
            Group(named(slots, "items", "layer", "output"), Gradient(alone=Adam(self.lr_server)), "shared"),
        ]

    def batches(self, samples: Batch) -> Iterator[Batch]:
        yield samples

    def loss(self, p: Params, batch: Batch) -> Any:
        """The sum over the round's batches of each one's mean cross-entropy."""
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
        from torch.nn.functional import pad

        terms = cross_entropy(self.logits(self.tables(p), batch.items), batch.labels, reduction="none")
        short = -len(batch.items) % self.batch_size

        def by_batch(x: Any) -> Any:
            return pad(x, (0, short)).reshape(-1, self.batch_size).sum(1)

        return (by_batch(terms * batch.weight) / by_batch(batch.mask).clamp(min=1)).sum()

    def recipe(self, catalog: Catalog) -> Recipe | None:
        model = super().recipe(catalog)
        return model and replace(model, one_step=True)

    def kernel(self, catalog: Catalog) -> Kernel | None:
        network = super().kernel(catalog)
        return replace(network, at_once=True) if isinstance(network, Mlp) else None

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        gradients = {name: -move / total.weight for name, move in total.sums.items()}
        return ServerAdam(self.lr_server).move(held, gradients)


class FedNCFAdam(ServerSteps, Layers):
    name: ClassVar[str] = "fedncf-adam"
    citation: ClassVar[str] = "Perifanis & Efraimidis 2022, trained as Yu et al., WWW 2026, do"
    use_when: ClassVar[str] = "you want FedNCF whose server steps by Adam on the clients' gradients"
    reveals: ClassVar[str] = REVEALS


class FedNeuMFAdam(ServerSteps, NeuMF):
    name: ClassVar[str] = "fedneumf-adam"
    citation: ClassVar[str] = "Yu et al., WWW 2026, without its perturbations"
    use_when: ClassVar[str] = "you want FedRecGEL's base by itself"
    reveals: ClassVar[str] = REVEALS
