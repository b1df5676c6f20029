"""others_python.py: times the exchanges of Python packages that others wrote, which are imported as they are.

usage: mpirun -n RANKS [stridec run --] python3 others_python.py fft|heat FOLDER HOW

fft: Transfer of mpi4py-fft's pencil.py in FOLDER, of an array of complex doubles (FFT_SHAPE) between slabs and back;
HOW: device (cupy), host (numpy), or contiguous (Alltoall of as many bytes, device memory). heat: the package heat in
FOLDER, tensors of torch: a resplit (HEAT_N squared floats), a ring and a broadcast of strided tensors, and a sum; HOW:
device, host, or staged (device tensors that heat itself copies through the host). A line for each: "row CASE BYTES
MICROSECONDS ok|wrong": the median of the slowest rank, and whether every byte is right on all ranks."""
import os
import sys
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
REPEATS = 20


def case(name, size, run, wait, right):
    """Times run(), after which wait() waits for the GPU; then right() looks at the bytes."""
    times = []
    for _ in range(REPEATS):
        wait()
        WORLD.Barrier()
        begun = time.perf_counter()
        run()
        wait()
        times.append(WORLD.allreduce(time.perf_counter() - begun, op=MPI.MAX))
    ok = WORLD.allreduce(bool(right()), op=MPI.LAND)
    if WORLD.rank == 0:
        print("row", name, size, f"{sorted(times)[REPEATS // 2] * 1e6:.1f}", "ok" if ok else "wrong", flush=True)


def local_rank():
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", WORLD.rank)))


def arrays(how):
    """The module of arrays, and what waits for its device."""
    if how == "host":
        import numpy
        return numpy, lambda: None
    import cupy
    cupy.cuda.Device(local_rank() % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy, lambda: cupy.cuda.Device().synchronize()


def part(xp, pencil, shape):
    """The values of this rank's part of the whole array: each tells its place."""
    axes = [xp.arange(first, first + n, dtype=xp.float64) for first, n in zip(pencil.substart, pencil.subshape)]
    place = (axes[0][:, None, None] * shape[1] + axes[1][None, :, None]) * shape[2] + axes[2][None, None, :]
    return xp.ascontiguousarray(place * (1 + 2j))


def fft(folder, how):
    sys.path.insert(0, folder)
    from pencil import Pencil, Subcomm
    xp, wait = arrays(how)
    shape = tuple(int(n) for n in os.environ.get("FFT_SHAPE", "256,260,256").split(","))
    slabs = Pencil(Subcomm(WORLD, [0, 1, 1]), shape, axis=1)
    others = slabs.pencil(0)
    a, b = part(xp, slabs, shape), part(xp, others, shape)
    if how == "contiguous":
        n = a.size // WORLD.size * WORLD.size
        sent, got = xp.full(n, WORLD.rank + 1.0 + 0j), xp.zeros(n, dtype=complex)
        case("alltoall", got.nbytes, lambda: WORLD.Alltoall(sent, got), wait,
             lambda: (got.reshape(WORLD.size, -1) == xp.arange(1, WORLD.size + 1)[:, None]).all())
        return
    transfer = slabs.transfer(others, a.dtype)
    to, back = xp.zeros_like(b), xp.zeros_like(a)
    case("forward", to.nbytes, lambda: transfer.forward(a, to), wait, lambda: (to == b).all())
    case("backward", back.nbytes, lambda: transfer.backward(b, back), wait, lambda: (back == a).all())


def heat(folder, how):
    sys.path.insert(0, folder)
    import torch
    gpu = how != "host"
    if gpu:
        torch.cuda.set_device(local_rank() % torch.cuda.device_count())
    import heat as ht
    if gpu:
        ht.use_device("gpu")
        for module in (ht.core._config, ht.core.communication):
            module.GPU_AWARE_MPI = how == "device"
    comm, device = ht.communication.MPI_WORLD, torch.device("cuda" if gpu else "cpu")
    wait = torch.cuda.synchronize if gpu else lambda: None
    rank, size = WORLD.rank, WORLD.size

    n = int(os.environ.get("HEAT_N", "4096"))
    whole = torch.arange(n * n, dtype=torch.float32).reshape(n, n)
    rows, result = ht.array(whole, split=0), []
    case("resplit", n * n * 4, lambda: result.__setitem__(slice(None), [ht.resplit(rows, 1)]), wait,
         lambda: torch.equal(result[0].larray.cpu(), whole[:, result[0].comm.chunk((n, n), 1)[2][1]]))

    square = torch.arange(1 << 20, dtype=torch.float64).reshape(1024, 1024)
    sent = (square + rank).to(device)[:, ::2]
    got = torch.zeros(1024, 1024, dtype=torch.float64, device=device)[:, ::2]

    def ring():
        request = comm.Isend(sent, dest=(rank + 1) % size)
        comm.Recv(got, source=(rank - 1) % size)
        request.Wait()
    case("ring", sent.numel() * 8, ring, wait, lambda: torch.equal(got.cpu(), (square + (rank - 1) % size)[:, ::2]))

    ones, total = torch.ones(1 << 20, device=device), torch.zeros(1 << 20, device=device)
    case("allreduce", 4 << 20, lambda: comm.Allreduce(ones, total, MPI.SUM), wait, lambda: bool((total == size).all()))
    turned = (square.float() * (rank == 0)).to(device).t()
    case("bcast_transposed", 4 << 20, lambda: comm.Bcast(turned, root=0), wait,
         lambda: torch.equal(turned.cpu(), square.float().t()))


{"fft": fft, "heat": heat}[sys.argv[1]](sys.argv[2], sys.argv[3])
