"""strided_torch.py: sends views of PyTorch tensors between GPUs: no .contiguous(), no copy in the program.

Each rank sends every third column of a matrix to the next one, which receives it into the transposed half of another,
in float32 and in bfloat16. Every element of the receiver's matrix is checked at the end.

run: mpirun -n 2 stridec run -- python3 examples/strided_torch.py

Needs mpi4py and PyTorch, and the Python package stridec.
"""
import sys

from mpi4py import MPI

import stridec

try:
    import torch
except ImportError as error:
    print(f"strided_torch.py: left out: PyTorch can't be used: {error}")
    sys.exit(0)
if not torch.cuda.is_available():
    print("strided_torch.py: left out: PyTorch finds no GPU")
    sys.exit(0)

comm = MPI.COMM_WORLD
torch.cuda.set_device(comm.Split_type(MPI.COMM_TYPE_SHARED).rank % torch.cuda.device_count())
ROWS, COLUMNS = 64, 96


def matrix(rank, dtype):
    return torch.arange(ROWS * COLUMNS, dtype=dtype).reshape(ROWS, COLUMNS) + rank


wrong = 0
for dtype in (torch.float32, torch.bfloat16):
    sent = matrix(comm.rank, dtype).to("cuda")
    received = torch.zeros(COLUMNS // 3, 2 * ROWS, dtype=dtype).to("cuda")
    torch.cuda.synchronize()   # MPI must find what streams write

    comm.Sendrecv(stridec.message(sent[:, ::3]), (comm.rank + 1) % comm.size, 0,
                  stridec.message(received[:, ROWS:].t(), receive=True), (comm.rank - 1) % comm.size, 0)

    want = torch.zeros(COLUMNS // 3, 2 * ROWS, dtype=dtype)
    want[:, ROWS:] = matrix((comm.rank - 1) % comm.size, dtype)[:, ::3].t()
    wrong += not torch.equal(received.cpu(), want)
if comm.allreduce(wrong):
    sys.exit(f"strided_torch.py: rank {comm.rank}: {wrong} matrices are WRONG")
if comm.rank == 0:
    print(f"strided_torch.py: {comm.size} ranks, float32 and bfloat16: verified")
