"""``python -m course_lib.recipes``: train the checkpoints that come with the course
again, or measure their baselines.

How each is trained is in ``data/checkpoints/make``.
"""

from __future__ import annotations

import json
from typing import Annotated

import torch
import typer

from course_lib import paths
from course_lib.models import checkpoints

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Seed = Annotated[int, typer.Option(help="of the initial weights and of the order of the data")]


@app.callback()
def _prepare() -> None:
    torch.set_num_threads(1)  # these models are too small for more
    paths.import_producers("checkpoints")


@app.command()
def reviews(seed: Seed = 0) -> None:
    """The small BERT on reviews: about 7 minutes on an idle core."""
    from reviews_checkpoints import name, remake

    _show(name(seed), remake(seed))


@app.command()
def digits(
    seed: Seed = 0,
    patch: int = 2,
    plain: Annotated[bool, typer.Option(help="without patch dropout")] = False,
) -> None:
    """The small ViT on digits: about a minute for patches of 2x2 pixels."""
    from digits_checkpoints import name, remake

    _show(name(seed, not plain, patch), remake(seed, not plain, patch))


@app.command()
def convnet(seed: Seed = 0) -> None:
    """The capstone's convolutional net on distorted digits: half a minute."""
    from digits_checkpoints import remake_convnet

    from course_lib.capstone.measured import given_file

    record = remake_convnet(seed)
    typer.echo(f"{given_file(seed)}\n{json.dumps(record, indent=1)}")


@app.command()
def translation(seed: Seed = 0) -> None:
    """The small Marian on generated sentence pairs: about 3 minutes on an idle core."""
    from translation_checkpoints import name, remake

    _show(name(seed), remake(seed))


@app.command()
def ngrams(
    train: int = 64_000, seed: Annotated[int, typer.Option(help="of the texts")] = 0
) -> None:
    """Uni-, bi- and trigram classifiers on the reviews, in % of the test texts."""
    from reviews_checkpoints import ngrams as measure

    for n, accuracy in measure(train, seed).items():
        typer.echo(f"1 to {n} words: {accuracy:.2f} %")


def _show(name: str, record: dict[str, object]) -> None:
    typer.echo(f"{checkpoints.folder() / name}\n{json.dumps(record, indent=1)}")


if __name__ == "__main__":
    app()
