// Prints the token ids that stock llama.cpp gives texts, and the text to which it decodes them, to compare ours
// with.
//
//   tokens MODEL FILE
//
// FILE has the texts one after the other: the size in bytes, a newline, and the bytes. For each, the output has
// a line of ids and one of hexadecimal bytes. The model's own special tokens are added at the ends; special
// tokens in a text are recognised and written.
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

static void print_tokens(const struct llama_vocab *vocab, const char *text, int size) {
	int room = 4 * size + 16; // a byte of text is one token, or the three of U+FFFD
	llama_token *ids = malloc(room * sizeof *ids);
	if (!ids) fail("out of memory", "tokens");
	int n = llama_tokenize(vocab, text, size, ids, room, true, true);
	if (n < 0) fail("cannot tokenise", text);
	for (int i = 0; i < n; i++) printf(i ? " %d" : "%d", ids[i]);
	putchar('\n');
	int size_again = -llama_detokenize(vocab, ids, n, NULL, 0, false, true);
	char *again = malloc(size_again + 1);
	if (!again) fail("out of memory", "tokens");
	size_again = llama_detokenize(vocab, ids, n, again, size_again, false, true);
	for (int i = 0; i < size_again; i++) printf("%02x", (unsigned char)again[i]);
	putchar('\n');
	free(again);
	free(ids);
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
	FILE *file = fopen(argv[2], "rb");
	if (!file) fail("cannot open", argv[2]);
	for (int size; fscanf(file, "%d", &size) == 1;) {
		char *text = malloc(size + 1);
		if (!text || fgetc(file) != '\n' || fread(text, 1, size, file) != (size_t)size) fail("cannot read", argv[2]);
		print_tokens(llama_model_get_vocab(model), text, size);
		free(text);
	}
	fclose(file);
	llama_model_free(model);
	llama_backend_free();
	return fflush(stdout) ? 1 : 0;
}
