"""The yardstick of speed: one client after another, as the papers' code trains them.

Per client: a deep copy of the model with the whole item table, a DataLoader, an optimizer per group,
dense gradients by ``backward()``. Nothing is evaluated here.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from fedrec.core.federated import Batch, Group
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LogLinear, Mixed, Mlp
from fedrec.core.slots import Catalog
from fedrec.data.samples import draw_samples
from fedrec.data.split import Split


def loop_clients_per_second(
    method: GradientMethod, split: Split, seed: int = 0, seconds: float = 5.0
) -> float:
    """Clients trained per CPU second, a first client outside the clock."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    catalog, known = split.catalog, split.clients()
    slots = method.slots(catalog)
    started = {n: s.starting(n, seed) for n, s in slots.items() if s.owner in ("shared", "private")}
    server = {n: torch.from_numpy(v) for n, v in started.items() if slots[n].owner == "shared"}
    plan = method.plan(catalog, 1)

    def train(user: int) -> None:
        samples = draw_samples(known, seed, 1, np.array([user]), plan)
        model: dict[str, Any] = {n: v.clone().requires_grad_() for n, v in copy.deepcopy(server).items()}
        for name, slot in slots.items():
            if slot.owner == "private":  # of rows a whole table per client, as the papers' code has it
                model[name] = torch.tensor(started[name]).requires_grad_()
            elif slot.owner == "fresh":
                model[name] = torch.zeros(slot.shape, requires_grad=True)
        at = iter(samples.passes)
        for phase in plan:
            turns = [[g] for g in phase.groups] if _in_turn(method) else [list(phase.groups)]
            optimizers = [[_optimizer(g, model) for g in turn] for turn in turns]
            model |= {name: torch.tensor(value) for name, value in phase.terms.items()}
            last = None
            for _ in range(phase.epochs):
                batch = next(at)
                items = torch.from_numpy(samples.touched[0][batch.items[0]].astype(np.int64))
                users = torch.full_like(items, user)  # the papers' data sets hold (user, item, rating)
                data = TensorDataset(users, items, torch.from_numpy(np.ascontiguousarray(batch.labels[0])))
                total = 0.0
                for _, i, y in DataLoader(data, batch_size=method.batch_size, shuffle=True):
                    for step in optimizers:
                        for optimizer, _ in step:
                            optimizer.zero_grad()
                        loss = method.loss(model, Batch(i, y, torch.ones_like(y), torch.ones_like(y)))
                        loss.backward()
                        for optimizer, rate in step:
                            optimizer.step()
                            rate.step()
                    total += loss.item() * len(y) / len(items)
                if method.tolerance > 0:
                    if last is not None and not abs(last - total) > method.tolerance * abs(last):
                        break
                    last = total
        copy.deepcopy({n: v.detach() for n, v in model.items()})  # what the client keeps and sends

    order = np.random.default_rng(seed).permutation(split.n_users)
    train(int(order[0]))
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds and done < len(order) - 1:
        done += 1
        train(int(order[done]))
    return done / (time.process_time() - start)


def _optimizer(group: Group, model: dict[str, Any]) -> tuple[Any, Any]:
    """PyTorch's optimizer for a group, and what lowers its rate after a step."""
    from torch.optim import SGD
    from torch.optim.lr_scheduler import ExponentialLR

    how: Any = group.optimizer
    sgd = SGD([model[n] for n in group.names], lr=how.lr, weight_decay=getattr(how, "weight_decay", 0.0))
    decay = getattr(how, "decay", None)
    return sgd, _Constant() if decay is None else ExponentialLR(sgd, decay)


class _Constant:
    def step(self) -> None:
        """The rate stays as it is."""


def _in_turn(method: GradientMethod) -> bool:
    declared = method.kernel(Catalog(1, 1))
    declared = declared.base if isinstance(declared, Mixed) else declared
    return declared.in_turn if isinstance(declared, LogLinear | Mlp) else method.view() == "tuned"
