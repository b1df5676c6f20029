"""cupy_halo.py: a halo exchange of a 2-D CuPy array: strided columns and rows go from GPU to GPU as they lie.

Each rank of a periodic grid holds a block with a border of one cell. Rows are contiguous, columns are not: to
stridec.message that is all one. Every cell of the border is checked at the end.

run: mpirun -n 4 stridec run -- python3 examples/cupy_halo.py

Needs mpi4py, NumPy and CuPy (python3 -m pip install mpi4py cupy-cuda13x), and the Python package stridec.
"""
import sys

import numpy as np
from mpi4py import MPI

import stridec

try:
    import cupy

    gpus = cupy.cuda.runtime.getDeviceCount()
except Exception as error:   # not installed, or no GPU
    print(f"cupy_halo.py: left out: CuPy can't be used: {error}")
    sys.exit(0)

ROWS, COLUMNS = 48, 32


def block(rank):
    """The cells of a rank: its number, and their place."""
    return rank * ROWS * COLUMNS + np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)


def exchange(comm, u):
    """Columns first, then rows with what the columns brought: so the corners come too."""
    left, right = comm.Shift(1, 1)
    up, down = comm.Shift(0, 1)
    for send, to, receive, source in ((u[1:-1, 1], left, u[1:-1, -1], right), (u[1:-1, -2], right, u[1:-1, 0], left),
                                      (u[1], up, u[-1], down), (u[-2], down, u[0], up)):
        comm.Sendrecv(stridec.message(send), to, 0, stridec.message(receive, receive=True), source, 0)


comm = MPI.COMM_WORLD.Create_cart(MPI.Compute_dims(MPI.COMM_WORLD.size, 2), [True, True])
cupy.cuda.Device(MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).rank % gpus).use()
u = cupy.asarray(np.pad(block(comm.rank), 1, constant_values=-1))
cupy.cuda.get_current_stream().synchronize()   # MPI must find what the stream writes
exchange(comm, u)

x, y = comm.coords
want = np.block([[block(comm.Get_cart_rank([x + i, y + j])) for j in (-1, 0, 1)] for i in (-1, 0, 1)])
wrong = np.count_nonzero(u.get() != want[ROWS - 1:2 * ROWS + 1, COLUMNS - 1:2 * COLUMNS + 1])
if comm.allreduce(int(wrong)):
    sys.exit(f"cupy_halo.py: rank {comm.rank}: {wrong} cells are WRONG")
if comm.rank == 0:
    print(f"cupy_halo.py: {comm.size} ranks, {ROWS} x {COLUMNS} cells each: verified")
