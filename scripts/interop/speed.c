// Measures stock llama.cpp sample by sample, so that a benchmark can take its own samples in between: on a busy
// machine only samples that are close in time are comparable. It computes what llama-bench does, also with
// adapters and with several sequences at once.
//
//   speed [-t THREADS] [-c N_CTX] [-s SEQUENCES] [-k KV_TYPE] [-u cpu] [-a ADAPTER=SCALE]... MODEL
//
// Each line of standard input requests a sample. Each line of standard output is the seconds that it took, or
// with -u cpu the processor seconds, which are more accurate for one thread on a busy machine:
//
//   prompt N      N tokens into an empty context, with the logits of the last
//   generate N S  N times the next token of each of S sequences, which begin with one token
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ADAPTERS = 16, MAX_BATCH = 512 };

static void fail(const char *what, const char *name) {
	fprintf(stderr, "speed: %s: %s\n", what, name);
	exit(1);
}

static void log_problems(enum ggml_log_level level, const char *text, void *unused) {
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static clockid_t clock_used = CLOCK_MONOTONIC;

static double seconds(void) {
	struct timespec now;
	clock_gettime(clock_used, &now);
	return now.tv_sec + 1e-9 * now.tv_nsec;
}

static llama_token token(struct llama_context *context) {
	return rand() % llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
}

static void decode(struct llama_context *context, struct llama_batch batch) {
	if (llama_decode(context, batch)) fail("cannot decode", "a batch");
	llama_synchronize(context);
}

// prompt decodes n tokens of one sequence.
static void prompt(struct llama_context *context, struct llama_batch *batch, int n) {
	for (int from = 0; from < n; from += MAX_BATCH) {
		batch->n_tokens = n - from < MAX_BATCH ? n - from : MAX_BATCH;
		for (int i = 0; i < batch->n_tokens; i++) {
			batch->token[i] = token(context);
			batch->pos[i] = from + i;
			batch->n_seq_id[i] = 1;
			batch->seq_id[i][0] = 0;
			batch->logits[i] = from + i == n - 1;
		}
		decode(context, *batch);
	}
}

// step decodes one token of each sequence.
static void step(struct llama_context *context, struct llama_batch *batch, int pos, int sequences) {
	batch->n_tokens = sequences;
	for (int i = 0; i < sequences; i++) {
		batch->token[i] = token(context);
		batch->pos[i] = pos;
		batch->n_seq_id[i] = 1;
		batch->seq_id[i][0] = i;
		batch->logits[i] = 1;
	}
	decode(context, *batch);
}

static void serve(struct llama_context *context, int max_sequences) {
	struct llama_batch batch = llama_batch_init(MAX_BATCH, 0, 1);
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		int n, sequences = 1;
		llama_memory_clear(llama_get_memory(context), true);
		double began = 0;
		if (sscanf(line, "prompt %d", &n) == 1) {
			began = seconds();
			prompt(context, &batch, n);
		} else if (sscanf(line, "generate %d %d", &n, &sequences) == 2 && sequences <= max_sequences && sequences <= MAX_BATCH) {
			step(context, &batch, 0, sequences);
			began = seconds();
			for (int i = 1; i <= n; i++) step(context, &batch, i, sequences);
		} else {
			fail("not understood", line);
		}
		printf("%.9f\n", seconds() - began);
		fflush(stdout);
	}
	llama_batch_free(batch);
}

static enum ggml_type kv_type(const char *name) {
	for (int i = 0; i < GGML_TYPE_COUNT; i++) {
		const char *known = ggml_type_name(i);
		if (known && !strcmp(known, name)) return i;
	}
	fail("no type has this name", name);
	return GGML_TYPE_COUNT;
}

static int usage(void) {
	fputs("usage: speed [-t THREADS] [-c N_CTX] [-s SEQUENCES] [-k KV_TYPE] [-u cpu] [-a ADAPTER=SCALE]... MODEL\n", stderr);
	return 2;
}

int main(int argc, char **argv) {
	char *adapter_paths[MAX_ADAPTERS];
	float scales[MAX_ADAPTERS];
	size_t n_adapters = 0;
	int threads = 1, n_ctx = 512, sequences = 1, arg = 1;
	const char *type = "f16";
	for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2) {
		char *value = argv[arg + 1], *equals = strrchr(value, '=');
		switch (argv[arg][1]) {
		case 't': threads = atoi(value); break;
		case 'c': n_ctx = atoi(value); break;
		case 's': sequences = atoi(value); break;
		case 'k': type = value; break;
		case 'u': clock_used = strcmp(value, "cpu") ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID; break;
		case 'a':
			if (!equals || n_adapters == MAX_ADAPTERS) return usage();
			*equals = 0;
			adapter_paths[n_adapters] = value;
			scales[n_adapters++] = strtof(equals + 1, NULL);
			break;
		default: return usage();
		}
	}
	if (argc - arg != 1 || threads < 1 || n_ctx < 1 || sequences < 1) return usage();

	llama_log_set(log_problems, NULL);
	ggml_backend_load_all();
	llama_backend_init();
	struct llama_model_params model_params = llama_model_default_params();
	model_params.n_gpu_layers = 0;
	struct llama_model *model = llama_model_load_from_file(argv[arg], model_params);
	if (!model) fail("cannot load the model", argv[arg]);

	struct llama_context_params params = llama_context_default_params();
	params.n_ctx = n_ctx * sequences;
	params.n_seq_max = sequences;
	params.n_batch = params.n_ubatch = MAX_BATCH;
	params.n_threads = params.n_threads_batch = threads;
	params.type_k = params.type_v = kv_type(type);
	struct llama_context *context = llama_init_from_model(model, params);
	if (!context) fail("cannot make a context", argv[arg]);
	struct llama_adapter_lora *adapters[MAX_ADAPTERS];
	for (size_t i = 0; i < n_adapters; i++) {
		adapters[i] = llama_adapter_lora_init(model, adapter_paths[i]);
		if (!adapters[i]) fail("cannot load the adapter", adapter_paths[i]);
	}
	if (n_adapters && llama_set_adapters_lora(context, adapters, n_adapters, scales)) fail("cannot apply", adapter_paths[0]);

	serve(context, sequences);
	llama_free(context);
	llama_model_free(model);
	llama_backend_free();
	return 0;
}
