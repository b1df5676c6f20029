"""wheel.py: rank 0 sends parts of a table in the GPU's memory to rank 1, which checks each byte: a column, by the
package of the wheel, and blocks that differ in length."""
import ctypes
import glob
import os

import stridec
from mpi4py import MPI

ROWS, ROW, COLUMN = 64, 400, 100
sim = os.environ["LD_LIBRARY_PATH"].split(":")[0]
cuda = ctypes.CDLL(glob.glob(sim + "/libcudart.so.*")[0])


class Table:
    def __init__(self, content):
        pointer = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(len(content))) == 0
        assert cuda.cudaMemcpy(pointer, content, ctypes.c_size_t(len(content)), 1) == 0
        self.__cuda_array_interface__ = {"shape": (len(content),), "typestr": "|u1", "version": 3,
                                         "data": (pointer.value, False)}

    def read(self):
        content = ctypes.create_string_buffer(ROWS * ROW)
        address = ctypes.c_void_p(self.__cuda_array_interface__["data"][0])
        assert cuda.cudaMemcpy(content, address, ctypes.c_size_t(len(content)), 2) == 0
        return content.raw


comm = MPI.COMM_WORLD
content = bytes(i * 7 % 251 for i in range(ROWS * ROW))
column = {i for i in range(ROWS * ROW) if i % ROW < COLUMN}
starts = [ROW * row + row * row % 37 for row in range(ROWS)]
lengths = [1 + row % 5 for row in range(ROWS)]
blocks = {start + i for start, length in zip(starts, lengths) for i in range(length)}
indexed = MPI.BYTE.Create_indexed(lengths, starts).Commit()


def column_of(table):
    class View:
        __cuda_array_interface__ = dict(table.__cuda_array_interface__, shape=(ROWS, COLUMN), strides=(ROW, 1))
    return stridec.message(View, receive=comm.rank == 1)


for moved, message in ((column, column_of), (blocks, lambda table: [table, 1, indexed])):
    table = Table(content if comm.rank == 0 else bytes(len(content)))
    if comm.rank == 0:
        comm.Send(message(table), dest=1, tag=3)
    else:
        comm.Recv(message(table), source=0, tag=3)
        assert table.read() == bytes(c if i in moved else 0 for i, c in enumerate(content))
if comm.rank == 1:
    print("every byte:", MPI.Get_library_version()[:20].replace("\t", " "))
