// Writes the vectors or scores that stock llama.cpp makes of texts, to compare ours with.
//
//   embeddings [-p POOLING] MODEL TEXTS OUT
//
// TEXTS has the token ids of a text in each line; all are computed in one batch, as sequences of their own. POOLING is a
// number of llama.cpp's enumeration; without it, the model's counts. OUT becomes raw float32 in the machine's byte order,
// [n_texts][size], where a classifier's scores are as many as it has outputs. One thread, no flash attention, weights as
// they are in the file.
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 64, MAX_TOKENS = 4096 };

static void fail(const char *what, const char *name) {
	fprintf(stderr, "embeddings: %s: %s\n", what, name);
	exit(1);
}

static void log_problems(enum ggml_log_level level, const char *text, void *unused) {
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

// read_texts fills a batch with the ids of each line, and returns the number of lines.
static int read_texts(const char *path, struct llama_batch *batch) {
	FILE *file = fopen(path, "r");
	if (!file) fail("cannot open", path);
	static char line[1 << 16];
	int texts = 0;
	while (fgets(line, sizeof line, file)) {
		int position = 0;
		for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"), position++) {
			int i = batch->n_tokens++;
			if (i == MAX_TOKENS || texts == MAX_TEXTS) fail("too many tokens", path);
			batch->token[i] = atoi(word);
			batch->pos[i] = position;
			batch->n_seq_id[i] = 1;
			batch->seq_id[i][0] = texts;
			batch->logits[i] = 1;
		}
		texts++;
	}
	fclose(file);
	return texts;
}

static struct llama_context *open_context(struct llama_model *model, int n_tokens, int n_texts, int pooling) {
	struct llama_context_params params = llama_context_default_params();
	params.n_ctx = 256 * n_texts + n_tokens;
	params.n_batch = params.n_ubatch = (n_tokens + n_texts - 1) / n_texts * n_texts; // pooling by the mean demands a multiple
	params.n_seq_max = n_texts;
	params.n_threads = params.n_threads_batch = 1;
	params.type_k = params.type_v = GGML_TYPE_F32;
	params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
	params.kv_unified = true;
	params.embeddings = true;
	params.pooling_type = pooling;
	return llama_init_from_model(model, params);
}

int main(int argc, char **argv) {
	int pooling = LLAMA_POOLING_TYPE_UNSPECIFIED;
	if (argc > 2 && !strcmp(argv[1], "-p")) {
		pooling = atoi(argv[2]);
		argc -= 2, argv += 2;
	}
	if (argc != 4) {
		fputs("usage: embeddings [-p POOLING] MODEL TEXTS OUT\n", stderr);
		return 2;
	}
	llama_log_set(log_problems, NULL);
	ggml_backend_load_all();
	llama_backend_init();
	struct llama_model_params params = llama_model_default_params();
	params.n_gpu_layers = 0;
	params.use_extra_bufts = false; // repacked weights give other roundings on each kind of CPU
	struct llama_model *model = llama_model_load_from_file(argv[1], params);
	if (!model) fail("cannot load the model", argv[1]);
	struct llama_batch batch = llama_batch_init(MAX_TOKENS, 0, 1);
	int texts = read_texts(argv[2], &batch);
	struct llama_context *context = open_context(model, batch.n_tokens, texts, pooling);
	if (!context) fail("cannot make a context", argv[1]);
	int encoder = llama_model_has_encoder(model) && !llama_model_has_decoder(model);
	if (encoder ? llama_encode(context, batch) : llama_decode(context, batch)) fail("cannot compute", argv[2]);
	size_t size = llama_pooling_type(context) == LLAMA_POOLING_TYPE_RANK ? llama_model_n_cls_out(model) : (uint32_t)llama_model_n_embd_out(model);
	FILE *out = fopen(argv[3], "wb");
	if (!out) fail("cannot create", argv[3]);
	for (int i = 0; i < texts; i++) {
		const float *vector = llama_get_embeddings_seq(context, i);
		if (!vector) fail("there is no pooled vector", argv[1]);
		if (fwrite(vector, sizeof *vector, size, out) != size) fail("cannot write", argv[3]);
	}
	if (fclose(out)) fail("cannot write", argv[3]);
	llama_batch_free(batch);
	llama_free(context);
	llama_model_free(model);
	llama_backend_free();
	return 0;
}
