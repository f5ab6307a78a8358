// Prints the token ids that stock llama.cpp gives a text, one a line, to compare ours with.
//
//   tokens MODEL FILE
//
// The model's own special tokens are added at the ends, and those written out in the text are recognised.
#include <llama.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what, const char *name) {
	fprintf(stderr, "tokens: %s: %s\n", what, name);
	exit(1);
}

static void log_problems(enum ggml_log_level level, const char *text, void *unused) {
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static char *read_file(const char *path, long *size) {
	FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END)) fail("cannot open", path);
	*size = ftell(file);
	rewind(file);
	char *text = malloc(*size + 1);
	if (!text || fread(text, 1, *size, file) != (size_t)*size) fail("cannot read", path);
	fclose(file);
	return text;
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fputs("usage: tokens MODEL FILE\n", stderr);
		return 2;
	}
	llama_log_set(log_problems, NULL);
	llama_backend_init();
	struct llama_model_params params = llama_model_default_params();
	params.vocab_only = true;
	struct llama_model *model = llama_model_load_from_file(argv[1], params);
	if (!model) fail("cannot load the model", argv[1]);

	long size;
	char *text = read_file(argv[2], &size);
	int room = size + 16; // a token is a byte of text or more, apart from a few special ones
	llama_token *ids = malloc(room * sizeof *ids);
	if (!ids) fail("out of memory", argv[2]);
	int n = llama_tokenize(llama_model_get_vocab(model), text, size, ids, room, true, true);
	if (n < 0) fail("cannot tokenise", argv[2]);
	for (int i = 0; i < n; i++) printf("%d\n", ids[i]);

	free(ids);
	free(text);
	llama_model_free(model);
	llama_backend_free();
	return fflush(stdout) ? 1 : 0;
}
