"""Train the checkpoints that come with the course again, or measure their baselines."""

from __future__ import annotations

import json
from typing import Annotated

import digits_checkpoints
import reviews_checkpoints
import torch
import translation_checkpoints
import typer

from course_lib.capstone.measured import given_file
from course_lib.models import checkpoints

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Seed = Annotated[int, typer.Option(help="of the initial weights and of the order of the data")]


@app.command()
def reviews(seed: Seed = 0) -> None:
    """The small BERT on reviews: about 7 minutes on an idle core."""
    _show(reviews_checkpoints.name(seed), reviews_checkpoints.remake(seed))


@app.command()
def convnet(seed: Seed = 0) -> None:
    """The capstone's convolutional net on distorted digits: half a minute."""
    _show(str(given_file(seed)), digits_checkpoints.remake_convnet(seed))


@app.command()
def translation(seed: Seed = 0) -> None:
    """The small Marian on generated sentence pairs: about 3 minutes on an idle core."""
    _show(translation_checkpoints.name(seed), translation_checkpoints.remake(seed))


@app.command()
def ngrams(
    train: int = 64_000, seed: Annotated[int, typer.Option(help="of the texts")] = 0
) -> None:
    """Uni-, bi- and trigram classifiers on the reviews, in % of the test texts."""
    for n, accuracy in reviews_checkpoints.ngrams(train, seed).items():
        typer.echo(f"1 to {n} words: {accuracy:.2f} %")


def _show(name: str, record: dict[str, object]) -> None:
    typer.echo(f"{checkpoints.folder() / name}\n{json.dumps(record, indent=1)}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # these models are too small for more
    app()
