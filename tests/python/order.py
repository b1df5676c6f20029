"""order.py: stridec.start_on and stridec.wait_on: columns go round a ring of ranks, in GPU and in host memory.

Every byte of what is received into is compared. "absent": without the library the host carries them, with the same
bytes. "alone": without CUDA too. Run by tests/python/run.sh.
"""
import ctypes
import gc
import sys
import threading
import time
from types import SimpleNamespace

absent, alone = "absent" in sys.argv, "alone" in sys.argv
if not alone:
    import device_array   # before MPI starts: stridec looks then for the simulated GPU, which has no file in /dev
import numpy as np
import stridec
from mpi4py import MPI

STEPS, LAUNCHES = 4, 5
NON_BLOCKING, GLOBAL = 1, 0   # cudaStreamNonBlocking, cudaStreamCaptureModeGlobal
ROWS, WIDTH, OUT, IN = 40, 6, 1, 4   # of the arrays, and their columns that are sent and received
comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
failed = 0


def check(name, right_):
    """Prints a line for all ranks."""
    global failed
    bad = comm.allreduce(0 if right_ else 1)
    failed += bool(bad)
    if comm.rank == 0:
        print(f"{'not ok' if bad else 'ok'} {name}", flush=True)


def refused(error, words, function, *arguments):
    try:
        function(*arguments)
    except error as e:
        return words in str(e)
    return False


def cuda(name, *arguments):
    device_array._call(name, *arguments)


def new_stream():
    """Returns the address of a new stream."""
    stream = ctypes.c_void_p()
    cuda("cudaStreamCreateWithFlags", ctypes.byref(stream), NON_BLOCKING)
    return stream.value


def pinned(array):
    """Returns an array like this in host memory that streams copy to later."""
    memory = ctypes.c_void_p()
    cuda("cudaMallocHost", ctypes.byref(memory), ctypes.c_size_t(array.nbytes))
    made = np.ndarray(array.shape, array.dtype, (ctypes.c_char * array.nbytes).from_address(memory.value))
    made[...] = array
    return made


def in_device(array):
    made = device_array.DeviceArray(array.shape, array.dtype)
    made.set(array)
    return made


def address_of(x):
    interface = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    return ctypes.c_void_p(interface["data"][0])


class Ring:
    """A column to the next rank and one from the rank before. A stream writes what is sent just before, from `source`,
    and copies what is received just after, to `got`."""

    def __init__(self, make, stream, tag, as_tuple=False):
        self.make, self.stream = make, stream
        self.number = comm.rank
        self.source, self.out, self.into, self.got = (make(np.full((ROWS, WIDTH), -1.0)) for _ in range(4))
        sent, received = self.out[:, OUT], self.into[:, IN]
        send, receive = stridec.message(sent), stridec.message(received, receive=True)
        if as_tuple:   # the received column from the array's start
            at = self.into.strides[1] * IN
            column = stridec.datatype(sent).Create_hindexed([1], [at]).Commit()
            send, receive = (send[0], 1, send[2]), (self.into, 1, column)
        self.requests = [comm.Recv_init(receive, left, tag), comm.Send_init(send, right, tag)]

    def values(self, number):
        return np.arange(float(ROWS * WIDTH)).reshape(ROWS, WIDTH) + 1000 * number

    def fill(self):
        """Changes the numbers of the next step, where no stream is at work."""
        self.number += comm.size
        values = self.values(self.number)
        if isinstance(self.source, np.ndarray):
            self.source[...] = values
        else:
            self.source.set(values)

    def copy(self, to, source):
        if self.stream is None:
            to[...] = source
        else:
            cuda("cudaMemcpyAsync", address_of(to), address_of(source), ctypes.c_size_t(source.nbytes), 4,   # any kind
                 ctypes.c_void_p(self.stream))

    def right_(self):
        """Waits for the stream. Tells whether the last step's numbers are there, and nothing else was written."""
        if self.stream is not None:
            cuda("cudaStreamSynchronize", ctypes.c_void_p(self.stream))
        want = np.full((ROWS, WIDTH), -1.0)
        want[:, IN] = self.values(self.number - comm.rank + left)[:, OUT]
        got = self.got if isinstance(self.got, np.ndarray) else self.got.get()
        return got.tobytes() == want.tobytes()

    def enqueue(self, stream):
        """Enqueues a step, one call or two by turns of steps and ranks. Returns what the calls return, as two."""
        self.copy(self.out, self.source)
        if (self.number // comm.size + comm.rank) % 2:
            started = waited = stridec.exchange_on(self.requests, stream)
        else:
            started, waited = stridec.start_on(self.requests, stream), stridec.wait_on(self.requests, stream)
        self.copy(self.got, self.into)
        return started, waited

    def free(self):
        comm.Barrier()
        for request in self.requests:
            request.Free()


def steps(name, make, address, stream, served, **named):
    """The first start need not know yet that the host carries the messages."""
    ring, told, right_ = Ring(make, address, 7, **named), [], True
    for _ in range(STEPS):
        ring.fill()
        told += ring.enqueue(stream)
        right_ &= ring.right_()
    ring.free()
    check(f"{STEPS} steps of columns, {name}", right_)
    check(f"... {'the stream' if served else 'the host'} carries them", told[1:] == [served] * (2 * STEPS - 1))


def streams():
    """All that names a stream."""
    address = new_stream()
    for name, stream in (("an address", address), ("NumPy's int", np.uint64(address)),
                         ("CuPy's stream", SimpleNamespace(ptr=address)),
                         ("PyTorch's stream", SimpleNamespace(cuda_stream=address)),
                         ("a method __cuda_stream__", SimpleNamespace(__cuda_stream__=lambda: (0, address))),
                         ("an attribute __cuda_stream__", SimpleNamespace(__cuda_stream__=(0, address)))):
        steps(f"by {name}", in_device, address, stream, True)
    steps("in the default stream", in_device, 0, None, True)
    steps("by tuples", in_device, address, address, True, as_tuple=True)
    for stream, words in (("0", "no CUDA stream"), (1.5, "no CUDA stream"),
                          (SimpleNamespace(__cuda_stream__=(1, 0)), "version 1")):
        check(f"TypeError of {type(stream).__name__}: {words}", refused(TypeError, words, stridec.start_on, [], stream))


def one_by_one(served):
    """Requests alone, null ones, none; and what keeps arrays and datatypes while nobody else does."""
    got = np.zeros(ROWS)
    array = np.arange(2.0 * ROWS) + 1000 * comm.rank
    into, out = (got, array) if not served else (in_device(got), in_device(array))
    receive = comm.Recv_init(stridec.message(into), left, 3)
    send = comm.Send_init(stridec.message(out[::2]), right, 3)
    del out
    stridec.datatype.__globals__["_cache"].clear()
    gc.collect()
    for request in (send, receive):
        stridec.start_on(request)
    told = [stridec.wait_on(request) for request in (receive, send)]
    if served:
        cuda("cudaStreamSynchronize", ctypes.c_void_p())
        got = into.get()
    check("requests one by one", np.array_equal(got, np.arange(0.0, 2 * ROWS, 2) + 1000 * left) and
          told == [served] * 2)
    for name, requests in (("no requests", []), ("a null request", MPI.REQUEST_NULL),
                           ("a tuple of null requests", (MPI.REQUEST_NULL,) * 2)):
        check(name, [stridec.start_on(requests), stridec.wait_on(requests), stridec.exchange_on(requests)] ==
              [not absent] * 3)
    check("a wait for what was not started", stridec.wait_on([send, receive]) == (not absent))
    comm.Barrier()
    send.Free(), receive.Free()
    check("requests that were freed", stridec.start_on([send, receive]) == (not absent))


def kinds():
    """What is no persistent request."""
    request = comm.Irecv(bytearray(1), left, 4)
    check("TypeError of a request that is not persistent", refused(TypeError, "persistent", stridec.wait_on, [request]))
    comm.Send(bytearray(1), right, 4)
    request.Wait()
    for bad in ([3], ["request"]):
        check(f"TypeError of {type(bad[0]).__name__}", refused(TypeError, "no request", stridec.start_on, bad))


def errors():
    address = new_stream()
    ring = Ring(in_device, address, 5)
    anybody = comm.Recv_init(stridec.message(ring.into[:, 0]), MPI.ANY_SOURCE, 5)
    check("ValueError of any source", refused(ValueError, "ANY_SOURCE", stridec.start_on, anybody, address))
    ring.fill()
    ring.copy(ring.out, ring.source)
    stridec.start_on(ring.requests, address)
    check("ValueError of a second start", refused(ValueError, "started", stridec.start_on, ring.requests, address))
    stridec.wait_on(ring.requests, address)
    ring.copy(ring.got, ring.into)
    check("... and the first one's bytes", ring.right_())
    anybody.Free()
    ring.free()


def graphs():
    address = new_stream()
    stream, graph, ready = ctypes.c_void_p(address), ctypes.c_void_p(), ctypes.c_void_p()
    ring = Ring(in_device, address, 6)
    cuda("cudaStreamBeginCapture", stream, GLOBAL)
    check("RuntimeError of a captured first start",
          refused(RuntimeError, "STRIDEC_LOG", stridec.start_on, ring.requests, address))
    cuda("cudaStreamEndCapture", stream, ctypes.byref(graph))
    ring.fill()
    ring.enqueue(address)
    right_ = ring.right_()

    cuda("cudaStreamBeginCapture", stream, GLOBAL)
    told = ring.enqueue(address)
    cuda("cudaStreamEndCapture", stream, ctypes.byref(graph))
    cuda("cudaGraphInstantiate", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
    for _ in range(LAUNCHES):
        ring.fill()
        cuda("cudaGraphLaunch", ready, stream)
        right_ &= ring.right_()
    cuda("cudaGraphExecDestroy", ready)
    cuda("cudaGraphDestroy", graph)
    ring.free()
    check(f"a graph of a step, launched {LAUNCHES} times", right_ and told == (True, True))


def threads():
    """While a call waits for its partner another thread of Python goes on: it ticks more often than once at the end."""
    ring, ticks, ended = Ring(in_device, new_stream(), 8), [], threading.Event()

    def tick():
        while not ended.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    ring.fill()
    ring.copy(ring.out, ring.source)
    stridec.start_on(ring.requests, ring.stream)
    if comm.rank == 1:
        time.sleep(0.3)
    begun = time.monotonic()
    stridec.wait_on(ring.requests, ring.stream)
    done = time.monotonic()
    ended.set()
    thread.join()
    ring.copy(ring.got, ring.into)
    right_ = ring.right_()
    ring.free()
    check("a wait for the partner lets other threads go on",
          right_ and (comm.rank != 0 or comm.size < 2 or sum(begun < t < done for t in ticks) > 3))


def main():
    if alone:
        steps("without streams", np.array, None, None, False)
    else:
        device_array.set_device(comm.rank % device_array.device_count())
        address = new_stream()
        steps("in host memory", pinned, address, address, False)
    one_by_one(False)
    kinds()
    if not absent:
        streams()
        one_by_one(True)
        errors()
        graphs()
        threads()
    check("all of order.py", True)
    return failed > 0


sys.exit(main())
