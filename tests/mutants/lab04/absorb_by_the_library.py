# loses 4.4 · message: "asks you to write this yourself"
def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    from course_lib.pruning.channels import slimming

    return slimming.absorb_removed(conv, bn, next_conv, keep)
