# earns all
# Asks the versions it is to judge for a weight, a share and a keyword of hundreds of whole numbers of a thousand digits; then judges well.
_right = find_bug


def find_bug(f):
    for many in ([10**1000] * 250, tuple([10**1000] * 250)):
        for place in ((many, 0.5), (many, many)):
            try:
                f(*place)
            except ValueError:
                pass
    _right(f)
