package main

import "time"

// A suite is a set of a package's benchmarks that run together.
type suite struct {
	name        string
	folder      string        // of the package
	bench       string        // regular expression of the benchmarks
	full, quick time.Duration // approximate time on two cores
}

// file returns the name of the file of its results.
func (s suite) file() string { return s.name + ".txt" }

// A view is a table or a plot of the page.
type view interface {
	// render writes the pictures into the folder, and returns the Markdown; "" if there are no results.
	render(folder string, s *resultSet) (string, error)
}

// A section is a title, an introduction and views.
type section struct {
	title, text string
	views       []view
}

// A page is written from the results of its suites.
type page struct {
	name     string
	file     string
	title    string
	text     string
	beside   []fact // the other programs: name, and key of the version
	rounds   int    // samples of each program that others stand beside
	suites   []suite
	sections []section
}

var stockLlama, pyTorch = fact{"llama.cpp", keyLlama}, fact{"PyTorch and PEFT", keyPyTorch}

var pages = []page{
	{
		name: "all", file: "README.md", title: "Benchmarks",
		text: "Made by `make bench`, which repeats all of it. Absolute numbers belong to the machine, and move with what else it " +
			"does: the ratios are the point. The comparison with PyTorch and PEFT is [a run of its own](peft.md).",
		beside: []fact{stockLlama},
		suites: []suite{
			{"binding", ".", "^Benchmark(BuildGraph|Compute|Data)$", 20 * time.Second, 20 * time.Second},
			{"training", "llm/train", "^Benchmark(Ceiling|Autograd|Step)$", 15 * time.Minute, time.Minute},
			{"scaling", "llm/train", "^BenchmarkScaling$", 2 * time.Minute, 2 * time.Minute},
			{"context", "llm/train", "^BenchmarkLongContext$", 4 * time.Minute, time.Second},
			{"overhead", "llm/train", "^BenchmarkOverhead$", 40 * time.Second, 20 * time.Second},
			{"finetune", "llm/train", "^BenchmarkBesideFinetune$", 20 * time.Second, 30 * time.Second},
			{"generation", "llm/generate", "^BenchmarkStock(Adapter)?$/^0.3B$|^Benchmark(LlamaBench|Overhead)$", 20 * time.Minute, 4 * time.Minute},
			{"cache", "llm/generate", "^BenchmarkStockCache$", 100 * time.Second, 20 * time.Second},
		},
		sections: []section{ceilingSection, stepSection, contextSection, scalingSection, finetuneSection, generationSection, overheadSection, bindingSection},
	},
	{
		name: "peft", file: "peft.md", title: "Beside PyTorch and PEFT",
		text: "Made by `scripts/bench-peft`, which repeats all of it. The same model, from the same file, with the same adapter at the " +
			"start, is trained on the same batches by the same rule; see [the other benchmarks](README.md) for what is not compared here.",
		beside:   []fact{pyTorch},
		suites:   []suite{{"peft", "llm/train", "^BenchmarkBesidePEFT$", 16 * time.Minute, time.Minute}},
		sections: []section{peftSection},
	},
	{
		name: "processor", file: "processor.md", title: "A processor",
		text: "Made by `scripts/bench-peft -page processor -out FOLDER`, in half an hour. It compares what a kind of processor does in training and " +
			"in generation with what its instructions allow, with PyTorch and PEFT, and with llama.cpp. `ONEDNN_MAX_CPU_ISA` and `GGML_BACKEND_PATH` hold " +
			"a processor back to the instructions of a lesser one.",
		beside: []fact{pyTorch, stockLlama},
		rounds: 3,
		suites: []suite{
			{"arithmetic", "llm/train", `^BenchmarkArithmetic$/./layers=(8|22|24)/q8_0/threads=([2-9]|\d\d)`, 4 * time.Minute, 20 * time.Second},
			{"context", "llm/train", "^BenchmarkLongContext$", 5 * time.Minute, time.Second},
			{"peft", "llm/train", "^BenchmarkBesidePEFT$/1.1B", 9 * time.Minute, time.Minute},
			{"generation", "llm/generate", "^BenchmarkStock$/^0.3B$|^BenchmarkStock$/^1.1B$/^q(8_0|4_K)$/(prompt|generate)|^BenchmarkStockAdapter$/^0.3B$/^q(8_0|4_K)$/^f32$", 12 * time.Minute, 4 * time.Minute},
		},
		sections: []section{arithmeticSection, contextSection, peftSection, generationSection},
	},
	{
		name: "generation", file: "generation.md", title: "Generation beside stock llama.cpp",
		text:     "Made by `make bench BENCH='-page generation'`, which repeats all of it in two hours; see [the other benchmarks](README.md) for training.",
		beside:   []fact{stockLlama},
		suites:   []suite{{"generation", "llm/generate", "^BenchmarkStock(Adapter)?$", 2 * time.Hour, 4 * time.Minute}},
		sections: []section{generationSection},
	},
	{
		name: "pairs", file: "pairs.md", title: "Preferences beside TRL",
		text: "Made by `scripts/bench-peft -page pairs`, which repeats all of it. The same model, from the same file, with the same adapter at the " +
			"start, prefers one answer of each pair to the other by DPO.",
		beside:   []fact{pyTorch},
		suites:   []suite{{"pairs", "llm/train", "^BenchmarkBesideTRL$", 5 * time.Minute, time.Minute}},
		sections: []section{pairsSection},
	},
	{
		name: "architectures", file: "architectures.md", title: "Architectures beside llama",
		text: "Made by `make bench BENCH='-page architectures'`, on shapes of about a billion parameters that a token is computed with, of " +
			"random weights; see [the other benchmarks](README.md) for llama itself.",
		beside: []fact{stockLlama},
		suites: []suite{
			{"steps", "llm/train", "^BenchmarkArchitecture$", 3 * time.Minute, 2 * time.Minute},
			{"recurrent", "llm/train", "^Benchmark(GatedDeltaLayer|LongHybrid)$", 12 * time.Minute, time.Second},
			{"sessions", "llm/generate", "^BenchmarkStockArchitecture$", 8 * time.Minute, time.Second},
		},
		sections: []section{architectureStepSection, recurrentSection, architectureSessionSection},
	},
	{
		name: "rpc", file: "rpc.md", title: "An RPC server beside ggml's own",
		text: "Made by `make bench BENCH='-page rpc'`: a client and a server on one machine, by loopback; see [the other benchmarks](README.md) for " +
			"what needs no server.",
		suites:   []suite{{"server", "llm/device", "^BenchmarkServer$", 3 * time.Minute, time.Minute}},
		sections: []section{serverSection},
	},
}

// Sections of the pages.
var (
	bindingSection = section{
		title: "The binding beside C",
		text: "Each is done by the binding and by the same program in C in turn; the ratio is of the times, " +
			"the median of many.",
		views: []view{
			table{
				from: []string{"BuildGraph", "Compute", "Data"}, rows: []key{{"1", "case"}}, named: "benchmark",
				columns: []column{
					{head: "time × C's", unit: "×C", format: "%.2f"},
					{head: "time × memcpy's", unit: "×memcpy", format: "%.2f"},
					{head: "allocations a node", unit: "allocs/node", format: "%.2f"},
				},
			},
		},
	}

	overheadSection = section{
		title: "The time that is not the graph's",
		text: "Of a training step: choosing samples, filling the inputs, the checks before each computation, reading the losses. Of a token " +
			"that is generated: the same, and drawing it from the 40 most likely ones, of which those that together have a probability of 0.95. " +
			"The rest is spent in ggml, computing the graph; the overhead is relative to that.",
		views: []view{
			table{
				from: []string{"Overhead"}, rows: []key{{"of", "of"}, {"model", "model"}, {"base", "weights"}},
				columns: []column{
					{head: "tokens/s", unit: "tok/s", format: "%.1f"},
					{head: "overhead, %", unit: "overhead-%", format: "%.2f"},
				},
			},
		},
	}

	scalingSection = section{
		title: "How a training step scales",
		text: "LoRA on all seven linear layers of every block. Unless it is what varies: 2 samples of 256 tokens, rank 8, all cores; " +
			"the model of 28 million parameters with a Q8_0 base. Batches are of samples of 128 tokens, contexts of one sample with " +
			"checkpointing. Ranks are measured on two layers of the 1.1-billion-parameter shape, Q4_K base: in narrower layers a rank " +
			"of 256 is no small part of a matrix. Memory is the largest resident size of a process that does nothing else.",
		views: []view{
			scaling("threads", "threads", "tok/s", "tokens/s"),
			scaling("batch", "samples a step", "tok/s", "tokens/s"),
			scaling("context", "tokens of context", "ms/tok", "ms a token"),
			memoryOf("context", "tokens of context"),
			scaling("rank", "rank", "ms/tok", "ms a token"),
			memoryOf("rank", "rank"),
			scaling("layers", "layers", "ms/tok", "ms a token"),
			memoryOf("layers", "layers"),
			table{
				from: []string{"Scaling"}, rows: []key{{"threads", "threads"}, {"batch", "batch"}, {"context", "context"}, {"rank", "rank"}, {"layers", "layers"}},
				columns: stepColumns,
			},
		},
	}

	contextSection = section{
		title: "Long contexts",
		text:  "One sample a step on the shape of 1.1 billion parameters, Q4_K base, rank 8, with checkpointing.",
		views: []view{
			table{from: []string{"LongContext"}, rows: []key{{"context", "context"}}, columns: stepColumns},
			chart{
				file: "long-context-memory", title: "Memory of training 1.1 billion parameters", x: "context", xlabel: "tokens of context", ylabel: "peak memory, MB",
				lines: []line{{name: "1.1B, Q4_K, checkpointing", from: "LongContext", unit: "peak-MB"}},
			},
		},
	}

	ceilingSection = section{
		title: "GEMM ceiling",
		text: "What training could reach at most: the GEMM of a 2048 × 2048 matrix with n columns, GFLOP/s on all cores. OpenBLAS is the " +
			"ceiling in F32, oneDNN in BF16 and oneMKL in F16, where the processor multiplies it.",
		views: []view{
			table{from: []string{"Ceiling"}, rows: []key{{"library", "library"}, {"type", "type"}, {"n", "n"}}, columns: []column{
				{head: "GFLOP/s", unit: "GFLOP/s", format: "%.0f"},
			}},
		},
	}

	stepSection = section{
		title: "Training steps by type of the base",
		text: "LoRA of rank 8 on all seven linear layers of every block: the shape of 28 million parameters with 2 samples of 256 tokens, " +
			"the shape of 1.1 billion with one of 512. Products with the base are in F32 or, where the processor and the GEMM library multiply it, in BF16 or F16. " +
			"GFLOP/s count 4 operations for each parameter and token; sgemm is OpenBLAS's of 512 columns, " +
			"before each step. Autograd is ggml's own backward pass through a graph of built-in ops, without an optimiser, for 256 or 128 tokens; " +
			"steps of ours, of 512 tokens without checkpointing, are taken in turn with it. A ratio is the median of the turns' ratios.",
		views: []view{
			table{
				from: []string{"Step"}, rows: []key{{"model", "model"}, {"base", "base"}, {"products", "compute type"}, {"checkpointing", "checkpointing"}},
				columns: []column{
					{head: "tokens/s", unit: "tok/s", format: "%.0f"},
					{head: "GFLOP/s", unit: "GFLOP/s", format: "%.0f"},
					{head: "× sgemm", unit: "×sgemm", format: "%.2f"},
					{head: "peak MB", unit: "peak-MB", format: "%.0f"},
					{head: "bytes a parameter", unit: "B/param", format: "%.2f"},
				},
			},
			table{
				from: []string{"Autograd"}, rows: []key{{"model", "model"}, {"base", "base, ggml's autograd"}},
				columns: []column{
					{head: "tokens/s", unit: "tok/s", format: "%.1f"},
					{head: "ours, tokens/s", unit: "ours-tok/s", format: "%.0f"},
					{head: "ours × autograd", unit: "×autograd", format: "%.1f"},
					{head: "GFLOP/s", unit: "GFLOP/s", format: "%.0f"},
					{head: "peak MB", unit: "peak-MB", format: "%.0f"},
				},
			},
		},
	}

	arithmeticSection = section{
		title: "Training in each arithmetic",
		text: "LoRA of rank 8 on all seven linear layers of every block, 512 tokens a step, base in Q8_0; steps of all arithmetics are taken in turn, the " +
			"first being the reference. GFLOP/s count products with the base and attention. The peak is the speed of products of large matrices in the same " +
			"arithmetic, half of them forward and half gradients of inputs. A step also computes norms, adapters and the optimiser.",
		views: []view{
			table{from: []string{"Arithmetic"}, rows: []key{{"model", "model"}, {"base", "base"}, {"arithmetic", "arithmetic"}}, columns: []column{
				{head: "tokens/s", unit: "tok/s", format: "%.0f"},
				{head: "× F32", unit: "×F32", format: "%.2f"},
				{head: "GFLOP/s", unit: "GFLOP/s", format: "%.0f"},
				{head: "peak of GEMM, GFLOP/s", unit: "peak-GFLOP/s", format: "%.0f"},
				{head: "share of it, %", unit: "peak-%", format: "%.0f"},
			}},
		},
	}

	generationSection = section{
		title: "Generation beside stock llama.cpp",
		text: "Prefill of 512 tokens; decode of 32 after it, of one sequence or of several at once. Samples of both " +
			"programs are taken in turn; the ratio is ours to theirs, the median of the turns' ratios. The distribution of llama.cpp has a build " +
			"of ggml's CPU plugin of its own: the second ratio is to llama.cpp with the plugin that we use.",
		views: []view{
			stockTable("Stock", key{"1", "model"}, key{"2", "weights, KV cache in F16"}, key{"3", ""}),
			stockTable("StockCache", key{"1", "model"}, key{"2", "weights, KV cache in Q8_0"}, key{"3", ""}),
			stockTable("LlamaBench", key{"1", "model"}, key{"2", "weights, beside llama-bench"}, key{"3", ""}),
			stockTable("StockAdapter", key{"1", "model"}, key{"2", "weights, with an adapter of rank 16"}, key{"3", "its type"}, key{"4", ""}),
		},
	}

	finetuneSection = section{
		title: "Beside llama-finetune",
		text: "Stock llama.cpp's llama-finetune trains all weights of an F32 model, and nothing less. So it stands beside the same here, " +
			"all weights in F32, and beside LoRA of rank 8, which is what this project is for. One sample of 256 tokens a step; the layers of the " +
			"28-million-parameter shape over a vocabulary of bytes.",
		views: []view{
			table{from: []string{"BesideFinetune"}, rows: []key{{"program", "program"}, {"trained", "trained"}, {"base", "base"}}, columns: append(
				stepColumns[:3:3],
				column{head: "tokens/s × llama-finetune's", unit: "tok/s", format: "%.1f", over: &column{unit: "tok/s", where: stockFinetune}},
				column{head: "memory × llama-finetune's", unit: "peak-MB", format: "%.2f", over: &column{unit: "peak-MB", where: stockFinetune}},
			)},
		},
	}

	architectureStepSection = section{
		title: "Training",
		text: "LoRA of rank 8 on all matrices but the experts', one sample of 512 tokens a step, on bases in Q8_0. Steps of the shape and of llama of " +
			"1.1 billion parameters are taken in turn: the ratio is of the FLOP/s of products, of which a mixture counts the chosen experts' products.",
		views: []view{
			table{from: []string{"Architecture"}, rows: []key{{"model", "model"}, {"base", "base"}}, columns: append(
				stepColumns[:3:3], column{head: "FLOP/s × llama's", unit: "×llama", format: "%.2f"},
			)},
		},
	}

	recurrentSection = section{
		title: "Training with the gated delta rule",
		text: "One sample a step, base in Q8_0, rank 8, with checkpointing. First two layers of Qwen3.5-0.8B's widths with a small vocabulary, in turn " +
			"with two layers of attention, as the ratio of their speeds.",
		views: []view{
			table{from: []string{"GatedDeltaLayer"}, rows: []key{{"context", "tokens"}}, columns: append(
				stepColumns[:3:3], column{head: "tokens/s × attention's", unit: "×attention", format: "%.2f"},
			)},
			table{from: []string{"LongHybrid"}, rows: []key{{"model", "model"}, {"context", "tokens"}}, columns: stepColumns[:3:3]},
		},
	}

	architectureSessionSection = section{
		title: "Generation",
		text: "As [beside stock llama.cpp](README.md#generation-beside-stock-llamacpp), with a KV cache in F16: the ratio is ours to stock's on the same file, " +
			"and what it is for llama stands first.",
		views: []view{stockTable("StockArchitecture", key{"1", "model"}, key{"2", "weights"}, key{"3", ""})},
	}

	serverSection = section{
		title: "The same client and two servers",
		text: "All layers of models in Q8_0 on a server that computes on all cores; prefill of 256 tokens, decode of 32, steps of LoRA of rank 8 on 2 samples " +
			"of 128 tokens. The server of `rpc-server` and ggml's own take turns; the ratio is the former's speed to the latter's, the median " +
			"of the turns' ratios. Loads differ by more than that from turn to turn: most of their time is the system's, for memory.",
		views: []view{
			table{from: []string{"Server"}, rows: []key{{"model", "model"}, {"work", "work"}}, columns: []column{
				{head: "tokens/s", unit: "tok/s", format: "%.1f"},
				{head: "speed × ggml's", unit: "×ggml", format: "%.2f"},
			}},
		},
	}

	peftSection = section{
		title: "LoRA in F32 and BF16",
		text: "Rank 8 on all seven linear layers of every block, AdamW, no gradient checkpointing unless it says so; at 28 million parameters 60 steps of " +
			"2 × 256 tokens, at 1.1 billion 5 of 512. PEFT gets the " +
			"Q8_0 weights dequantised, so that both compute the same function; it keeps its adapters in F32. With Q8_0-i8, on processors with VNNI or AMX, gradients " +
			"are multiplied in 8 bits (--compute-type i8). With checkpointing, PEFT and goggml recompute all layers, and goggml-half-memory as little as half of the " +
			"least memory of PEFT's programs allows (--memory). Steps of all programs are taken in turn; the speed beside " +
			"the faster PEFT's is the median of the ratios of each turn. Loading is not timed; memory is the largest resident size of the process.",
		views: []view{
			table{from: []string{"BesidePEFT"}, rows: []key{{"model", "model"}, {"checkpointing", "checkpointing"}, {"program", "program"}, {"weights", "weights"}}, columns: append(
				stepColumns[:3:3],
				column{head: "of it libraries, MB", unit: "libraries-MB", format: "%.0f"},
				column{head: "tokens/s × the faster PEFT's", unit: "×PEFT", format: "%.2f"},
				column{head: "memory × the faster PEFT's", unit: "memory×PEFT", format: "%.2f"},
				column{head: "last loss", unit: "last-loss", format: "%.4f"},
			)},
			chart{
				file: "peft-loss", title: "Loss curves, 28 million parameters", x: "@", xlabel: "step", ylabel: "loss, nats a token", loose: true,
				lines: []line{
					{name: "goggml, Q8_0", from: "BesidePEFT", where: where{"model": "28M", "program": "goggml", "weights": "Q8_0", "checkpointing": "off"}, unit: "loss"},
					{name: "PEFT, F32", from: "BesidePEFT", where: where{"model": "28M", "program": "PEFT", "weights": "F32", "checkpointing": "off"}, unit: "loss"},
					{name: "PEFT, BF16", from: "BesidePEFT", where: where{"model": "28M", "program": "PEFT", "weights": "BF16", "checkpointing": "off"}, unit: "loss"},
				},
			},
		},
	}
)

var pairsSection = section{
	title: "DPO in F32 and BF16",
	text: "Rank 8 on all seven linear layers of every block, AdamW, β 0.1. A prompt has 128 tokens, each of its two answers 65; a step takes 4 pairs at 28 million " +
		"parameters, and 2 at 0.3 billion. TRL gets the Q8_0 weights dequantised, so that both compute the same function; it keeps its adapters in F32. " +
		"Both know the probabilities of the reference before they are timed. The last row of each model is the training of the same sequences one by one, " +
		"with cross-entropy. All tokens of the sequences count: a prompt counts for both answers, though goggml computes it once for a pair. Steps of all " +
		"four are taken in turn; a ratio of speed is the median of the turns' ratios. Memory is the largest resident size of the process.",
	views: []view{
		table{from: []string{"BesideTRL"}, rows: []key{{"model", "model"}, {"loss", "loss"}, {"program", "program"}, {"weights", "weights"}}, columns: append(
			stepColumns[:3:3],
			column{head: "of it libraries, MB", unit: "libraries-MB", format: "%.0f"},
			column{head: "tokens/s × the faster TRL's", unit: "×TRL", format: "%.2f"},
			column{head: "memory × the faster TRL's", unit: "memory×TRL", format: "%.2f"},
			column{head: "tokens/s × cross-entropy's", unit: "×SFT", format: "%.2f"},
			column{head: "last loss", unit: "last-loss", format: "%.4f"},
		)},
	},
}

// stockFinetune is the baseline.
var stockFinetune = where{"program": "llama-finetune", "trained": "all", "base": "F32"}

var stepColumns = []column{
	{head: "tokens/s", unit: "tok/s", format: "%.0f"},
	{head: "ms a token", unit: "ms/tok", format: "%.2f"},
	{head: "peak MB", unit: "peak-MB", format: "%.0f"},
	{head: "bytes a parameter", unit: "B/param", format: "%.2f"},
}

func stockTable(bench string, rows ...key) table {
	return table{from: []string{bench}, rows: rows, columns: []column{
		{head: "tokens/s", unit: "tokens/s", format: "%.1f"},
		{head: "ratio", unit: "ratio", format: "%.2f"},
		{head: "ratio, same plugin", unit: "same-plugin-ratio", format: "%.2f"},
		{head: "× without the adapter", unit: "of-plain", format: "%.2f"},
	}}
}

func scaling(by, xlabel, unit, ylabel string) chart {
	return chart{
		file: "scaling-" + by, title: "Training by " + xlabel, x: by, xlabel: xlabel, ylabel: ylabel,
		lines: []line{{name: ylabel, from: "Scaling", where: where{"by": by}, unit: unit}},
	}
}

func memoryOf(by, xlabel string) chart {
	p := scaling(by, xlabel, "peak-MB", "peak memory, MB")
	p.file, p.title = "memory-"+by, "Memory of training by "+xlabel
	return p
}
