"""halo3d.py: 26-neighbour periodic halo exchange of a 3-D block of floats on the GPU, with mpi4py and CuPy.

usage: mpirun -n RANKS [stridec run --] python3 halo3d.py [--host] [n [radius [iterations]]]      (64 2 5)
run: mpirun -n 2 stridec run -- python3 examples/halo3d.py 16 2 3

Needs mpi4py and NumPy. The Python counterpart of halo3d.c: subarray datatypes, Isend, Irecv and Waitall straight on
GPU arrays; every cell of the block is checked after each exchange. Without CuPy it uses device_array.py, a few lines
over the CUDA runtime. --host keeps the block in a NumPy array.
"""
import itertools
import sys

import numpy as np
from mpi4py import MPI

DIRECTIONS = list(itertools.product((-1, 0, 1), repeat=3))
MIDDLE = DIRECTIONS.index((0, 0, 0))


class HostBlock:
    """The same few operations as on the GPU, for --host."""

    name = "NumPy, host memory"

    def __init__(self, shape, _local_rank):
        self.buffer = np.empty(shape, np.float32)

    def set(self, array):
        self.buffer[...] = array

    def get(self):
        return self.buffer.copy()


class CupyBlock:
    name = "CuPy, device memory"

    def __init__(self, shape, local_rank):
        import cupy

        cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
        self.buffer = cupy.empty(shape, cupy.float32)
        self.synchronize = cupy.cuda.runtime.deviceSynchronize

    def set(self, array):
        self.buffer.set(array)
        self.synchronize()   # MPI may look at the array from another stream

    def get(self):
        return self.buffer.get()


class CudartBlock:
    name = "device_array, device memory"

    def __init__(self, shape, local_rank):
        import device_array

        device_array.set_device(local_rank % device_array.device_count())
        self.buffer = device_array.DeviceArray(shape, np.float32)
        self.set, self.get = self.buffer.set, self.buffer.get


def block_class(host):
    if host:
        return HostBlock
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        return CupyBlock
    except Exception:   # not installed, or not for this machine's CUDA
        return CudartBlock


def make_types(n, radius, side):
    """The subarray that is sent in each direction, and the one that is received from there."""
    send, recv = [], []
    for direction in DIRECTIONS:
        sizes = [side] * 3
        subsizes = [radius if d else n for d in direction]
        source = [n if d > 0 else radius for d in direction]
        target = [0 if d < 0 else n + radius if d > 0 else radius for d in direction]
        send.append(MPI.FLOAT.Create_subarray(sizes, subsizes, source).Commit())
        recv.append(MPI.FLOAT.Create_subarray(sizes, subsizes, target).Commit())
    return send, recv


def exchange(comm, buffer, peer, send, recv):
    requests = []
    for k, rank in enumerate(peer):
        if k != MIDDLE:
            requests.append(comm.Irecv([buffer, 1, recv[k]], rank, len(DIRECTIONS) - 1 - k))
    for k, rank in enumerate(peer):
        if k != MIDDLE:
            requests.append(comm.Isend([buffer, 1, send[k]], rank, k))
    MPI.Request.Waitall(requests)


def expected(comm, n, radius, iteration):
    """What every cell, the halo's too, holds after the exchange: below 2^24, exact in a float."""
    axes = []
    for coord, dim in zip(comm.coords, comm.dims):
        axes.append((coord * n + np.arange(-radius, n + radius, dtype=np.int64)) % (n * dim))
    x, y, z = np.meshgrid(*axes, indexing="ij", sparse=True)
    return ((x * 73856093 ^ y * 19349663 ^ z * 83492791) + iteration * 7919 & 0xFFFFFF).astype(np.float32)


def main():
    words = [a for a in sys.argv[1:] if a != "--host"]
    n, radius, iterations = (int(a) for a in words + ["64", "2", "5"][len(words):])
    side = n + 2 * radius
    world = MPI.COMM_WORLD
    comm = world.Create_cart(MPI.Compute_dims(world.size, 3), [True] * 3)
    local = world.Split_type(MPI.COMM_TYPE_SHARED).rank
    block = block_class("--host" in sys.argv)((side,) * 3, local)
    peer = [comm.Get_cart_rank([c + d for c, d in zip(comm.coords, direction)]) for direction in DIRECTIONS]
    send, recv = make_types(n, radius, side)
    inner = (slice(radius, radius + n),) * 3

    wrong, times = 0, []
    for iteration in range(iterations):
        want = expected(comm, n, radius, iteration)
        start = np.full((side,) * 3, -1, np.float32)
        start[inner] = want[inner]
        block.set(start)
        comm.Barrier()
        t = MPI.Wtime()
        exchange(comm, block.buffer, peer, send, recv)
        times.append(comm.allreduce((MPI.Wtime() - t) * 1e6, MPI.MAX))
        got = block.get()
        if not np.array_equal(got, want):
            bad = np.argwhere(got != want)
            wrong += len(bad)
            cell = tuple(bad[0])
            print(f"halo3d.py: rank {comm.rank}, exchange {iteration}: cell {cell} holds {got[cell]}, "
                  f"should hold {want[cell]}", file=sys.stderr)
    wrong = comm.allreduce(wrong)
    for datatype in send + recv:
        datatype.Free()

    if comm.rank == 0:
        print(f"halo3d.py: {comm.size} ranks as {' x '.join(map(str, comm.dims))}, each {n}^3 floats "
              f"with a halo of {radius}, {block.name}")
        if wrong:
            print(f"halo3d.py: FAILED: {wrong} wrong cells")
        else:
            print(f"halo3d.py: checked after each of {iterations} exchanges: {(side**3 - n**3) * comm.size} halo "
                  f"cells right, {n**3 * comm.size} interior cells untouched")
            print(f"halo3d.py: exchange: median {np.median(times[1:] or times):.1f} us, min {min(times):.1f} us")
            print("halo3d.py: verified", flush=True)
    return 1 if wrong else 0


sys.exit(main())
