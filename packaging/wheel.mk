# wheel.mk: `make wheel`: a wheel for pip with builds for all MPIs of the Python index: in $(BUILD)/release.
# Variables of the command line reach the makes in it through the environment; `make -n` starts none.
wheel:
	MAKEFLAGS= CUDA_HOME='$(CUDA_HOME)' FETCHED="$${FETCHED:-$(BUILD)/fetched}" packaging/wheel.sh "$(BUILD)/release"

.PHONY: wheel
