"""What a model costs: multiply-accumulates, bits and seconds, each counted or measured,
none guessed.

::

    from course_lib.cost import encodings, latency, model_cost, totals

    rows = model_cost(model, images)  # one per layer: MACs, non-zero MACs, weights
    print(totals(rows)["macs"], "multiply-accumulates")
    weight = model.conv3.weight.detach()
    print(encodings.storage_bits(weight)["csr"], "bits")  # of one tensor, in each format
    print(latency.measure(latency.forward(model, images)))

- :mod:`.count`: a whole model while it runs; :mod:`.formulas`: one layer, from its
  sizes; :mod:`.tokens`: a transformer with fewer tokens or heads.
- :mod:`.encodings`: bitmap, run lengths, COO, CSR and CSC; :mod:`.block_formats`: n of
  every m neighbours, stored and multiplied.
- :mod:`.storage`: a whole model, each tensor in its cheapest format; :mod:`.decisions`:
  which rows of a table no other beats, and which to take for a budget. :mod:`.latency`:
  the clock, with warm-up and spread.
"""

from course_lib.cost.count import LayerCost, model_cost, totals
from course_lib.cost.formulas import (
    conv_cost,
    least_seconds,
    linear_cost,
    nonzero_macs,
    product_work,
    transformer_macs,
)
from course_lib.cost.tokens import texts_macs, token_macs
