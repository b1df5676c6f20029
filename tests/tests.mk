include tests/sim/sim.mk
include examples/examples.mk
include bench/bench.mk
include tests/mpi/mpi.mk
