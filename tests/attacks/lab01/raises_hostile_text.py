# earns 0 of 1.1 · status graded · message: "<img src=x onerror=alert(1)>"
# Raises an exception whose name and text are HTML, a formula, terminal codes and half of a surrogate pair.
TEXT = "\x00\x1b[2J\ud800 =cmd|' /C calc'!A0 </td></table><script>alert(1)</script>{{ 7 * 7 }}{% include 'x' %}\u202e"
Hostile = type(
    "<img src=x onerror=alert(1)>",
    (Exception,),
    {"__str__": lambda self: TEXT, "__repr__": lambda self: TEXT},
)


def magnitude_mask(weight, sparsity):
    raise Hostile


class WhileDefined:
    raise Hostile
