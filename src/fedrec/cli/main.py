"""The command line. Heavy imports happen inside the commands, so that ``fedrec --help`` answers at once."""

from __future__ import annotations

import atexit
import copy
import errno
import gc
import os
import sys
from typing import Annotated, Any

import typer

from fedrec.cli import (
    attack,
    bench,
    cluster,
    compare,
    curve,
    data,
    deploy,
    device,
    doctor,
    methods,
    node,
    page,
    poison,
    recommend,
    report,
    reproduce,
    run,
    tune,
)
from fedrec.cli.terminal import any_letter, complain
from fedrec.study.processes import WORKER, end_with_parent

# What a system refuses anywhere: no room, or no right to write or read.
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


class Commands(typer.Typer):
    """Typer reads the options of all its commands at every start: here of the one that is asked for alone."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        asked, only = sys.argv[1:2], copy.copy(self)
        only.registered_commands = [command for command in self.registered_commands if command.name in asked]
        only.registered_groups = [group for group in self.registered_groups if group.name in asked]
        known = only.registered_commands or only.registered_groups
        return typer.Typer.__call__(only if known else self, *args, **options)


app = Commands(
    name="fedrec",
    help="Personalized federated recommendation: train, compare and extend methods, honestly measured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("reproduce")(reproduce.reproduce)
app.command("recommend")(recommend.recommend)
app.command("similar")(recommend.similar)
app.command("export")(recommend.export)
app.command("page")(page.page)
app.command("report")(report.report)
app.command("attack")(attack.attack)
app.command("poison")(poison.poison)
app.command("curve")(curve.curve)
app.command("methods")(methods.methods)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.command("node")(node.node)
app.add_typer(data.app, name="data")
app.add_typer(device.app, name="device")
app.add_typer(deploy.app, name="deploy")
app.add_typer(cluster.app, name="cluster")


def _version(asked: bool) -> None:
    if asked:
        import fedrec

        typer.echo(f"fedrec {fedrec.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _collect_rarely() -> None:
    """Looking for garbage among a quarter of a million objects that stay was a sixth of a start, and of its end."""
    gc.set_threshold(5_000, 10, 10)
    atexit.register(gc.freeze)


def main() -> None:
    """Entry point: an error of the user's is one sentence and code 2, never a traceback."""
    from fedrec.core.errors import FedrecError, Interrupted
    from fedrec.core.freed import keep_freed_memory

    any_letter()
    _collect_rarely()
    keep_freed_memory()
    if WORKER in os.environ:  # begun by another process of fedrec
        end_with_parent()
    try:
        app()
    except Interrupted as stop:
        complain(str(stop))
        sys.exit(130)
    except FedrecError as error:
        complain(f"error: {error}")
        sys.exit(2)
    except BrokenPipeError:  # whoever read what was printed has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        complain(f"error: {error.strerror}{f': {error.filename}' if error.filename else ''}")
        sys.exit(2)


if __name__ == "__main__":
    main()
