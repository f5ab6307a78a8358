#include <stdint.h>

typedef struct { int64_t value; char *error; } outcome;

// Returns the thread that it runs on, and adds *b to *a, both int64_t.
outcome testjob_add(void *a, void *b);
outcome testjob_fail(void *a, void *b);
