# Every target sets up what it needs: a fresh clone needs no other command first. `make help` lists them.

GO ?= go

# The binding, the programs and the development tools are modules of their own, so that those who import the binding
# need no libraries of the others. Patterns of the go command end where a module does; go.work joins them. The programs come
# first, because the longest tests are theirs.
packages = ./examples/... ./... ./scripts/...

# Git refuses to tell the state of a clone that someone else owns (a container's, for one), and the go command would
# fail with it. A workspace cannot be built with a user's -mod=mod or GOWORK=off. Links without debugging information take half
# as long. scripts/env has what a build needs on systems with an older C library; nothing elsewhere.
setup = export GOFLAGS="-ldflags=-w $$($(GO) env GOFLAGS) -buildvcs=false -mod=readonly" GOWORK="$(CURDIR)/go.work" && eval "$$(scripts/env)"

# Tests wait for processes, connections and disks, so one package more than there are cores keeps the cores busy.
packages_at_once = -p $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))

.PHONY: help vendor finetune check test race machines fuzz fuzz-rpc lint tidy api consumer bench interop peft real vulkan vulkan-short gpu-check darwin clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

vendor: ## make ggml available: the system's, or fetched into ggml/
	@command -v $(GO) >/dev/null || { echo "make: there is no '$(GO)': install Go 1.24 or newer" \
		"(Debian 13, Ubuntu: apt-get install golang-go; macOS: brew install go)" >&2; exit 1; }
	@scripts/vendor

finetune: vendor ## fine-tune a real chat model with LoRA and show what it answers before and after (EPOCHS=N, of 3; without pip or a network, a generated model)
	@$(setup) && scripts/finetune

check: vendor lint ## the quick tier, two minutes on two cores: lint, then the short tests
	@$(setup) && $(GO) test $(packages_at_once) -vet=off -short $(packages)

test: vendor lint ## check everything: lint, then all tests
	@$(setup) && $(GO) test $(packages_at_once) -vet=off -timeout 40m $(packages)

# A process under the race detector waits a second before it ends, and the tests start hundreds.
race: vendor ## the tests of what several goroutines use (scripts/racing), under the race detector; scripts/sequential names those that race with nothing
	@$(setup) && GORACE="atexit_sleep_ms=0 $$GORACE" $(GO) test -vet=off -race -timeout 40m \
		-skip "$$(sed -n '/^Test/s,[^/][^/]*,^&$$,gp' scripts/sequential | paste -sd '|' -)" $$(scripts/racing)

machines: ## fetch Open MPI and MPICH from the distribution's packages into build/machines; the tests then train on several processes by both
	@scripts/machines

fuzz: vendor ## the tests of llm on all architectures, random programs (PROGRAMS=N, of 200,000), the table of types and layouts (STEP=N for a part), random calls of all that is exported (CALLS=N, of 200,000), closes while files are written (CLOSES=N, of 5,000), changed requests to the server of models (BODIES=N, of 100,000); from the seed of the commit or FIRST=SEED, for hours; the tests do a part of each
	@$(setup) && GOGGML_ALL_ARCHITECTURES=1 nice $(GO) test -vet=off -timeout 0 ./llm/... ./internal/test/llmtest
	@$(setup) && nice $(GO) test -count=1 -timeout 0 -v -run 'TestPrograms|TestTable' ./internal/fuzz \
		-programs $${PROGRAMS:-200000} -first $${FIRST:-0} -step $${STEP:-1}
	@$(setup) && calls=$${CALLS:-200000} && export GORACE="atexit_sleep_ms=0 $$GORACE" && \
		nice $(GO) test -count=1 -timeout 0 -v -run 'TestCalls|TestConcurrentCalls' ./internal/fuzz/calls -seed $${FIRST:-0} -calls $$((calls / 2)) && \
		nice $(GO) test -count=1 -timeout 0 -v -race -run TestConcurrentCalls ./internal/fuzz/calls -seed $${FIRST:-0} -calls $$((calls / 10)) && \
		nice $(GO) test -count=1 -timeout 0 -v -run TestWriteWhileClosing ./llm/lora -closes $${CLOSES:-5000} && \
		nice $(GO) test -count=1 -timeout 0 -v -run 'TestHostileBodies|TestNothingGrows' ./llm/serve -bodies $${BODIES:-100000} -first $${FIRST:-1} -requests 10000

fuzz-rpc: vendor ## changed messages to an RPC server (MESSAGES=N, of 1,000,000; FIRST=SEED); the tests send a few thousand
	@$(setup) && nice $(GO) test -count=1 -timeout 0 -v -run TestMessages ./internal/fuzz/rpc -messages $${MESSAGES:-1000000} -first $${FIRST:-1}

# The tags cpu, cuda, metal and vulkan each add a file to the binding, require_TAG.go: they are checked beside require.go, without
# the package, which would be compiled anew for other tags. The tag interop adds tests and takes no file away, so
# the vet with it sees all others too. GOGC=400 saves a third of staticcheck's processor time, for memory.
lint: vendor ## gofmt, go vet with all build tags, staticcheck, and the whole of ggml's API is bound
	@unformatted=$$(find . -name '*.go' -not -path './build/*' -exec gofmt -l {} +); \
		test -z "$$unformatted" || { echo "make: run gofmt -w on" $$unformatted >&2; exit 1; }
	@$(setup) && export GOGC=400 && $(GO) vet -tags interop $(packages) && \
		$(GO) vet -tags cpu,cuda,metal,vulkan require*.go && $(GO) tool staticcheck $(packages) && \
		CGO_ENABLED=0 $(GO) run ./scripts/apicheck

tidy: ## go mod tidy in all modules; those beside the binding take it from this tree, whether its version is released or not
	@export GOWORK=off && $(GO) mod tidy && for module in examples scripts; do (cd $$module && \
		trap '$(GO) mod edit -dropreplace=github.com/goggml/ggml' EXIT && \
		$(GO) mod edit -replace=github.com/goggml/ggml=.. && $(GO) mod tidy) || exit 1; done

api: vendor ## list the functions of ggml's headers that are not bound, and false claims of the documentation
	@$(setup) && CGO_ENABLED=0 $(GO) run ./scripts/apicheck

consumer: vendor ## use the module from outside: by a replace, from a vendor folder, with the system's ggml; install the programs as released
	@scripts/consumer

bench: vendor ## measure everything into docs/benchmarks: an hour on two idle cores (BENCH=-help lists shorter forms)
	@scripts/llamacpp || echo "make: without stock llama.cpp, what stands beside it is left out" >&2
	@$(setup) && $(GO) run ./scripts/bench $(BENCH)

interop: vendor ## compare with stock llama.cpp and with transformers, and serve clients of OpenAI's protocol, fetched into build/ (GOGGML_INTEROP_SEEDS="3 4" for random models of other seeds than 1 and 2)
	@scripts/llamacpp
	@scripts/clients
	@$(setup) && $(GO) test -tags interop -count=1 -timeout 180m -run Interop ./internal/interop ./internal/jinja ./llm/chat ./llm/data ./llm/run ./examples/finetune ./llm/ollama ./scripts/browser

peft: vendor ## compare adapters, training and preferences with PyTorch, PEFT and TRL, installed by pip into build/ (some gigabytes)
	@scripts/peft
	@scripts/llamacpp
	@$(setup) && $(GO) test -tags interop -count=1 -timeout 60m -run InteropPEFT -v ./internal/interop

real: vendor ## compare a real chat model, fetched by pip, with stock llama.cpp, transformers and PEFT; part of make interop, where PyTorch is there
	@scripts/realmodel >/dev/null
	@scripts/peft
	@scripts/llamacpp
	@$(setup) && $(GO) test -tags interop -count=1 -timeout 120m -run InteropReal -v ./internal/interop

vulkan: vendor ## train and generate on Vulkan, by Mesa's software driver, fetched from the distribution's packages into ggml/: forty minutes, the first time with some minutes for compiling shaders
	@scripts/vulkan
	@$(setup) && eval "$$(scripts/env --software-vulkan)" && $(GO) test -count=1 -timeout 90m -run Vulkan -v ./llm/device ./scripts/gpucheck && \
		$(GO) test -count=1 -timeout 30m -run 'TestScripts/vulkan|TestProcessesShareVulkan' ./examples/finetune ./examples/generate ./examples/pretrain

# Most of it compiles shaders, which so is not done as well as it can be.
vulkan-short: vendor ## a part of make vulkan, in a minute or two: ops, training, generation, and layers over two devices, the CPU and a remote one
	@scripts/vulkan
	@$(setup) && eval "$$(scripts/env --software-vulkan)" && GALLIVM_PERF=nopt $(GO) test -count=1 -short -timeout 20m -run 'Vulkan(Nodes|Plans|Trains)' ./llm/device

gpu-check: vulkan ## check what needs no GPU of what runs on one: make vulkan; stock llama.cpp with adapters trained there; then the CUDA plugin (130 MB, fetched into build/) on a stand-in for the driver, which shows what a step asks of it (scripts/cuda-step writes its page). On a GPU: scripts/gpu-check
	@scripts/llamacpp
	@$(setup) && eval "$$(scripts/env --software-vulkan)" && $(GO) test -tags interop -count=1 -timeout 30m -run InteropVulkan -v ./internal/interop
	@scripts/cuda-standin
	@$(setup) && export GOGGML_CUDA_TRACE="$(CURDIR)/build/cuda/trace" GOGGML_CUDA_LOST="$(CURDIR)/build/cuda/lost" && \
		rm -f "$$GOGGML_CUDA_TRACE" "$$GOGGML_CUDA_LOST" && \
		$(GO) test -count=1 -timeout 30m -exec "$(CURDIR)/build/cuda/run" -run CUDA -v . ./llm/device

darwin: vendor ## compile everything for macOS on arm64 and amd64, but for the link of programs, by a cross compiler from pip
	@scripts/darwin

clean: ## remove what was built
	@find build -mindepth 1 -maxdepth 1 ! -name README.md ! -name .gitignore -exec rm -rf {} +

distclean: clean ## remove the fetched ggml too
	@rm -rf ggml/include ggml/lib ggml/glibc ggml/vulkan ggml/UPSTREAM.installed ggml/.lock ggml/.work.*
