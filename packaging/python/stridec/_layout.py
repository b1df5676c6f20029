"""_layout.py: dimensions (number, step in bytes) of an array, outermost first, brought to their fewest."""

MEETINGS = 100_000   # steps of the search for overlaps, which ends in milliseconds


def simplify(shape, strides):
    """Returns the fewest dimensions that go through the same elements in the same order; None without elements."""
    if 0 in shape:
        return None
    dims = []
    for n, step in zip(shape, strides):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * step:
            dims[-1] = (dims[-1][0] * n, step)
        else:
            dims.append((n, step))
    return dims


def span(dims, size):
    """Returns the bytes from the first element of `size` bytes to the end of the highest one."""
    return size + sum((n - 1) * step for n, step in dims if step > 0)


def overlaps(dims, size):
    """Returns true if two elements share a byte, or if that takes too long to find out.

    Two elements meet where their indices differ by d, |d[i]| < n[i], and |d[0] step[0] + d[1] step[1] + ...| < size.
    The search goes from the longest step to the shortest and leaves out what the shorter ones can't make good.
    """
    dims = sorted(((n, abs(step)) for n, step in dims), key=lambda dim: -dim[1])
    reach = [0]
    for n, step in reversed(dims):
        if step == 0:
            return True
        reach.insert(0, reach[0] + (n - 1) * step)
    left = MEETINGS

    def meet(i, gap, moved):
        nonlocal left
        left -= 1
        if left < 0:
            return True
        if i == len(dims):
            return moved
        n, step = dims[i]
        most = reach[i + 1] + size - 1
        # d and -d are the same pair of elements: the first difference that is not 0 is above it.
        low = max(-((most + gap) // step), -(n - 1) if moved else 0)
        high = min((most - gap) // step, n - 1)
        return any(meet(i + 1, gap + d * step, moved or d != 0) for d in range(low, high + 1))

    return meet(0, 0, False)
