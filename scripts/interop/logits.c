// Writes the logits that stock llama.cpp computes for a sequence of tokens, to compare ours with.
//
//   logits [-c N_CTX] [-a ADAPTER=SCALE]... MODEL TOKENS OUT
//
// TOKENS is a text file of token ids, which are decoded in one batch. OUT gets raw float32 in native byte
// order, [n_tokens][n_vocab]. One thread, F32 KV cache, weights as stored in the file. Flash attention is on only for minimax-m3
// without dense layers: stock chooses minimax-m3's keys only with flash attention, which rounds the keys of dense layers to F16.
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };

static void fail(const char *what, const char *name) {
	fprintf(stderr, "logits: %s: %s\n", what, name);
	exit(1);
}

static void log_problems(enum ggml_log_level level, const char *text, void *unused) {
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

// read_tokens returns the ids in a file; *count receives their number.
static llama_token *read_tokens(const char *path, int *count) {
	FILE *file = fopen(path, "r");
	if (!file) fail("cannot open", path);
	int room = 1024, used = 0;
	llama_token *ids = malloc(room * sizeof *ids);
	for (int id; ids && fscanf(file, "%d", &id) == 1; ids[used++] = id)
		if (used == room) ids = realloc(ids, (room *= 2) * sizeof *ids);
	if (!ids) fail("out of memory", path);
	if (!feof(file) || used == 0) fail("not a list of token ids", path);
	fclose(file);
	*count = used;
	return ids;
}

// open_context creates a context that decodes n tokens in one batch.
static struct llama_context *open_context(struct llama_model *model, int n_ctx, int n) {
	char dense[16] = "";
	llama_model_meta_val_str(model, "minimax-m3.leading_dense_block_count", dense, sizeof dense);
	struct llama_context_params params = llama_context_default_params();
	params.n_ctx = n_ctx > n ? n_ctx : n;
	params.n_batch = params.n_ubatch = n;
	params.n_threads = params.n_threads_batch = 1;
	params.type_k = params.type_v = GGML_TYPE_F32;
	params.flash_attn_type = strcmp(dense, "0") ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
	return llama_init_from_model(model, params);
}

// decode runs all tokens as one sequence and requests the logits of each.
static int decode(struct llama_context *context, const llama_token *ids, int n) {
	struct llama_batch batch = llama_batch_init(n, 0, 1);
	batch.n_tokens = n;
	for (int i = 0; i < n; i++) {
		batch.token[i] = ids[i];
		batch.pos[i] = i;
		batch.n_seq_id[i] = 1;
		batch.seq_id[i][0] = 0;
		batch.logits[i] = 1;
	}
	int status = llama_decode(context, batch);
	llama_batch_free(batch);
	return status;
}

static void write_logits(struct llama_context *context, int n, size_t n_vocab, const char *path) {
	FILE *file = fopen(path, "wb");
	if (!file) fail("cannot create", path);
	for (int i = 0; i < n; i++)
		if (fwrite(llama_get_logits_ith(context, i), sizeof(float), n_vocab, file) != n_vocab) fail("cannot write", path);
	if (fclose(file)) fail("cannot write", path);
}

static int usage(void) {
	fputs("usage: logits [-c N_CTX] [-a ADAPTER=SCALE]... MODEL TOKENS OUT\n", stderr);
	return 2;
}

int main(int argc, char **argv) {
	char *adapter_paths[MAX_ADAPTERS];
	float scales[MAX_ADAPTERS];
	size_t n_adapters = 0;
	int n_ctx = 0, arg = 1;
	for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2) {
		if (!strcmp(argv[arg], "-c")) {
			n_ctx = atoi(argv[arg + 1]);
			continue;
		}
		char *equals = strrchr(argv[arg + 1], '=');
		if (strcmp(argv[arg], "-a") || !equals || n_adapters == MAX_ADAPTERS) return usage();
		*equals = 0;
		adapter_paths[n_adapters] = argv[arg + 1];
		scales[n_adapters++] = strtof(equals + 1, NULL);
	}
	if (argc - arg != 3) return usage();
	const char *model_path = argv[arg], *tokens_path = argv[arg + 1], *out_path = argv[arg + 2];

	llama_log_set(log_problems, NULL);
	ggml_backend_load_all();
	llama_backend_init();
	struct llama_model_params params = llama_model_default_params();
	params.n_gpu_layers = 0;
	params.use_extra_bufts = false; // repacked weights round differently on each kind of CPU
	struct llama_model *model = llama_model_load_from_file(model_path, params);
	if (!model) fail("cannot load the model", model_path);

	int n;
	llama_token *ids = read_tokens(tokens_path, &n);
	int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
	for (int i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= n_vocab) fail("a token id is not in the model's vocabulary", tokens_path);

	struct llama_context *context = open_context(model, n_ctx, n);
	if (!context) fail("cannot make a context", model_path);
	struct llama_adapter_lora *adapters[MAX_ADAPTERS];
	for (size_t i = 0; i < n_adapters; i++) {
		adapters[i] = llama_adapter_lora_init(model, adapter_paths[i]);
		if (!adapters[i]) fail("cannot load the adapter", adapter_paths[i]);
	}
	if (n_adapters && llama_set_adapters_lora(context, adapters, n_adapters, scales)) fail("cannot apply", adapter_paths[0]);

	if (decode(context, ids, n)) fail("cannot decode", tokens_path);
	write_logits(context, n, n_vocab, out_path);

	free(ids);
	llama_free(context);
	llama_model_free(model);
	llama_backend_free();
	return 0;
}
