# fuzz.mk: `make fuzz` tries random types until stopped or something fails, which prints the seed that shows it
# again: TEST_SEED=... build/tests/unit/test_fuzz.
FUZZ = $(BUILD)/tests/unit/test_fuzz

fuzz: $(FUZZ)
	seed=$${TEST_SEED:-$$(date +%s%N)}; \
	while CMOCKA_MESSAGE_OUTPUT=TAP TEST_SEED=$$seed FUZZ_TYPES=$${FUZZ_TYPES:-60000} OMPI_MCA_plm_rsh_agent=/bin/false \
	  $(FUZZ); do seed=$$((seed + 1)); done

.PHONY: fuzz
