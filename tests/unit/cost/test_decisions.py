"""Frontier and choice, beside plain loops over their definitions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cost.decisions import frontier, pick

small = st.integers(0, 3)
rows = st.lists(
    st.fixed_dictionaries({"bits": small, "macs": small, "ms": small, "accuracy": small}),
    max_size=12,
)


@given(rows)
@settings(deadline=None)
def test_what_is_left_is_beaten_by_none_and_what_went_by_one_that_is_left(table):
    left = frontier(table)
    assert left == sorted(left)

    def beats(a, b):
        no_worse = (
            all(a[k] <= b[k] for k in ("bits", "macs", "ms")) and a["accuracy"] >= b["accuracy"]
        )
        return no_worse and a != b

    for i, row in enumerate(table):
        beaten = [j for j, other in enumerate(table) if beats(other, row)]
        assert (i in left) == (not beaten)
        assert not beaten or any(j in left for j in beaten)


sizes = {"bits": small, "macs": small, "faster": small, "test": small}
validation = {"validation": st.lists(st.integers(0, 9), min_size=1, max_size=3)}
candidates = st.lists(st.fixed_dictionaries(sizes | validation), max_size=8)
limit = st.one_of(st.none(), small)


@given(
    candidates, st.fixed_dictionaries({}, optional={"bits": limit, "macs": limit, "faster": limit})
)
@settings(deadline=None)
def test_what_is_picked_fits_and_nothing_that_fits_is_better(every, budget):
    def fits(c):
        low = all(budget.get(k) is None or c[k] <= budget[k] for k in ("bits", "macs"))
        return low and (budget.get("faster") is None or c["faster"] >= budget["faster"])

    def rank(i):
        c = every[i]
        return -sum(c["validation"]) / len(c["validation"]), c["macs"], i

    fitting = [i for i, c in enumerate(every) if fits(c)]
    assert pick(every, budget) == (min(fitting, key=rank) if fitting else None)
