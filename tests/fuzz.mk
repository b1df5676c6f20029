# fuzz.mk: what runs long. `make fuzz` tries random types until stopped or something fails, which prints the seed that
# shows it again: TEST_SEED=... build/tests/unit/test_fuzz. `make soak` sends SOAK messages, a million, on RANKS, 2 to 8, over
# all transports (the run lines of tests/mpi/soak.c); again the seed shows a failure again.
FUZZ = $(BUILD)/tests/unit/test_fuzz

fuzz: $(FUZZ)
	seed=$${TEST_SEED:-$$(date +%s%N)}; \
	while CMOCKA_MESSAGE_OUTPUT=TAP TEST_SEED=$$seed FUZZ_TYPES=$${FUZZ_TYPES:-60000} OMPI_MCA_plm_rsh_agent=/bin/false \
	  $(FUZZ); do seed=$$((seed + 1)); done

SOAK  = 1000000
RANKS = 2 4 8
# A share of them for each line and each number of ranks.
SOAK_LINES = $(shell grep -c '^ \* run:' tests/mpi/soak.c)

soak: all sim mpi-tests
	for n in $(RANKS); do \
	  SOAK_MESSAGES=$$(( $(SOAK) / ($(SOAK_LINES) * $(words $(RANKS))) )) SOAK_LARGE=1 MPI_TEST_RANKS=$$n \
	    MPI_TEST_TIMEOUT=$${MPI_TEST_TIMEOUT:-36000} tests/mpi/run.sh $(BUILD) $(MPICC) soak || exit 1; done

.PHONY: fuzz soak
